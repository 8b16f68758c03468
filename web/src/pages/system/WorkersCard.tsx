/** Who drives which study, who has nothing to do, and who fell silent lately. */
import type { Worker } from "../../api/queries/system";
import { oneLine } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Empty } from "../../ui/States";
import { Clipped, RelativeTime } from "../../ui/Values";
import { StudyLink } from "./StudyLink";
import css from "./System.module.css";
import { WORKER_TONES, workerRows, type WorkerRow } from "./workers";

const COLUMNS: readonly Column<WorkerRow>[] = [
  {
    id: "owner",
    title: "Worker",
    width: 200,
    grows: true,
    cell: ({ worker }) => <Clipped>{oneLine(worker.owner, 120)}</Clipped>,
  },
  {
    id: "is",
    title: "Is",
    width: 90,
    cell: ({ worker }) => <Tag tone={WORKER_TONES[worker.state]}>{worker.state}</Tag>,
  },
  {
    id: "study",
    title: "Study",
    width: 180,
    grows: true,
    cell: ({ lease }) => lease !== null && <StudyLink study={lease.study} name={lease.name} />,
  },
  {
    id: "state",
    title: "State",
    width: 130,
    cell: ({ lease }) => lease !== null && <StateBadge state={lease.state} />,
  },
  {
    id: "fence",
    title: "Fence",
    width: 70,
    isNumber: true,
    cell: ({ lease }) => lease?.fence,
  },
  {
    id: "lease",
    title: "Lease",
    width: 190,
    cell: ({ worker, lease }) => {
      if (lease === null) return <Seen at={worker.seen_at} />;
      if (!lease.is_valid) return <Tag tone="warn">lapsed</Tag>;
      return (
        <>
          ends <RelativeTime at={lease.expires_at} />
        </>
      );
    },
  },
];

function Seen({ at }: { readonly at: string | null }) {
  if (at === null) return null;
  return (
    <span className={css.faint}>
      heard of <RelativeTime at={at} />
    </span>
  );
}

export function WorkersCard({ workers }: { readonly workers: readonly Worker[] }) {
  return (
    <Card title="Workers and leases" isFlush>
      <DataTable<WorkerRow>
        label="Leases"
        columns={COLUMNS}
        rows={workerRows(workers)}
        rowKey={({ worker, lease }) => `${worker.owner} ${lease?.study ?? ""}`}
        empty={
          <Empty icon="system" title="No worker is at work">
            <code>arl serve</code> keeps one beside it; <code>arl worker</code> starts another.
          </Empty>
        }
      />
    </Card>
  );
}
