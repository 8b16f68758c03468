import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import {
  promotionsQuery,
  type Promotion,
  type PromotionListQuery,
} from "../../api/queries/promotions";
import { DataTable } from "../../ui/DataTable";
import { Failure } from "../../ui/States";
import { promotionColumns } from "./columns";

interface PromotionsTableProps {
  readonly query: PromotionListQuery;
  readonly hidden?: ReadonlySet<string>;
  readonly empty: ReactNode;
}

/** Families, the newest first; a row opens its evidence. */
export function PromotionsTable({ query, hidden, empty }: PromotionsTableProps) {
  const open = useNavigate();
  const found = useInfiniteQuery({
    ...promotionsQuery(query),
    placeholderData: (shown) => shown,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  if (found.isError && found.data === undefined) {
    return (
      <Failure what="The promotions" error={found.error} onRetry={() => void found.refetch()} />
    );
  }
  return (
    <DataTable<Promotion>
      label="Promotions"
      columns={promotionColumns}
      rows={rows}
      rowKey={(row) => row.family}
      onOpen={(row) => void open({ to: "/promotions/$family", params: { family: row.family } })}
      {...(hidden === undefined ? {} : { hidden })}
      hasMore={found.hasNextPage}
      isLoadingMore={found.isFetchingNextPage}
      onMore={() => void found.fetchNextPage()}
      skeletonRows={found.isPending ? 5 : 0}
      isStale={found.isPlaceholderData}
      height={rows.length > 60 ? "fill" : "auto"}
      empty={empty}
    />
  );
}
