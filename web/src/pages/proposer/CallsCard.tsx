/** Requests to language models, the newest first. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { modelCallsQuery } from "../../api/queries/proposer";
import type { ModelCallListed } from "../../api/types";
import { formatCount } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { words } from "../../format/numbers";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Failure } from "../../ui/States";
import { Clipped, NumberValue, RelativeTime } from "../../ui/Values";
import { Cost } from "./Cost";

const columnsOf = (study: string): readonly Column<ModelCallListed>[] => [
  {
    id: "number",
    title: "Call",
    width: 64,
    cell: (row) => (
      <Link to="/studies/$study/model-calls/$call" params={{ study, call: String(row.number) }}>
        {row.number}
      </Link>
    ),
  },
  { id: "outcome", title: "Outcome", width: 120, cell: (row) => <Tag>{words(row.outcome)}</Tag> },
  {
    id: "model",
    title: "Model",
    width: 160,
    grows: true,
    cell: (row) => <Clipped>{oneLine(row.model, 100)}</Clipped>,
  },
  {
    id: "told",
    title: "Told",
    width: 90,
    isNumber: true,
    cell: (row) => formatCount(row.prompt_tokens),
  },
  {
    id: "said",
    title: "Said",
    width: 90,
    isNumber: true,
    cell: (row) => formatCount(row.completion_tokens),
  },
  {
    id: "cost",
    title: "Cost",
    width: 90,
    isNumber: true,
    cell: (row) => <Cost usd={row.cost_usd} />,
  },
  {
    id: "took",
    title: "Took",
    width: 90,
    isNumber: true,
    cell: (row) => <NumberValue value={row.latency_s} unit="seconds" />,
  },
  { id: "at", title: "When", width: 120, cell: (row) => <RelativeTime at={row.at} /> },
];

export function CallsCard({ study }: { readonly study: string }) {
  const navigate = useNavigate();
  const found = useInfiniteQuery(modelCallsQuery(study));
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  const columns = useMemo(() => columnsOf(study), [study]);
  if (found.isError && found.data === undefined) {
    return (
      <Card title="Model calls">
        <Failure what="The calls" error={found.error} onRetry={() => void found.refetch()} />
      </Card>
    );
  }
  if (found.data !== undefined && rows.length === 0) return null;
  return (
    <Card
      title="Model calls"
      note="Told and said are counted in tokens; open one to read the words."
      isFlush
    >
      <DataTable<ModelCallListed>
        label="Model calls"
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.number)}
        onOpen={(row) =>
          void navigate({
            to: "/studies/$study/model-calls/$call",
            params: { study, call: String(row.number) },
          })
        }
        hasMore={found.hasNextPage}
        isLoadingMore={found.isFetchingNextPage}
        onMore={() => void found.fetchNextPage()}
        skeletonRows={found.isPending ? 4 : 0}
        height={rows.length > 25 ? "fill" : "auto"}
      />
    </Card>
  );
}
