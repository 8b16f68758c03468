/** The trials of a study: filtered, sorted and paged by the server, patched by the event stream. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { trialsQuery } from "../../api/queries/trials";
import type { TrialListed } from "../../api/types";
import { plural } from "../../format/numbers";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { ColumnPicker } from "../../ui/ColumnPicker";
import { DataTable, type Sort } from "../../ui/DataTable";
import { SearchField } from "../../ui/Field";
import { Icon } from "../../ui/Icon";
import { Chips, Toolbar } from "../../ui/Layout";
import { Empty, Failure } from "../../ui/States";
import { useDebounced } from "../../ui/useDebounced";
import { useHidden } from "../../ui/useHidden";
import { CompareButton } from "../compare/Picking";
import { hiddenAtFirst, namesIn, trialColumns, type DynamicNames } from "./columns";
import { Conditions } from "./Conditions";
import { SavedFilters } from "./SavedFilters";
import {
  csvAddress,
  isFiltered,
  KINDS,
  OUTCOMES,
  trialListQuery,
  type Kind,
  type Outcome,
  type TrialsSearch,
} from "./search";
import css from "./Trials.module.css";

const route = getRouteApi("/studies/$study/trials");

export function TrialsPage() {
  const { study } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<TrialsSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  const [text, setText] = useDebounced(search.q ?? "", (q) =>
    change({ q: q === "" ? undefined : q }),
  );
  return (
    <Card isFlush>
      <Toolbar>
        <SearchField label="Search ids, parameters, reasons" value={text} onChange={setText} />
        <Chips<Outcome>
          label="Outcome"
          isNamed
          options={OUTCOMES}
          chosen={search.outcomes ?? []}
          onChange={(outcomes) =>
            change({ outcomes: outcomes.length === 0 ? undefined : [...outcomes] })
          }
        />
        <Chips<Kind>
          label="Kind"
          isNamed
          options={KINDS}
          chosen={search.kinds ?? []}
          onChange={(kinds) => change({ kinds: kinds.length === 0 ? undefined : [...kinds] })}
        />
        <Conditions
          chosen={search.where ?? []}
          onChange={(where) => change({ where: where.length === 0 ? undefined : where })}
        />
        <SavedFilters
          key={study}
          study={study}
          search={search}
          onChoose={(saved) => void navigate({ search: saved })}
        />
      </Toolbar>
      <List key={study} study={study} search={search} change={change} />
    </Card>
  );
}

interface ListProps {
  readonly study: string;
  readonly search: TrialsSearch;
  readonly change: (next: Partial<TrialsSearch>) => void;
}

function List({ study, search, change }: ListProps) {
  const open = useNavigate();
  const found = useInfiniteQuery({
    ...trialsQuery(study, trialListQuery(search)),
    placeholderData: (shown) => shown,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  const names = useStableNames(rows);
  const columns = useMemo(() => trialColumns(names), [names]);
  const first = useMemo(() => hiddenAtFirst(names), [names]);
  const [hidden, setHidden] = useHidden(`arl.columns.${study}`, first);
  const sort: Sort = { by: search.sort ?? "number", descending: search.order !== "asc" };
  if (found.isError && found.data === undefined) {
    return <Failure what="The trials" error={found.error} onRetry={() => void found.refetch()} />;
  }
  const total = found.data?.pages[0]?.total ?? null;
  return (
    <>
      <div className={css.bar}>
        <span className={css.total} aria-live="polite">
          {found.isPending
            ? "…"
            : total === null
              ? plural(rows.length, "trial")
              : plural(total, "trial")}
          {isFiltered(search) && !found.isPending && " match"}
        </span>
        <span className={css.tools}>
          <CompareButton />
          <Button
            look="quiet"
            icon="refresh"
            aria-label="Read again"
            title="Read again"
            isBusy={found.isRefetching}
            onClick={() => void found.refetch()}
          />
          <ColumnPicker columns={columns} hidden={hidden} onChange={setHidden} />
          <a className={css.csv} href={csvAddress(study, search)} download>
            <Icon name="download" size={14} /> CSV
          </a>
        </span>
      </div>
      <DataTable<TrialListed>
        label="Trials"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.id}
        onOpen={(row) =>
          void open({
            to: "/studies/$study/trials/$number",
            params: { study, number: String(row.number) },
          })
        }
        sort={sort}
        onSort={({ by, descending }) => change({ sort: by, order: descending ? "desc" : "asc" })}
        hidden={hidden}
        hasMore={found.hasNextPage}
        isLoadingMore={found.isFetchingNextPage}
        onMore={() => void found.fetchNextPage()}
        skeletonRows={found.isPending ? 12 : 0}
        isStale={found.isPlaceholderData}
        height={rows.length > 25 ? "fill" : "auto"}
        empty={isFiltered(search) ? <NoMatch /> : <NoTrials />}
      />
    </>
  );
}

/** The same object as long as the names are the same: a table is not built anew for each row. */
function useStableNames(rows: readonly TrialListed[]): DynamicNames {
  const names = namesIn(rows);
  const key = JSON.stringify(names);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- the key is what the names are
  return useMemo(() => names, [key]);
}

function NoMatch() {
  return (
    <Empty icon="filter" title="No trial matches">
      Change the filters above.
    </Empty>
  );
}

function NoTrials() {
  return <Empty title="No trials yet">The first appears here as soon as it is proposed.</Empty>;
}
