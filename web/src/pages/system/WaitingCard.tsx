/** Studies that wait for room on a machine, and for how much. */
import type { Want } from "../../api/queries/system";
import { formatNumber } from "../../format/numbers";
import { wantedText } from "../../format/shares";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Clipped, RelativeTime } from "../../ui/Values";
import { StudyLink } from "./StudyLink";

const COLUMNS: readonly Column<Want>[] = [
  {
    id: "study",
    title: "Study",
    width: 180,
    grows: true,
    cell: (row) => <StudyLink study={row.study} name={row.study} />,
  },
  {
    id: "host",
    title: "Host",
    width: 160,
    cell: (row) => <Clipped>{oneLine(row.host, 80)}</Clipped>,
  },
  { id: "wants", title: "Waits for", width: 180, cell: (row) => wantedText(row) },
  { id: "since", title: "Since", width: 140, cell: (row) => <RelativeTime at={row.since} /> },
  {
    id: "priority",
    title: "Priority",
    width: 90,
    isNumber: true,
    cell: (row) => formatNumber(row.priority),
  },
  {
    id: "weight",
    title: "Weight",
    width: 90,
    isNumber: true,
    cell: (row) => formatNumber(row.weight),
  },
];

export function WaitingCard({ waiting }: { readonly waiting: readonly Want[] }) {
  return (
    <Card title="Waiting for room" isFlush>
      <DataTable<Want>
        label="Studies that wait for room"
        columns={COLUMNS}
        rows={waiting}
        rowKey={(row) => row.study}
      />
    </Card>
  );
}
