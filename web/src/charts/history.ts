/** Values in the order trials ended, told apart by how they ended, with the best so far. */
import type { HistoryPlot } from "../api/types";
import { formatNumber, words } from "../format/numbers";
import { axisNumber, baseOption, chartText, measureAxis, stepAxis, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";

type Outcome = HistoryPlot["outcomes"][number];

export interface Mark {
  readonly symbol: string;
  readonly size: number;
  readonly shape: LegendItem["shape"];
  readonly tone: "good" | "mute" | "warn" | "bad" | "rare" | "info";
}

/** Shape and colour say the same thing twice. */
export const MARKS: Readonly<Record<Outcome, Mark>> = {
  kept: { symbol: "circle", size: 9, shape: "dot", tone: "good" },
  discarded: { symbol: "circle", size: 6, shape: "ring", tone: "mute" },
  served: { symbol: "diamond", size: 7, shape: "frame", tone: "mute" },
  measured: { symbol: "diamond", size: 8, shape: "diamond", tone: "rare" },
  pruned: { symbol: "triangle", size: 8, shape: "triangle", tone: "warn" },
  failed: {
    symbol: "path://M0 1L1 0L4 3L7 0L8 1L5 4L8 7L7 8L4 5L1 8L0 7L3 4Z",
    size: 8,
    shape: "cross",
    tone: "bad",
  },
  cancelled: { symbol: "rect", size: 6, shape: "square", tone: "mute" },
};

const isHollow = ({ shape }: Mark): boolean => shape === "ring" || shape === "frame";

/** Trial and value of a mark that was clicked. */
export interface HistoryDatum {
  readonly value: readonly [number, number];
  readonly number: number;
}

/** Trials without a value lie on a line of their own, under the values. */
const NO_VALUE_PX = 26;

export function historyOption(plot: HistoryPlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  const has_marks = plot.without_value.finish.length > 0;
  const last = Math.max(1, ...tail(plot.points.finish), ...tail(plot.without_value.finish));
  const first = Math.min(
    last,
    ...plot.points.finish.slice(0, 1),
    ...plot.without_value.finish.slice(0, 1),
  );
  const left = labelsWidth(plot);
  const x = { ...stepAxis(palette, "trials ended"), min: Math.max(0, first - 1), max: last };
  return {
    ...base,
    grid: [
      {
        left,
        right: 24,
        top: 28,
        bottom: has_marks ? 50 + NO_VALUE_PX : 48,
      },
      { left, right: 24, height: NO_VALUE_PX, bottom: 46 },
    ],
    tooltip: {
      ...(base.tooltip as object),
      trigger: "item",
      formatter: (point: unknown) => tooltip(point as TooltipPoint, plot.metric),
    },
    dataZoom: [
      { type: "inside", xAxisIndex: [0, 1], zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
    ],
    xAxis: [
      has_marks
        ? { ...x, gridIndex: 0, name: "", axisLabel: { show: false }, axisLine: { show: false } }
        : { ...x, gridIndex: 0 },
      { ...x, gridIndex: 1, show: has_marks },
    ],
    yAxis: [
      { ...measureAxis(palette, chartText(plot.metric, 40)), gridIndex: 0 },
      { type: "value", gridIndex: 1, min: -1, max: 1, show: false },
    ],
    series: [
      bandSeries(plot, palette, last),
      bestSeries(plot, palette, last),
      ...outcomeSeries(plot, palette),
    ],
  };
}

/** Both grids begin where the longest number of the axis ends: fitted by itself, each would begin
 * elsewhere, and a trial without a value stand under another one's. */
function labelsWidth(plot: HistoryPlot): number {
  const mean = baselineMean(plot);
  let [low, high] = mean === null ? [Infinity, -Infinity] : [mean, mean];
  for (const value of plot.points.value) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const texts = [low, high].filter(Number.isFinite).map(axisNumber);
  return 16 + 7 * Math.max(5, ...texts.map((text) => text.length));
}

const tail = (values: readonly number[]): readonly number[] => values.slice(-1);

function outcomeSeries(plot: HistoryPlot, palette: Palette): readonly ChartOption[] {
  return plot.outcomes.flatMap((outcome, place) => {
    const mark = MARKS[outcome];
    const look = {
      type: "scatter",
      name: words(outcome),
      symbol: mark.symbol,
      symbolSize: mark.size,
      itemStyle: isHollow(mark)
        ? { color: palette.surface, borderColor: palette[mark.tone], borderWidth: 1.5 }
        : { color: palette[mark.tone] },
      z: outcome === "kept" ? 5 : 3,
      cursor: "pointer",
    };
    const { points, without_value } = plot;
    const valued = points.finish.flatMap((finish, at) => {
      const value = points.value[at];
      if (points.outcome[at] !== place || value === null || value === undefined) return [];
      return [{ value: [finish, value], number: points.number[at] }];
    });
    const unvalued = without_value.finish.flatMap((finish, at) =>
      without_value.outcome[at] === place
        ? [{ value: [finish, 0], number: without_value.number[at] }]
        : [],
    );
    return [
      ...(valued.length > 0 ? [{ ...look, data: valued }] : []),
      ...(unvalued.length > 0 ? [{ ...look, data: unvalued, xAxisIndex: 1, yAxisIndex: 1 }] : []),
    ];
  });
}

function bestSeries(plot: HistoryPlot, palette: Palette, last: number): ChartOption {
  const steps = plot.best.finish.flatMap((finish, at) => {
    const value = plot.best.value[at];
    return value === null || value === undefined ? [] : [[finish, value] as const];
  });
  const end = steps.at(-1);
  return {
    type: "line",
    name: "best so far",
    step: "end",
    symbol: "none",
    silent: true,
    z: 2,
    lineStyle: { color: palette.accent, width: 1.6 },
    data: end === undefined ? [] : [...steps, [last, end[1]]],
  };
}

/** The baseline's mean, and around it the band in which nothing differs. */
function bandSeries(plot: HistoryPlot, palette: Palette, last: number): ChartOption {
  const mean = baselineMean(plot);
  if (mean === null) return { type: "line", name: "baseline", data: [] };
  const noise = plot.noise_floor ?? 0;
  return {
    type: "line",
    name: "baseline",
    // Unseen: an axis makes room for points only, not for lines and areas.
    data: [
      [last, mean - noise],
      [last, mean + noise],
    ],
    symbol: "none",
    lineStyle: { opacity: 0 },
    silent: true,
    z: 1,
    markLine: {
      silent: true,
      symbol: "none",
      label: { show: false },
      lineStyle: { color: palette.faint, type: "dashed", width: 1 },
      data: [{ yAxis: mean }],
    },
    markArea: {
      silent: true,
      itemStyle: { color: palette.band },
      data: noise > 0 ? [[{ yAxis: mean - noise }, { yAxis: mean + noise }]] : [],
    },
  };
}

function baselineMean(plot: HistoryPlot): number | null {
  const values = plot.baseline.filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

interface TooltipPoint {
  readonly seriesName: string;
  readonly data: HistoryDatum;
  readonly seriesType: string;
}

function tooltip({ seriesName, data }: TooltipPoint, metric: string): string {
  const value =
    seriesName === "failed" || seriesName === "pruned" || seriesName === "cancelled"
      ? ""
      : formatNumber(data.value[1], 5);
  return [
    `Trial ${String(data.number)} · ${seriesName}`,
    value === "" ? "no value" : `${chartText(metric, 30)} ${value}`,
  ].join("\n");
}

export function historyLegend(plot: HistoryPlot, palette: Palette): readonly LegendItem[] {
  const used = new Set([...plot.points.outcome, ...plot.without_value.outcome]);
  const marks = plot.outcomes.flatMap((outcome, place): LegendItem[] => {
    const { shape, tone } = MARKS[outcome];
    return used.has(place) ? [{ name: words(outcome), shape, colour: palette[tone] }] : [];
  });
  return [
    { name: "best so far", shape: "line", colour: palette.accent },
    ...(baselineMean(plot) === null
      ? []
      : [{ name: "baseline", shape: "dash", colour: palette.faint } as const]),
    ...((plot.noise_floor ?? 0) > 0
      ? [{ name: "noise", shape: "band", colour: palette.band } as const]
      : []),
    ...marks,
  ];
}

export function historyTable(plot: HistoryPlot): ChartTable {
  const { points, without_value } = plot;
  const rows = [
    ...points.finish.map((finish, at) => ({
      finish,
      number: points.number[at],
      place: points.outcome[at],
      value: points.value[at],
    })),
    ...without_value.finish.map((finish, at) => ({
      finish,
      number: without_value.number[at],
      place: without_value.outcome[at],
      value: null,
    })),
  ].sort((a, b) => a.finish - b.finish);
  return {
    columns: ["ended as", "trial", "outcome", plot.metric],
    rows: rows.map((row) => [
      row.finish,
      row.number,
      words(plot.outcomes[row.place ?? -1] ?? ""),
      row.value === null || row.value === undefined ? "–" : formatNumber(row.value, 5),
    ]),
  };
}
