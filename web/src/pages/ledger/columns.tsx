import type { Link } from "../../api/types";
import { tellEntry } from "../../format/entries";
import { words } from "../../format/numbers";
import { Tag } from "../../ui/Badge";
import type { Column } from "../../ui/DataTable";
import { Clipped, Moment } from "../../ui/Values";

export const linkColumns: readonly Column<Link>[] = [
  { id: "seq", title: "Seq", width: 76, isNumber: true, cell: (row) => row.seq },
  { id: "at", title: "At", width: 235, cell: (row) => <Moment at={row.at} /> },
  {
    id: "kind",
    title: "Kind",
    width: 180,
    cell: (row) => <Tag tone={tellEntry(row).tone}>{words(row.kind)}</Tag>,
  },
  {
    id: "text",
    title: "What",
    width: 320,
    grows: true,
    cell: (row) => <Clipped>{tellEntry(row).text}</Clipped>,
  },
  {
    id: "digest",
    title: "Digest",
    width: 140,
    cell: (row) => <code title={row.digest}>{row.digest.slice(0, 12)}</code>,
  },
];
