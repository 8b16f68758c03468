/** Every trial as a line through its parameters to its value. */
import type { CoordinatesPlot } from "../api/types";
import { formatNumber, words } from "../format/numbers";
import { axisNumber, baseOption, chartText, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { Palette } from "./palette";
import { extentOf, goodness, mixed } from "./ramp";

export type AxisColumn = CoordinatesPlot["axes"][number];

export interface LineDatum {
  readonly value: readonly (number | string)[];
  readonly number: number;
}

/** What stands on an axis: a category's name, or the number. */
export function placeText(
  axis: Omit<AxisColumn, "values">,
  place: number | null | undefined,
): string {
  if (place === null || place === undefined) return "–";
  if (axis.categories !== null) return axis.categories[place] ?? "–";
  return formatNumber(place, 5);
}

const MISSING = "-";

/** The best drawn last, so that they lie on top. */
export function lineData(plot: CoordinatesPlot, palette: Palette): readonly LineDatum[] {
  const extent = extentOf(plot.value);
  if (extent === null) return [];
  const rows = plot.number.flatMap((number, at) => {
    const value = plot.value[at];
    if (value === null || value === undefined) return [];
    return [{ number, at, value, good: goodness(value, extent, plot.direction) }];
  });
  rows.sort((a, b) => a.good - b.good);
  const many = rows.length > 200;
  return rows.map(({ number, at, value, good }) => ({
    number,
    value: [...plot.axes.map((axis) => axis.values[at] ?? MISSING), value],
    lineStyle: {
      color: mixed(palette.mute, palette.accent, good),
      opacity: many ? 0.04 + 0.36 * good ** 12 : 0.25 + 0.7 * good ** 2,
      width: good > 0.97 && !many ? 2.2 : 1.1,
    },
  }));
}

function axisOption(axis: AxisColumn): ChartOption {
  if (axis.categories !== null) {
    return { type: "category", data: axis.categories.map((word) => chartText(word, 14)) };
  }
  const is_log = axis.log && (axis.low ?? 0) > 0;
  const drawn = extentOf([...axis.values, axis.low, axis.high]) ?? [0, 1];
  return { type: is_log ? "log" : "value", min: drawn[0], max: drawn[1], scale: true };
}

export function parallelOption(plot: CoordinatesPlot, palette: Palette): ChartOption {
  const look = {
    nameLocation: "end",
    nameGap: 14,
    nameTextStyle: { color: palette.soft, fontSize: 12, fontWeight: 500 },
    axisLine: { lineStyle: { color: palette.faint, width: 1 } },
    axisTick: { lineStyle: { color: palette.faint } },
    areaSelectStyle: { color: palette.accent, opacity: 0.15, borderColor: palette.accent },
  };
  const label = {
    color: palette.soft,
    fontSize: 11,
    textBorderColor: palette.surface,
    textBorderWidth: 3,
  };
  const extent = extentOf(plot.value) ?? [0, 1];
  // Where all are equal, the lines end in the middle.
  const flat = extent[1] > extent[0] ? 0 : Math.max(1e-9, Math.abs(extent[0]) * 0.1);
  return {
    ...baseOption(palette),
    parallel: {
      left: 36,
      right: 60,
      top: 40,
      bottom: 20,
      axisExpandable: false,
      parallelAxisDefault: look,
    },
    parallelAxis: [
      ...plot.axes.map((axis, dim) => ({
        dim,
        name: chartText(axis.name, 16),
        ...axisOption(axis),
        axisLabel: { ...label, ...(axis.categories === null ? { formatter: axisNumber } : {}) },
      })),
      {
        dim: plot.axes.length,
        name: chartText(plot.metric, 16),
        type: "value",
        min: extent[0] - flat,
        max: extent[1] + flat,
        axisLabel: { ...label, formatter: axisNumber },
        nameTextStyle: { color: palette.text, fontSize: 12, fontWeight: 600 },
      },
    ],
    tooltip: {
      ...(baseOption(palette).tooltip as object),
      trigger: "item",
      formatter: (hovered: unknown) => tooltip((hovered as { data: LineDatum }).data, plot),
    },
    series: [
      {
        type: "parallel",
        name: "trials",
        smooth: false,
        inactiveOpacity: 0.02,
        activeOpacity: 0.9,
        progressive: 500,
        data: lineData(plot, palette),
      },
    ],
  };
}

function tooltip({ number, value }: LineDatum, plot: CoordinatesPlot): string {
  const told = plot.axes.slice(0, 12).map((axis, dim) => {
    const place = value[dim];
    return `${chartText(axis.name, 24)}  ${typeof place === "number" ? chartText(placeText(axis, place), 30) : "–"}`;
  });
  const last = value.at(-1);
  return [
    `Trial ${String(number)}`,
    ...told,
    `${chartText(plot.metric, 24)}  ${typeof last === "number" ? formatNumber(last, 5) : "–"}`,
  ].join("\n");
}

/** The best first. */
export function coordinatesTable(plot: CoordinatesPlot): ChartTable {
  const sign = plot.direction === "maximize" ? -1 : 1;
  const places = plot.number
    .map((_, at) => at)
    .sort(
      (a, b) => sign * ((plot.value[a] ?? Infinity * sign) - (plot.value[b] ?? Infinity * sign)),
    );
  return {
    columns: ["trial", "outcome", plot.metric, ...plot.axes.map((axis) => axis.name)],
    rows: places.map((at) => [
      plot.number[at],
      words(plot.outcomes[plot.outcome[at] ?? -1] ?? ""),
      plot.value[at] === null || plot.value[at] === undefined
        ? "–"
        : formatNumber(plot.value[at], 5),
      ...plot.axes.map((axis) => placeText(axis, axis.values[at])),
    ]),
  };
}

/** Parameters that have one value in all trials separate nothing: said, and not drawn. */
export function isConstant(axis: AxisColumn): boolean {
  const extent = extentOf(axis.values);
  return extent === null || extent[0] === extent[1];
}
