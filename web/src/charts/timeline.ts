/** When each attempt ran, and beside which others: one line for each slot. */
import type { TimelinePlot } from "../api/types";
import { formatDuration, words } from "../format/numbers";
import { formatMoment } from "../format/times";
import { baseOption, chartText, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";

type Row = TimelinePlot["rows"][number];
type Tone = "accent" | "rare" | "info" | "bad" | "warn" | "mute";

export interface BarDatum {
  /** Slot, from, to (milliseconds). */
  readonly value: readonly [number, number, number];
  readonly number: number;
  readonly row: Row;
}

const BAD: ReadonlySet<string> = new Set(["rejected", "failed"]);

/** What ran, or that it went wrong. */
export function lookOf(row: Row): { readonly tone: Tone; readonly word: string } {
  if (BAD.has(row.state)) return { tone: "bad", word: "rejected" };
  if (row.state === "lost") return { tone: "warn", word: "lost" };
  if (row.state === "cancelled") return { tone: "mute", word: "cancelled" };
  switch (row.kind) {
    case "train":
      return { tone: "accent", word: "training" };
    case "evaluate":
      return { tone: "rare", word: "evaluation" };
    default:
      return { tone: "info", word: words(row.kind) };
  }
}

export function barsOf(plot: TimelinePlot): readonly BarDatum[] {
  const now = Date.parse(plot.now);
  return plot.rows.map((row) => ({
    value: [
      row.slot,
      Date.parse(row.started_at),
      row.ended_at === null ? now : Date.parse(row.ended_at),
    ],
    number: row.trial,
    row,
  }));
}

const SLOT_PX = 30;

export const timelineHeight = (plot: TimelinePlot): number =>
  Math.min(900, Math.max(140, 60 + SLOT_PX * plot.slots));

interface DrawApi {
  readonly value: (dimension: number) => number;
  readonly coord: (point: readonly [number, number]) => readonly [number, number];
  readonly size: (size: readonly [number, number]) => readonly [number, number];
  readonly visual: (name: string) => string;
}

interface DrawParams {
  readonly coordSys: { readonly x: number; readonly width: number };
}

function drawBar({ coordSys }: DrawParams, api: DrawApi): ChartOption {
  const [from, y] = api.coord([api.value(1), api.value(0)]);
  const [to] = api.coord([api.value(2), api.value(0)]);
  const height = Math.min(18, api.size([0, 1])[1] * 0.7);
  const left = Math.max(from, coordSys.x);
  const right = Math.min(Math.max(to, from + 2), coordSys.x + coordSys.width);
  return {
    type: "rect",
    shape: { x: left, y: y - height / 2, width: Math.max(0, right - left), height, r: 2 },
    style: { fill: api.visual("color") },
  };
}

export function timelineOption(plot: TimelinePlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  return {
    ...base,
    grid: { left: 12, right: 24, top: 12, bottom: 8, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      formatter: (hovered: unknown) => tooltip((hovered as { data: BarDatum }).data),
    },
    xAxis: {
      type: "time",
      axisLine: { lineStyle: { color: palette.border } },
      axisTick: { show: false },
      axisLabel: { color: palette.faint, hideOverlap: true },
      splitLine: { show: true, lineStyle: { color: palette.grid } },
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: Array.from({ length: plot.slots }, (_, slot) => String(slot + 1)),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: palette.faint },
      splitLine: { show: true, lineStyle: { color: palette.grid } },
    },
    series: [
      {
        type: "custom",
        name: "attempts",
        renderItem: drawBar,
        encode: { x: [1, 2], y: 0 },
        data: barsOf(plot).map((bar) => ({
          ...bar,
          itemStyle: {
            color: palette[lookOf(bar.row).tone],
            opacity: bar.row.ended_at === null ? 0.55 : 0.9,
          },
        })),
        cursor: "pointer",
      },
    ],
  };
}

function tooltip({ row, value: [, from, to] }: BarDatum): string {
  return [
    `Trial ${String(row.trial)} · ${lookOf(row).word}${row.split === null ? "" : ` on ${row.split}`}`,
    `${words(row.state)}${row.reason === null ? "" : `: ${words(row.reason)}`}`,
    `${formatMoment(row.started_at)}, ${formatDuration((to - from) / 1000)}${row.ended_at === null ? " so far" : ""}`,
    chartText(row.attempt, 60),
  ].join("\n");
}

export function timelineLegend(plot: TimelinePlot, palette: Palette): readonly LegendItem[] {
  const found = new Map(plot.rows.map((row) => [lookOf(row).word, lookOf(row).tone]));
  return [...found].map(([name, tone]) => ({ name, shape: "band", colour: palette[tone] }));
}

export function timelineTable(plot: TimelinePlot): ChartTable {
  return {
    columns: ["trial", "attempt", "what", "state", "slot", "began", "took"],
    rows: barsOf(plot).map(({ row, value: [slot, from, to] }) => [
      row.trial,
      row.attempt,
      lookOf(row).word,
      words(row.state),
      slot + 1,
      formatMoment(row.started_at),
      formatDuration((to - from) / 1000),
    ]),
  };
}
