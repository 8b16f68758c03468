/** Trials in two objectives, and the front that none beats in both. */
import type { ParetoPlot } from "../api/types";
import { formatNumber } from "../format/numbers";
import { baseOption, chartText, measureAxis, stepAxis, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";

export interface ParetoDatum {
  readonly value: readonly [number, number];
  readonly number: number;
}

type Rows = ParetoPlot["front"];

/** In the first two objectives. */
export function paretoPoints(rows: Rows): readonly ParetoDatum[] {
  return rows.number.flatMap((number, at) => {
    const [x, y] = rows.scores[at] ?? [];
    if (x === null || x === undefined || y === null || y === undefined) return [];
    return [{ value: [x, y] as const, number }];
  });
}

export function paretoOption(plot: ParetoPlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  const [across, up] = plot.objectives;
  const front = [...paretoPoints(plot.front)].sort((a, b) => a.value[0] - b.value[0]);
  const named = (objective: typeof across) =>
    objective === undefined
      ? ""
      : `${chartText(objective.metric, 24)} (${objective.direction === "maximize" ? "more" : "less"} is better)`;
  return {
    ...base,
    grid: { left: 12, right: 24, top: 36, bottom: 30, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      formatter: (hovered: unknown) => {
        const { data } = hovered as { data: ParetoDatum };
        return [
          `Trial ${String(data.number)}`,
          `${chartText(across?.metric ?? "", 24)}  ${formatNumber(data.value[0], 5)}`,
          `${chartText(up?.metric ?? "", 24)}  ${formatNumber(data.value[1], 5)}`,
        ].join("\n");
      },
    },
    xAxis: { ...stepAxis(palette, named(across)), minInterval: 0, scale: true },
    yAxis: {
      ...measureAxis(palette, named(up)),
      nameTextStyle: { color: palette.faint, fontSize: 12, align: "left", padding: [0, 0, 0, -24] },
    },
    series: [
      {
        type: "scatter",
        name: "others",
        symbol: "emptyCircle",
        symbolSize: plot.others.number.length > 400 ? 4 : 6,
        itemStyle: { color: palette.mute, opacity: 0.7 },
        cursor: "pointer",
        data: paretoPoints(plot.others),
      },
      {
        type: "line",
        name: "front",
        symbol: "circle",
        symbolSize: 8,
        lineStyle: { color: palette.accent, width: 1.4 },
        itemStyle: { color: palette.accent },
        cursor: "pointer",
        // With a third objective the front is no line in two.
        ...(plot.objectives.length > 2 ? { lineStyle: { width: 0 } } : {}),
        data: front,
      },
    ],
  };
}

export const paretoLegend = (palette: Palette): readonly LegendItem[] => [
  { name: "front: none is better in every objective", shape: "dot", colour: palette.accent },
  { name: "others", shape: "ring", colour: palette.mute },
];

export function paretoTable(plot: ParetoPlot): ChartTable {
  const rowsOf = (rows: Rows, where: string) =>
    rows.number.map((number, at) => [
      number,
      where,
      ...plot.objectives.map((_, place) => {
        const score = rows.scores[at]?.[place];
        return score === null || score === undefined ? "–" : formatNumber(score, 5);
      }),
    ]);
  return {
    columns: ["trial", "lies", ...plot.objectives.map((one) => one.metric)],
    rows: [...rowsOf(plot.front, "on the front"), ...rowsOf(plot.others, "behind it")],
  };
}
