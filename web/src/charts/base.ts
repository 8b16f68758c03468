/** What all charts look like: quiet axes, tooltips drawn on the canvas. */
import type { EChartsCoreOption } from "echarts/core";
import { formatNumber } from "../format/numbers";
import { shortName } from "../format/text";
import type { Palette } from "./palette";

export type ChartOption = EChartsCoreOption;

const FONT = '"Inter Variable", system-ui, sans-serif';

export const axisNumber = (value: number): string => formatNumber(value, 3);

/** Text from a candidate, as the canvas's rich text may show it. */
export const chartText = (text: string, most = 60): string =>
  shortName(text, most).replace(/[{}|]/g, " ");

export function baseOption(palette: Palette): ChartOption {
  return {
    animation: false,
    textStyle: { fontFamily: FONT, color: palette.soft, fontSize: 12 },
    grid: { left: 12, right: 20, top: 16, bottom: 8, containLabel: true },
    tooltip: {
      // Drawn, not HTML: the content security policy allows no inline style, and text stays text.
      renderMode: "richText",
      confine: true,
      backgroundColor: palette.surface,
      borderColor: palette.border,
      borderWidth: 1,
      padding: [8, 10],
      textStyle: { color: palette.text, fontFamily: FONT, fontSize: 12, lineHeight: 18 },
    },
  };
}

export function valueAxis(palette: Palette, name: string): ChartOption {
  return {
    type: "value",
    name,
    nameLocation: "middle",
    nameTextStyle: { color: palette.faint, fontSize: 12 },
    axisLine: { show: false, onZero: false },
    axisTick: { show: false },
    axisLabel: { color: palette.faint, formatter: axisNumber, hideOverlap: true },
    splitLine: { lineStyle: { color: palette.grid } },
  };
}

/** A value axis for measurements: starts where the data does, not at zero. */
export function measureAxis(palette: Palette, name: string): ChartOption {
  return {
    ...valueAxis(palette, name),
    scale: true,
    nameGap: 12,
    nameLocation: "end",
    nameTextStyle: { color: palette.faint, fontSize: 12, align: "left", padding: [0, 0, 0, -30] },
  };
}

/** From the first to the last of these steps; one alone stands in the middle. */
export function stepRange(steps: readonly number[]): ChartOption {
  if (steps.length === 0) return {};
  let [first, last] = [Infinity, -Infinity];
  for (const step of steps) {
    first = Math.min(first, step);
    last = Math.max(last, step);
  }
  return first < last ? { min: first, max: last } : { min: first - 1, max: last + 1 };
}

export function stepAxis(palette: Palette, name: string): ChartOption {
  return {
    ...valueAxis(palette, name),
    nameGap: 26,
    axisLine: { show: true, onZero: false, lineStyle: { color: palette.border } },
    splitLine: { show: false },
    minInterval: 1,
  };
}
