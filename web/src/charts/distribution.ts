/** The share of trials up to each value. */
import type { EdfPlot } from "../api/types";
import { formatNumber, formatShare } from "../format/numbers";
import { baseOption, chartText, stepAxis, valueAxis, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { Palette } from "./palette";

export function edfPoints(plot: EdfPlot): readonly (readonly [number, number])[] {
  return plot.value.flatMap((value, at) => {
    const share = plot.share[at];
    return value === null || share === undefined ? [] : [[value, share] as const];
  });
}

/** The value below which so many lie. */
export function quantile(plot: EdfPlot, share: number): number | null {
  return edfPoints(plot).find(([, reached]) => reached >= share)?.[0] ?? null;
}

export function edfOption(plot: EdfPlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  const points = edfPoints(plot);
  const first = points[0];
  return {
    ...base,
    grid: { left: 12, right: 24, top: 16, bottom: 28, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      trigger: "axis",
      axisPointer: { lineStyle: { color: palette.border } },
      formatter: (hovered: unknown) => {
        const at = (hovered as { value: readonly [number, number] }[])[0]?.value;
        return at === undefined
          ? ""
          : `${formatShare(at[1])} of trials\nat most ${formatNumber(at[0], 5)}`;
      },
    },
    xAxis: { ...stepAxis(palette, chartText(plot.metric, 40)), minInterval: 0, scale: true },
    yAxis: {
      ...valueAxis(palette, ""),
      min: 0,
      max: 1,
      axisLabel: { color: palette.faint, formatter: formatShare },
    },
    series: [
      {
        type: "line",
        name: "share",
        step: "end",
        symbol: points.length < 60 ? "circle" : "none",
        symbolSize: 5,
        lineStyle: { color: palette.accent, width: 1.8 },
        itemStyle: { color: palette.accent },
        areaStyle: { color: palette.band },
        data: first === undefined ? [] : [[first[0], 0], ...points],
      },
    ],
  };
}

export function edfTable(plot: EdfPlot): ChartTable {
  return {
    columns: [plot.metric, "share of trials at most that"],
    rows: edfPoints(plot).map(([value, share]) => [formatNumber(value, 5), formatShare(share)]),
  };
}
