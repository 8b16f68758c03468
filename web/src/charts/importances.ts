/** Each parameter's share of what separates the best trials from the rest. */
import type { ImportancesPlot } from "../api/types";
import { formatShare } from "../format/numbers";
import { baseOption, chartText, valueAxis, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { Palette } from "./palette";

type Importance = ImportancesPlot["importances"][number];

/** The largest first. */
export function ranked(plot: ImportancesPlot): readonly Importance[] {
  return [...plot.importances].sort((a, b) => b.share - a.share || a.name.localeCompare(b.name));
}

const BAR_PX = 34;

export const importancesHeight = (plot: ImportancesPlot): number =>
  Math.min(900, Math.max(120, 36 + BAR_PX * plot.importances.length));

export function importancesOption(plot: ImportancesPlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  const rows = ranked(plot);
  return {
    ...base,
    grid: { left: 8, right: 64, top: 4, bottom: 4, containLabel: true },
    tooltip: { show: false },
    xAxis: {
      ...valueAxis(palette, ""),
      min: 0,
      axisLabel: { color: palette.faint, formatter: formatShare, hideOverlap: true },
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: rows.map((row) => chartText(row.name, 22)),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { color: palette.text, fontSize: 12 },
    },
    series: [
      {
        type: "bar",
        name: "importance",
        barMaxWidth: 16,
        itemStyle: { color: palette.accent, borderRadius: [0, 3, 3, 0] },
        label: {
          show: true,
          position: "right",
          color: palette.soft,
          formatter: ({ value }: { value: number }) => formatShare(value),
        },
        data: rows.map((row) => row.share),
      },
    ],
  };
}

export function importancesTable(plot: ImportancesPlot): ChartTable {
  return {
    columns: ["parameter", "share"],
    rows: ranked(plot).map((row) => [row.name, formatShare(row.share)]),
  };
}
