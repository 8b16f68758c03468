/** A table over server pages: only the rows in sight are in the document, however many there are. */
import {
  columnVisibilityFeature,
  rowSortingFeature,
  tableFeatures,
  useTable,
  type ColumnDef,
  type SortingState,
} from "@tanstack/react-table";
import { useEffect, useMemo, useRef, type MouseEvent, type ReactNode } from "react";
import css from "./DataTable.module.css";
import { cx } from "./cx";
import { Icon } from "./Icon";
import { useRowKeys } from "./useRowKeys";
import { AHEAD, useRowsInSight, useSteadyScroll } from "./useRowsInSight";

const FEATURES = tableFeatures({ columnVisibilityFeature, rowSortingFeature });

export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** The whole of a title that was cut. */
  readonly hint?: string;
  /** What its cells hold says itself what it is. */
  readonly isTitleHidden?: boolean;
  readonly cell: (row: Row) => ReactNode;
  /** Pixels; with `grows` at least these. */
  readonly width: number;
  readonly grows?: boolean;
  readonly isNumber?: boolean;
  /** The server's name for sorting by it; without one it cannot be sorted. */
  readonly sort?: string;
}

export interface Sort {
  readonly by: string;
  readonly descending: boolean;
}

interface DataTableProps<Row> {
  readonly label: string;
  /** Stable between renders, as are the rows. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  /** Opens the row: Enter, or a click anywhere on it. */
  readonly onOpen?: (row: Row) => void;
  readonly sort?: Sort;
  readonly onSort?: (sort: Sort) => void;
  readonly hidden?: ReadonlySet<string>;
  readonly hasMore?: boolean;
  readonly isLoadingMore?: boolean;
  readonly onMore?: () => void;
  /** Rows shown as skeletons while the first page loads. */
  readonly skeletonRows?: number;
  readonly isStale?: boolean;
  /** `fill`: scrolls inside the rest of the window; `auto`: as tall as its rows. */
  readonly height?: "fill" | "auto";
  readonly empty?: ReactNode;
}

type Def<Row> = ColumnDef<typeof FEATURES, Row & object>;

function definitions<Row>(columns: readonly Column<Row>[]): Def<Row>[] {
  return columns.map((column) => ({
    id: column.id,
    header: column.title,
    accessorFn: () => null,
    enableSorting: column.sort !== undefined,
    cell: ({ row }) => column.cell(row.original),
  }));
}

/** A table without a row to go to is scrolled by keys itself. */
function scrolledByKeys(label: string, rows: number) {
  return rows > 0 ? {} : { tabIndex: 0, role: "group", "aria-label": label };
}

export function DataTable<Row>(props: DataTableProps<Row>) {
  const { columns, rows, rowKey, hidden, sort, hasMore = false, onMore, height = "auto" } = props;
  const frame = useRef<HTMLDivElement>(null);
  const sorting: SortingState =
    sort === undefined ? [] : [{ id: columnOf(columns, sort.by), desc: sort.descending }];
  const defs = useMemo(() => definitions(columns), [columns]);
  const table = useTable({
    features: FEATURES,
    columns: defs,
    data: rows as (Row & object)[],
    getRowId: (row) => rowKey(row),
    manualSorting: true,
    state: {
      sorting,
      columnVisibility: Object.fromEntries([...(hidden ?? [])].map((id) => [id, false])),
    },
  });
  const models = table.getRowModel().rows;
  const { shown, before, after, reveal } = useRowsInSight(frame, models.length, height === "fill");
  useSteadyScroll(frame, models[0]?.id, (id) => models.findIndex((model) => model.id === id));
  const last = shown.at(-1) ?? -1;
  const { isLoadingMore = false } = props;
  useEffect(() => {
    if (hasMore && !isLoadingMore && last >= models.length - AHEAD) onMore?.();
  }, [hasMore, isLoadingMore, last, models.length, onMore]);

  const keys = useRowKeys({
    count: models.length,
    reveal,
    open: (at) => {
      const model = models[at];
      if (model !== undefined) props.onOpen?.(model.original);
    },
  });
  const visible = columns.filter((column) => hidden?.has(column.id) !== true);
  const width = visible.reduce((sum, column) => sum + column.width, 0);
  const { skeletonRows = 0, isStale = false } = props;
  const is_waiting = skeletonRows > 0;

  return (
    <div
      ref={frame}
      className={cx(css.frame, height === "fill" && css.fill)}
      data-stale={isStale ? true : undefined}
      {...scrolledByKeys(props.label, models.length)}
    >
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- its rows are */}
      <table
        className={css.table}
        aria-label={props.label}
        aria-rowcount={hasMore ? -1 : models.length + 1}
        aria-busy={is_waiting ? true : undefined}
        style={{ minWidth: width }}
        onKeyDown={keys.onKeyDown}
      >
        <colgroup>
          {visible.map((column) => (
            <col
              key={column.id}
              style={column.grows === true ? undefined : { width: column.width }}
            />
          ))}
        </colgroup>
        <thead>
          <tr>
            {visible.map((column) => (
              <HeaderCell key={column.id} column={column} sort={sort} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody data-feed>
          {before > 0 && <Spacer px={before} span={visible.length} />}
          {shown.map((at) => {
            const model = models[at];
            if (model === undefined) return null;
            return (
              <tr
                key={model.id}
                aria-rowindex={at + 2}
                data-row={at}
                data-opens={props.onOpen !== undefined || undefined}
                tabIndex={at === keys.current ? 0 : -1}
                className={cx(css.row, at === keys.current && css.current)}
                onFocus={() => keys.setCurrent(at)}
                onClick={(event) => {
                  if (!isInteractive(event)) props.onOpen?.(model.original);
                }}
              >
                {model.getVisibleCells().map((cell, index) => (
                  <td
                    key={cell.id}
                    className={visible[index]?.isNumber === true ? css.number : undefined}
                  >
                    <table.FlexRender cell={cell} />
                  </td>
                ))}
              </tr>
            );
          })}
          {after > 0 && <Spacer px={after} span={visible.length} />}
          <SkeletonRows
            count={is_waiting ? skeletonRows : isLoadingMore ? 2 : 0}
            span={visible.length}
          />
        </tbody>
      </table>
      {!is_waiting && models.length === 0 && props.empty}
    </div>
  );
}

function columnOf<Row>(columns: readonly Column<Row>[], sort: string): string {
  return columns.find((column) => column.sort === sort)?.id ?? sort;
}

/** A click on a link or a button inside a row is not a click on the row; nor is marking text. */
function isInteractive(event: MouseEvent): boolean {
  const target = event.target instanceof Element ? event.target : null;
  const is_marking = (window.getSelection()?.toString() ?? "") !== "";
  return is_marking || target?.closest("a, button, input, select, label") !== null;
}

interface HeaderCellProps<Row> {
  readonly column: Column<Row>;
  readonly sort: Sort | undefined;
  readonly onSort: ((sort: Sort) => void) | undefined;
}

function HeaderCell<Row>({ column, sort, onSort }: HeaderCellProps<Row>) {
  const name = column.sort;
  const is_sorted = name !== undefined && sort?.by === name;
  const number = column.isNumber === true && css.number;
  if (name === undefined || onSort === undefined) {
    return (
      <th scope="col" className={cx(css.head, number)}>
        {column.isTitleHidden === true ? (
          <span className="visually-hidden">{column.title}</span>
        ) : (
          <span className={css.title} title={column.hint ?? column.title}>
            {column.title}
          </span>
        )}
      </th>
    );
  }
  const is_descending = sort?.descending === true;
  const direction = is_descending ? "descending" : "ascending";
  return (
    <th scope="col" className={cx(css.head, number)} aria-sort={is_sorted ? direction : "none"}>
      <button
        type="button"
        className={css.sort}
        onClick={() => onSort({ by: name, descending: !is_sorted || !is_descending })}
      >
        <span className={css.title} title={column.hint ?? column.title}>
          {column.title}
        </span>
        <span className={cx(css.arrow, is_sorted && css.sorted)}>
          <Icon name={is_sorted && !is_descending ? "arrow_up" : "arrow_down"} size={12} />
        </span>
      </button>
    </th>
  );
}

function Spacer({ px, span }: { readonly px: number; readonly span: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={span} style={{ height: px, padding: 0, border: 0 }} />
    </tr>
  );
}

function SkeletonRows({ count, span }: { readonly count: number; readonly span: number }) {
  return Array.from({ length: count }, (_, row) => (
    <tr key={`skeleton-${String(row)}`} className={css.row} aria-hidden="true">
      {Array.from({ length: span }, (_, cell) => (
        <td key={cell}>
          <span
            className={css.bone}
            style={{ width: `${String(40 + ((row * 31 + cell * 17) % 50))}%` }}
          />
        </td>
      ))}
    </tr>
  ));
}
