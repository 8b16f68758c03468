/** Curves of several trials over each other: the running, the kept and the others. */
import type { IntermediatePlot } from "../api/types";
import { formatCount, formatNumber, words } from "../format/numbers";
import { baseOption, chartText, measureAxis, stepAxis, stepRange, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";

type TrialCurve = IntermediatePlot["curves"][number];
type Tone = "accent" | "good" | "warn" | "bad" | "mute";

/** How its trial stands. */
export function curveLook(curve: TrialCurve): { readonly tone: Tone; readonly word: string } {
  if (curve.verdict === "keep") return { tone: "good", word: "kept" };
  switch (curve.state) {
    case "complete":
      return { tone: "mute", word: "complete" };
    case "pruned":
      return { tone: "warn", word: "pruned" };
    case "failed":
      return { tone: "bad", word: "failed" };
    case "cancelled":
      return { tone: "mute", word: "complete" };
    default:
      return { tone: "accent", word: "running" };
  }
}

/** A gap where a value was not finite. */
export function curveData(curve: TrialCurve): readonly (readonly [number, number | "-"])[] {
  return curve.steps.map((step, at) => [step, curve.values[at] ?? "-"] as const);
}

export const gapCount = (plot: IntermediatePlot): number =>
  plot.curves.reduce(
    (sum, curve) => sum + curve.values.filter((value) => value === null).length,
    0,
  );

export function intermediateOption(plot: IntermediatePlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  return {
    ...base,
    grid: { left: 12, right: 24, top: 16, bottom: 28, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      trigger: "item",
      formatter: (hovered: unknown) => {
        const point = hovered as { data: { value: readonly [number, number] }; seriesName: string };
        const [step, value] = point.data.value;
        return `${point.seriesName}\nstep ${formatCount(step)}  ${formatNumber(value, 5)}`;
      },
    },
    xAxis: {
      ...stepAxis(palette, "step"),
      ...stepRange(plot.curves.flatMap((curve) => curve.steps)),
    },
    yAxis: measureAxis(palette, ""),
    series: plot.curves.map((curve) => {
      const { tone, word } = curveLook(curve);
      const is_quiet = tone === "mute";
      return {
        type: "line",
        name: `Trial ${String(curve.number)} · ${word}`,
        symbol: "circle",
        symbolSize: curve.steps.length < 3 ? 6 : 3,
        showSymbol: curve.steps.length < 60,
        connectNulls: false,
        triggerLineEvent: true,
        lineStyle: {
          color: palette[tone],
          width: is_quiet ? 1.2 : 1.8,
          opacity: is_quiet ? 0.6 : 1,
        },
        itemStyle: { color: palette[tone], opacity: is_quiet ? 0.6 : 1 },
        emphasis: { focus: "series" },
        blur: { lineStyle: { opacity: 0.12 }, itemStyle: { opacity: 0.12 } },
        z: is_quiet ? 2 : 4,
        data: curveData(curve).map((value) => ({ value, number: curve.number })),
      };
    }),
  };
}

export function intermediateLegend(
  plot: IntermediatePlot,
  palette: Palette,
): readonly LegendItem[] {
  const found = new Map(plot.curves.map((curve) => [curveLook(curve).word, curveLook(curve).tone]));
  return [...found].map(([name, tone]) => ({ name, shape: "line", colour: palette[tone] }));
}

export function intermediateTable(plot: IntermediatePlot): ChartTable {
  return {
    columns: ["trial", "state", "steps", "last step", `last ${chartText(plot.metric, 40)}`],
    rows: plot.curves.map((curve) => {
      const last = curve.values.at(-1);
      return [
        curve.number,
        words(curve.state),
        curve.steps.length,
        curve.steps.at(-1) ?? "–",
        last === null ? "not finite" : last === undefined ? "–" : formatNumber(last, 5),
      ];
    }),
  };
}
