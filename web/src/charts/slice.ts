/** The value over one parameter, trial by trial, told apart by outcome. */
import type { CoordinatesPlot } from "../api/types";
import { formatNumber, words } from "../format/numbers";
import {
  axisNumber,
  baseOption,
  chartText,
  measureAxis,
  valueAxis,
  type ChartOption,
} from "./base";
import type { ChartTable } from "./Chart";
import { MARKS } from "./history";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";
import { placeText, type AxisColumn } from "./parallel";

export interface SliceDatum {
  readonly value: readonly [number, number];
  readonly number: number;
}

/** Within a category the points are spread by their number, so that they do not hide each other. */
const spread = (number: number): number => (((number * 7919) % 101) / 100 - 0.5) * 0.5;

export function slicePoints(
  plot: CoordinatesPlot,
  axis: AxisColumn,
  outcome: number,
): readonly SliceDatum[] {
  return plot.number.flatMap((number, at) => {
    const place = axis.values[at];
    const value = plot.value[at];
    if (plot.outcome[at] !== outcome) return [];
    if (place === null || place === undefined || value === null || value === undefined) return [];
    const x = axis.categories === null ? place : place + spread(number);
    return [{ value: [x, value] as const, number }];
  });
}

function acrossAxis(axis: AxisColumn, palette: Palette): ChartOption {
  const base = {
    ...valueAxis(palette, ""),
    axisLine: { show: true, lineStyle: { color: palette.border } },
    splitLine: { show: false },
  };
  const label = base as { axisLabel?: object };
  if (axis.categories !== null) {
    const { categories } = axis;
    return {
      ...base,
      min: -0.5,
      max: Math.max(0.5, categories.length - 0.5),
      interval: 1,
      axisLabel: {
        ...label.axisLabel,
        customValues: categories.map((_, place) => place),
        formatter: (place: number) => chartText(categories[place] ?? "", 10),
      },
    };
  }
  const is_log = axis.log && (axis.low ?? 0) > 0;
  return { ...base, type: is_log ? "log" : "value", scale: true };
}

export function sliceOption(
  plot: CoordinatesPlot,
  axis: AxisColumn,
  palette: Palette,
): ChartOption {
  const base = baseOption(palette);
  return {
    ...base,
    grid: { left: 8, right: 16, top: 12, bottom: 4, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      formatter: (hovered: unknown) => tooltip((hovered as { data: SliceDatum }).data, plot, axis),
    },
    xAxis: acrossAxis(axis, palette),
    yAxis: { ...measureAxis(palette, ""), splitNumber: 3 },
    series: plot.outcomes.flatMap((outcome, place) => {
      const data = slicePoints(plot, axis, place);
      if (data.length === 0) return [];
      const { symbol, size, tone } = MARKS[outcome];
      const many = plot.number.length > 400;
      return [
        {
          type: "scatter",
          name: words(outcome),
          symbol,
          symbolSize: many ? size * 0.6 : size * 0.85,
          itemStyle: { color: palette[tone], opacity: outcome === "kept" ? 1 : many ? 0.5 : 0.75 },
          z: outcome === "kept" ? 5 : 3,
          cursor: "pointer",
          data,
        },
      ];
    }),
  };
}

function tooltip(datum: SliceDatum, plot: CoordinatesPlot, axis: AxisColumn): string {
  const place = axis.categories === null ? datum.value[0] : Math.round(datum.value[0]);
  return [
    `Trial ${String(datum.number)}`,
    `${chartText(axis.name, 24)}  ${chartText(placeText(axis, place), 30)}`,
    `${chartText(plot.metric, 24)}  ${axisNumber(datum.value[1])}`,
  ].join("\n");
}

export function sliceTable(plot: CoordinatesPlot, axis: AxisColumn): ChartTable {
  return {
    columns: ["trial", axis.name, plot.metric],
    rows: plot.number.map((number, at) => {
      const value = plot.value[at];
      return [
        number,
        placeText(axis, axis.values[at]),
        value === null || value === undefined ? "–" : formatNumber(value, 5),
      ];
    }),
  };
}

export function outcomesLegend(plot: CoordinatesPlot, palette: Palette): readonly LegendItem[] {
  const used = new Set(plot.outcome);
  return plot.outcomes.flatMap((outcome, place): LegendItem[] =>
    used.has(place)
      ? [
          {
            name: words(outcome),
            shape: MARKS[outcome].shape,
            colour: palette[MARKS[outcome].tone],
          },
        ]
      : [],
  );
}
