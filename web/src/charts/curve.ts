/** A metric over its steps. */
import { curvePoints, type Curve } from "../format/finite";
import { formatCount, formatNumber } from "../format/numbers";
import {
  axisNumber,
  baseOption,
  chartText,
  measureAxis,
  stepAxis,
  stepRange,
  type ChartOption,
} from "./base";
import type { ChartTable } from "./Chart";
import type { Palette } from "./palette";

export interface NamedCurve {
  readonly name: string;
  readonly curve: Curve;
  readonly colour: string;
}

/** Several curves over the same steps; NaN and infinities are marked where they were reported. */
export function curvesOption(curves: readonly NamedCurve[], palette: Palette): ChartOption {
  const base = baseOption(palette);
  const all = curves.flatMap(({ curve }) => curvePoints(curve));
  const is_bare = !all.some((point) => Number.isFinite(point.value));
  const marks = marksOf(all);
  return {
    ...base,
    grid: { left: 8, right: 16, top: 16, bottom: 4, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      trigger: "axis",
      axisPointer: { lineStyle: { color: palette.border } },
      formatter: (points: unknown) => tooltip(points as TooltipPoint[]),
    },
    xAxis: {
      ...stepAxis(palette, ""),
      ...stepRange(all.map((point) => point.step)),
      axisLabel: { color: palette.faint, formatter: axisNumber, hideOverlap: true },
    },
    // Without a finite value there is nothing to measure, and yet the marks of the others to show.
    yAxis: {
      ...measureAxis(palette, ""),
      splitNumber: 3,
      ...(is_bare ? { min: 0, max: 1, axisLabel: { show: false } } : {}),
    },
    series: curves.map(({ name, curve, colour }, place) => {
      const finite = curvePoints(curve).filter((point) => Number.isFinite(point.value));
      return {
        name: chartText(name),
        type: "line",
        data: finite.map((point) => [point.step, point.value]),
        showSymbol: finite.length < 40,
        symbolSize: 4,
        sampling: "minmax",
        lineStyle: { width: 1.6, color: colour },
        itemStyle: { color: colour },
        markLine: {
          silent: true,
          symbol: "none",
          lineStyle: { color: palette.bad, type: "dashed", width: 1 },
          label: { color: palette.bad, fontSize: 10, formatter: "{b}" },
          data: place === 0 ? marks : [],
        },
      };
    }),
  };
}

const MOST_MARKS = 20;

/** What was not finite at each step, once, whichever of the curves it was. */
function marksOf(points: readonly { step: number; value: number }[]): readonly ChartOption[] {
  const words = new Map<number, Set<string>>();
  for (const { step, value } of points) {
    if (Number.isFinite(value)) continue;
    words.set(step, (words.get(step) ?? new Set()).add(formatNumber(value)));
  }
  return [...words]
    .slice(0, MOST_MARKS)
    .map(([step, said]) => ({ xAxis: step, name: [...said].join(" ") }));
}

interface TooltipPoint {
  readonly seriesName: string;
  readonly value: readonly [number, number];
}

function tooltip(points: readonly TooltipPoint[]): string {
  const first = points[0];
  if (first === undefined) return "";
  const lines = points.map((point) =>
    points.length === 1
      ? formatNumber(point.value[1], 5)
      : `${point.seriesName}  ${formatNumber(point.value[1], 5)}`,
  );
  return [`step ${formatCount(first.value[0])}`, ...lines].join("\n");
}

export function curvesTable(curves: readonly NamedCurve[]): ChartTable {
  const by_step = new Map<number, string[]>();
  curves.forEach(({ curve }, index) => {
    for (const { step, value } of curvePoints(curve)) {
      const row = by_step.get(step) ?? curves.map(() => "");
      row[index] = formatNumber(value, 5);
      by_step.set(step, row);
    }
  });
  const steps = [...by_step.keys()].sort((a, b) => a - b);
  return {
    columns: ["step", ...curves.map((one) => one.name)],
    rows: steps.map((step) => [step, ...(by_step.get(step) ?? [])]),
  };
}

/** The words by which the signals of a training's health are known, the most telling first. */
const TELLING = [
  "reward",
  "exact_match",
  "accuracy",
  "kl",
  "entropy",
  "zero",
  "loss",
  "grad",
  "clip",
  "length",
  "lr",
];

/** The objective first, then health signals, then the rest by name. */
export function orderMetrics(metrics: readonly string[], objective: string): readonly string[] {
  const rank = (name: string): number => {
    if (name === objective) return -1;
    const found = TELLING.findIndex((word) => name.toLowerCase().includes(word));
    return found < 0 ? TELLING.length : found;
  };
  return [...metrics].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
