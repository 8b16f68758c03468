import type { Attempt, Trial } from "../../api/types";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Empty } from "../../ui/States";
import { Clipped, None, NumberValue, RelativeTime } from "../../ui/Values";

const COLUMNS: readonly Column<Attempt>[] = [
  {
    id: "kind",
    title: "Process",
    width: 120,
    grows: true,
    cell: (row) => <Clipped>{attemptName(row)}</Clipped>,
  },
  {
    id: "state",
    title: "State",
    width: 160,
    cell: (row) => <StateBadge state={row.state} reason={row.reason} />,
  },
  {
    id: "exit",
    title: "Exit",
    width: 50,
    isNumber: true,
    cell: (row) => row.exit_code ?? <None />,
  },
  {
    id: "wall",
    title: "Took",
    width: 76,
    isNumber: true,
    cell: (row) => <NumberValue value={row.wall_s} unit="seconds" />,
  },
  {
    id: "cpu",
    title: "CPU",
    width: 76,
    isNumber: true,
    cell: (row) => <NumberValue value={row.cpu_s} unit="seconds" />,
  },
  {
    id: "memory",
    title: "Memory",
    width: 84,
    isNumber: true,
    cell: (row) => <NumberValue value={row.max_rss_bytes} unit="bytes" />,
  },
  {
    id: "target",
    title: "Where",
    width: 104,
    cell: (row) => <Clipped>{oneLine(`${row.target} · ${row.host}`, 80)}</Clipped>,
  },
  { id: "at", title: "Started", width: 100, cell: (row) => <RelativeTime at={row.started_at} /> },
  {
    id: "detail",
    title: "Detail",
    width: 160,
    cell: (row) => (row.detail === "" ? <None /> : <Clipped>{oneLine(row.detail, 300)}</Clipped>),
  },
];
const WITHOUT_DETAIL: ReadonlySet<string> = new Set(["detail"]);

const attemptName = ({ kind, split, index }: Attempt): string =>
  oneLine([kind, split ?? "", index > 0 ? `#${String(index)}` : ""].filter(Boolean).join(" "), 60);

/** Every process that was started for the trial, and why it ended. */
export function AttemptsCard({ trial }: { readonly trial: Trial }) {
  return (
    <Card title="Attempts" isFlush>
      <DataTable<Attempt>
        label="Attempts"
        columns={COLUMNS}
        rows={trial.attempts}
        {...(trial.attempts.some((one) => one.detail !== "") ? {} : { hidden: WITHOUT_DETAIL })}
        rowKey={(row) => row.id}
        empty={<Empty icon="clock" title="Nothing was started" />}
      />
    </Card>
  );
}
