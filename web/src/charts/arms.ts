/** The mean of each arm's latest values, as trials ended. */
import type { Arm, Proposer } from "../api/types";
import { formatCount, formatNumber } from "../format/numbers";
import { baseOption, chartText, measureAxis, stepAxis, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { LegendItem } from "./Legend";
import type { Palette } from "./palette";

/** The arm itself: the last part of `hybrid/tpe`. */
export const armName = (name: string): string => name.replace(/^hybrid\//, "");

export const colourOf = (palette: Palette, place: number): string =>
  palette.series[place % palette.series.length] ?? palette.accent;

export function armPoints({ curve }: Arm): readonly (readonly [number, number])[] {
  return curve.finish.flatMap((finish, at) => {
    const mean = curve.mean[at];
    return mean === null || mean === undefined ? [] : [[finish, mean] as const];
  });
}

export function armsOption(proposer: Proposer, palette: Palette): ChartOption {
  const base = baseOption(palette);
  return {
    ...base,
    grid: { left: 12, right: 24, top: 28, bottom: 28, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      trigger: "axis",
      axisPointer: { lineStyle: { color: palette.border } },
      formatter: (hovered: unknown) => {
        const points = hovered as { seriesName: string; value: readonly [number, number] }[];
        const first = points[0];
        if (first === undefined) return "";
        return [
          `after ${formatCount(first.value[0])} trials`,
          ...points.map((one) => `${one.seriesName}  ${formatNumber(one.value[1])}`),
        ].join("\n");
      },
    },
    xAxis: stepAxis(palette, "trials ended"),
    yAxis: measureAxis(palette, chartText(proposer.metric, 30)),
    series: proposer.arms.map((arm, place) => {
      const data = armPoints(arm);
      return {
        type: "line",
        name: chartText(armName(arm.name), 30),
        showSymbol: data.length < 40,
        symbolSize: 5,
        lineStyle: { color: colourOf(palette, place), width: 1.8 },
        itemStyle: { color: colourOf(palette, place) },
        data,
      };
    }),
  };
}

export function armsLegend(proposer: Proposer, palette: Palette): readonly LegendItem[] {
  return proposer.arms.map((arm, place) => ({
    name: armName(arm.name),
    shape: "line",
    colour: colourOf(palette, place),
  }));
}

export function armsTable(proposer: Proposer): ChartTable {
  return {
    columns: ["arm", "trials ended", `mean ${proposer.metric}`],
    rows: proposer.arms.flatMap((arm) =>
      armPoints(arm).map(([finish, mean]) => [
        armName(arm.name),
        formatCount(finish),
        formatNumber(mean, 5),
      ]),
    ),
  };
}
