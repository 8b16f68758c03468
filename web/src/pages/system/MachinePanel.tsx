import { useQuery } from "@tanstack/react-query";
import { systemQuery, type Running, type System } from "../../api/queries/system";
import {
  formatBytes,
  formatCount,
  formatNumber,
  formatShare,
  plural,
  words,
} from "../../format/numbers";
import { heldText } from "../../format/shares";
import { oneLine } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { KeyValue } from "../../ui/KeyValue";
import { Failure, Loading, Skeleton } from "../../ui/States";
import { Clipped, Digest, NumberValue } from "../../ui/Values";
import { cx } from "../../ui/cx";
import css from "./System.module.css";
import { StudyLink } from "./StudyLink";
import { WaitingCard } from "./WaitingCard";
import { WorkersCard } from "./WorkersCard";
import { liveWorkers, workersNote } from "./workers";

export function MachinePanel() {
  const found = useQuery(systemQuery());
  if (found.data !== undefined) return <Loaded system={found.data} />;
  if (found.isError)
    return <Failure what="The system" error={found.error} onRetry={() => void found.refetch()} />;
  return (
    <Loading what="the system">
      <Skeleton height="24rem" />
    </Loading>
  );
}

function Loaded({ system }: { readonly system: System }) {
  const running = system.running.reduce((sum, one) => sum + one.count, 0);
  const studies = Object.values(system.studies).reduce((sum, count) => sum + count, 0);
  return (
    <div className={css.panel}>
      <StatTiles>
        <StatTile label="Workers" note={workersNote(system.workers)}>
          {formatCount(liveWorkers(system.workers))}
        </StatTile>
        <StatTile label="Running attempts">{formatCount(running)}</StatTile>
        <StatTile label="Studies" note={studyNote(system)}>
          {formatCount(studies)}
        </StatTile>
        <StatTile label="Open event streams" note={`server ${system.version}`}>
          {system.streams}
        </StatTile>
      </StatTiles>
      <WorkersCard workers={system.workers} />
      {system.waiting.length > 0 && <WaitingCard waiting={system.waiting} />}
      {system.running.length > 0 && (
        <Card title="Running" isFlush>
          <DataTable<Running>
            label="Running attempts"
            columns={RUNNING}
            rows={system.running}
            rowKey={(row) => [row.study, row.host, row.target, row.state].join(" ")}
          />
        </Card>
      )}
      <div className={css.grid}>
        <PoolCard system={system} />
        <DiskCard disk={system.disk} holds="the artifacts" />
        {system.ledger_disk !== null && <DiskCard disk={system.ledger_disk} holds="the ledger" />}
        <TargetsCard system={system} />
        <LedgerCard system={system} />
      </div>
    </div>
  );
}

function studyNote({ studies }: System): string {
  return Object.entries(studies)
    .map(([state, count]) => `${formatCount(count)} ${words(state)}`)
    .join(", ");
}

const RUNNING: readonly Column<Running>[] = [
  {
    id: "study",
    title: "Study",
    width: 200,
    grows: true,
    cell: (row) => <StudyLink study={row.study} name={row.study} />,
  },
  {
    id: "host",
    title: "Host",
    width: 160,
    cell: (row) => <Clipped>{oneLine(row.host, 80)}</Clipped>,
  },
  { id: "target", title: "Target", width: 120, cell: (row) => <Tag>{row.target}</Tag> },
  { id: "state", title: "State", width: 130, cell: (row) => <StateBadge state={row.state} /> },
  { id: "count", title: "Attempts", width: 90, isNumber: true, cell: (row) => row.count },
];

function PoolCard({ system: { pool, held } }: { readonly system: System }) {
  return (
    <Card title="Resource pool" note="what this machine gives to trials">
      <KeyValue
        facts={[
          { name: "Host", value: oneLine(pool.host, 80) },
          { name: "CPUs", value: formatNumber(pool.cpus) },
          { name: "Memory", value: <NumberValue value={pool.memory_bytes} unit="bytes" /> },
          {
            name: "GPUs",
            value:
              pool.gpu_ids.length === 0
                ? "none"
                : pool.gpu_ids.map((id) => oneLine(id, 40)).join(", "),
          },
          ...held.map((one) => ({
            name: `Held on ${oneLine(one.host, 60)}`,
            value: `${heldText(one)} by ${plural(one.trials, "trial")}`,
          })),
        ]}
      />
    </Card>
  );
}

function DiskCard({ disk, holds }: { readonly disk: System["disk"]; readonly holds: string }) {
  const used = disk.total_bytes <= 0 ? 0 : 1 - disk.free_bytes / disk.total_bytes;
  const said = `${formatBytes(disk.free_bytes)} free of ${formatBytes(disk.total_bytes)}`;
  return (
    <Card title="Disk" note={`the file system with ${holds}`}>
      <p>{said}</p>
      <div
        className={cx(css.meter, disk.is_low && css.low)}
        role="progressbar"
        aria-label="Disk used"
        aria-valuenow={Math.round(used * 100)}
        aria-valuetext={said}
      >
        <span className={css.used} style={{ width: `${String(used * 100)}%` }} />
      </div>
      <p className={css.faint}>
        {formatShare(used)} used.{" "}
        {disk.is_low
          ? `Studies wait until ${formatBytes(disk.min_free_bytes)} are free.`
          : `Below ${formatBytes(disk.min_free_bytes)} free, studies pause.`}
      </p>
    </Card>
  );
}

function TargetsCard({ system: { targets } }: { readonly system: System }) {
  return (
    <Card title="Targets" note={plural(targets.length, "place")}>
      {targets.length === 0 ? (
        <p className={css.faint}>Nothing ran here yet.</p>
      ) : (
        <ul className={css.targets}>
          {targets.map((target) => (
            <li key={target.name}>
              <code>{oneLine(target.name, 60)}</code>
              {target.is_sandbox ? (
                <Tag tone="good">sandbox</Tag>
              ) : (
                <Tag tone="warn" title="It contains accidents, not adversaries">
                  no sandbox
                </Tag>
              )}
              {target.is_shared && <Tag>shared by machines</Tag>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function LedgerCard({ system }: { readonly system: System }) {
  const { ledger } = system;
  return (
    <Card title="Ledger">
      <KeyValue
        facts={[
          { name: "Id", value: <Digest value={ledger.id} what="ledger's id" /> },
          { name: "Database", value: ledger.backend },
          { name: "Size", value: <NumberValue value={ledger.size_bytes} unit="bytes" /> },
        ]}
      />
    </Card>
  );
}
