/** All studies: how they stand, what they found, what they have left. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { studiesQuery } from "../../api/queries/studies";
import type { StudyListed } from "../../api/types";
import { Card } from "../../ui/Card";
import { DataTable, type Sort } from "../../ui/DataTable";
import { SearchField } from "../../ui/Field";
import { Chips, Toolbar } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure } from "../../ui/States";
import { useDebounced } from "../../ui/useDebounced";
import { studyColumns } from "./columns";
import { STATE_GROUPS, statesOf, type StateGroup, type StudiesSearch } from "./search";

const route = getRouteApi("/studies");

export function StudiesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const open = useNavigate();
  const change = (next: Partial<StudiesSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  const [text, setText] = useDebounced(search.q ?? "", (q) =>
    change({ q: q === "" ? undefined : q }),
  );
  const found = useInfiniteQuery({
    ...studiesQuery({
      text: search.q,
      state: statesOf(search.states),
      sort: search.sort ?? "submitted_at",
      order: search.order ?? "desc",
    }),
    placeholderData: (shown) => shown,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  const is_filtered = search.q !== undefined || search.states !== undefined;
  const sort: Sort = { by: search.sort ?? "submitted_at", descending: search.order !== "asc" };
  return (
    <>
      <PageHeader title="Studies" />
      <Card isFlush>
        <Toolbar>
          <SearchField label="Search names" value={text} onChange={setText} />
          <Chips<StateGroup>
            label="States"
            options={STATE_GROUPS}
            chosen={search.states ?? []}
            onChange={(states) => change({ states: states.length === 0 ? undefined : [...states] })}
          />
        </Toolbar>
        {found.isError && found.data === undefined ? (
          <Failure what="The studies" error={found.error} onRetry={() => void found.refetch()} />
        ) : (
          <DataTable<StudyListed>
            label="Studies"
            columns={studyColumns}
            rows={rows}
            rowKey={(row) => row.study}
            onOpen={(row) => void open({ to: "/studies/$study", params: { study: row.study } })}
            sort={sort}
            onSort={({ by, descending }) =>
              change({ sort: by as StudiesSearch["sort"], order: descending ? "desc" : "asc" })
            }
            hasMore={found.hasNextPage}
            isLoadingMore={found.isFetchingNextPage}
            onMore={() => void found.fetchNextPage()}
            skeletonRows={found.isPending ? 6 : 0}
            isStale={found.isPlaceholderData}
            height={rows.length > 60 ? "fill" : "auto"}
            empty={is_filtered ? <NoMatch /> : <NoStudies />}
          />
        )}
      </Card>
    </>
  );
}

function NoMatch() {
  return (
    <Empty icon="search" title="No study matches">
      Change the search or the states above.
    </Empty>
  );
}

function NoStudies() {
  return (
    <Empty title="No studies yet">
      <code>arl init DIR</code> writes an example, <code>arl submit DIR/study.yaml</code> starts it.
      It appears here by itself.
    </Empty>
  );
}
