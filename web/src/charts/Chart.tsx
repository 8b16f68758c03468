/** A chart with its legend in words and the same data as a table. */
import type { EChartsType } from "echarts/core";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { oneLine } from "../format/text";
import { Skeleton } from "../ui/States";
import { Icon } from "../ui/Icon";
import type { ChartOption } from "./base";
import css from "./Chart.module.css";

export interface ChartTable {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly ReactNode[])[];
}

export interface ChartClick {
  readonly series: string;
  readonly data: unknown;
}

interface ChartProps {
  /** What it shows, in one sentence: read out in place of the picture. */
  readonly label: string;
  readonly option: ChartOption;
  readonly table: ChartTable;
  readonly height?: number;
  readonly legend?: ReactNode;
  readonly note?: ReactNode | undefined;
  readonly onClick?: (click: ChartClick) => void;
}

const TABLE_ROWS = 500;

export function Chart({ label, option, table, height = 320, legend, note, onClick }: ChartProps) {
  const [is_table, setTable] = useState(false);
  return (
    <figure className={css.figure}>
      <div className={css.bar}>
        <div className={css.legend}>{legend}</div>
        <button
          type="button"
          className={css.toggle}
          aria-pressed={is_table}
          onClick={() => setTable(!is_table)}
        >
          <Icon name={is_table ? "chart" : "table"} size={14} />
          {is_table ? "Chart" : "Table"}
        </button>
      </div>
      {is_table ? (
        <TableView label={label} table={table} height={height} />
      ) : (
        <Canvas label={label} option={option} height={height} onClick={onClick} />
      )}
      {note !== undefined && <figcaption className={css.note}>{note}</figcaption>}
    </figure>
  );
}

interface CanvasProps {
  readonly label: string;
  readonly option: ChartOption;
  readonly height: number;
  readonly onClick: ((click: ChartClick) => void) | undefined;
}

function Canvas({ label, option, height, onClick }: CanvasProps) {
  const frame = useRef<HTMLDivElement>(null);
  const [chart, setChart] = useState<EChartsType | null>(null);

  useEffect(() => {
    let is_gone = false;
    let made: EChartsType | undefined;
    let observer: ResizeObserver | undefined;
    void import("./echarts").then(({ newChart }) => {
      const element = frame.current;
      if (is_gone || element === null) return;
      made = newChart(element);
      observer = new ResizeObserver(() => made?.resize());
      observer.observe(element);
      setChart(made);
    });
    return () => {
      is_gone = true;
      observer?.disconnect();
      made?.dispose();
    };
  }, []);

  useEffect(() => {
    chart?.setOption(option, { replaceMerge: ["series"] });
  }, [chart, option]);

  useEffect(() => {
    if (chart === null || onClick === undefined) return undefined;
    const listen = (event: { seriesName?: string; data?: unknown }) =>
      onClick({ series: event.seriesName ?? "", data: event.data });
    chart.on("click", listen as (event: unknown) => void);
    return () => {
      if (!chart.isDisposed()) chart.off("click", listen);
    };
  }, [chart, onClick]);

  return (
    <div className={css.stage} style={{ height }}>
      {chart === null && (
        <div className={css.waiting}>
          <Skeleton height="100%" />
        </div>
      )}
      <div ref={frame} className={css.canvas} role="img" aria-label={oneLine(label)} />
    </div>
  );
}

interface TableViewProps {
  readonly label: string;
  readonly table: ChartTable;
  readonly height: number;
}

function TableView({ label, table, height }: TableViewProps) {
  const name = oneLine(label);
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard
    <div className={css.table} style={{ height }} tabIndex={0} role="region" aria-label={name}>
      <table>
        <thead>
          <tr>
            {table.columns.map((column) => (
              <th key={column} scope="col">
                {oneLine(column, 60)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, TABLE_ROWS).map((row, at) => (
            <tr key={at}>
              {row.map((cell, index) => (
                <td key={index}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > TABLE_ROWS && (
        <p className={css.note}>
          The first {TABLE_ROWS} of {table.rows.length} rows.
        </p>
      )}
    </div>
  );
}
