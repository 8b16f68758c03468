import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { auditQuery, type Audited } from "../../api/queries/system";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Empty, Failure } from "../../ui/States";
import { Clipped, Moment } from "../../ui/Values";

const COLUMNS: readonly Column<Audited>[] = [
  { id: "at", title: "At", width: 235, cell: (row) => <Moment at={row.at} /> },
  {
    id: "actor",
    title: "Who",
    width: 200,
    cell: (row) => <Clipped>{oneLine(row.actor, 120)}</Clipped>,
  },
  { id: "method", title: "Method", width: 84, cell: (row) => <Tag>{row.method}</Tag> },
  {
    id: "route",
    title: "Request",
    width: 240,
    grows: true,
    cell: (row) => <Clipped>{oneLine(row.route, 200)}</Clipped>,
  },
  {
    id: "subject",
    title: "About",
    width: 200,
    grows: true,
    cell: (row) => <Clipped>{oneLine(row.subject, 200)}</Clipped>,
  },
  {
    id: "status",
    title: "Answer",
    width: 84,
    isNumber: true,
    cell: (row) => <Tag tone={row.status < 400 ? "good" : "bad"}>{String(row.status)}</Tag>,
  },
];

/** Every request that changed something, the newest first. */
export function AuditPanel() {
  const found = useInfiniteQuery(auditQuery());
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  return (
    <Card
      title="Audit"
      note="every request that changed something, from the ledger's service chain"
      isFlush
    >
      {found.isError && found.data === undefined ? (
        <Failure what="The audit" error={found.error} onRetry={() => void found.refetch()} />
      ) : (
        <DataTable<Audited>
          label="Audit"
          columns={COLUMNS}
          rows={rows}
          rowKey={(row) => String(row.seq)}
          hasMore={found.hasNextPage}
          isLoadingMore={found.isFetchingNextPage}
          onMore={() => void found.fetchNextPage()}
          skeletonRows={found.isPending ? 6 : 0}
          height={rows.length > 40 ? "fill" : "auto"}
          empty={
            <Empty icon="ledger" title="Nothing was changed over this server">
              What is changed is listed here with who asked for it.
            </Empty>
          }
        />
      )}
    </Card>
  );
}
