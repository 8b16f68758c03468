/** Mean values over two parameters, as a grid of cells. */
import type { ContourPlot } from "../api/types";
import { formatCount, formatNumber } from "../format/numbers";
import { axisNumber, baseOption, chartText, type ChartOption } from "./base";
import type { ChartTable } from "./Chart";
import type { Palette } from "./palette";
import { extentOf, mixed } from "./ramp";

export interface Cell {
  readonly value: readonly [number, number, number];
  readonly count: number;
}

const cellText = (cell: number | string): string =>
  typeof cell === "number" ? axisNumber(cell) : chartText(cell, 12);

/** Cells that have a mean: measured ones, and those filled from around. */
export function cellsOf(plot: ContourPlot): readonly Cell[] {
  return plot.mean.flatMap((row, y) =>
    row.flatMap((mean, x) =>
      mean === null ? [] : [{ value: [x, y, mean] as const, count: plot.count[y]?.[x] ?? 0 }],
    ),
  );
}

export function contourOption(plot: ContourPlot, palette: Palette): ChartOption {
  const base = baseOption(palette);
  const cells = cellsOf(plot);
  const [low, high] = extentOf(cells.map((cell) => cell.value[2])) ?? [0, 1];
  const axis = (side: "x" | "y") => ({
    type: "category",
    name: chartText(plot[side].name, 30),
    ...(side === "x"
      ? { nameLocation: "middle", nameGap: 28 }
      : { nameLocation: "end", nameGap: 10 }),
    nameTextStyle: {
      color: palette.soft,
      fontSize: 12,
      ...(side === "y" ? { align: "left", padding: [0, 0, 0, -24] } : {}),
    },
    data: plot[side].cells.map(cellText),
    axisLine: { show: false },
    axisTick: { show: false },
    splitArea: { show: false },
    axisLabel: { color: palette.faint, fontSize: 11, hideOverlap: true },
  });
  const colours = [0, 0.25, 0.5, 0.75, 1].map((at) => mixed(palette.grid, palette.accent, at));
  return {
    ...base,
    grid: { left: 12, right: 16, top: 64, bottom: 30, containLabel: true },
    tooltip: {
      ...(base.tooltip as object),
      formatter: (hovered: unknown) => tooltip((hovered as { data: Cell }).data, plot),
    },
    xAxis: axis("x"),
    yAxis: axis("y"),
    visualMap: {
      min: low,
      max: high > low ? high : low + Math.max(1, Math.abs(low) * 0.1),
      dimension: 2,
      orient: "horizontal",
      left: "center",
      top: 0,
      itemWidth: 12,
      itemHeight: 180,
      calculable: false,
      text: [axisNumber(high), axisNumber(low)],
      textStyle: { color: palette.soft, fontSize: 11 },
      inRange: { color: plot.direction === "maximize" ? colours : [...colours].reverse() },
    },
    series: [
      {
        type: "heatmap",
        name: "mean",
        data: cells.map((cell) => ({
          ...cell,
          itemStyle: { opacity: cell.count > 0 ? 1 : 0.45 },
        })),
        emphasis: { itemStyle: { borderColor: palette.text, borderWidth: 1 } },
      },
    ],
  };
}

function tooltip({ value: [x, y, mean], count }: Cell, plot: ContourPlot): string {
  return [
    `${chartText(plot.x.name, 24)}  ${cellText(plot.x.cells[x] ?? "")}`,
    `${chartText(plot.y.name, 24)}  ${cellText(plot.y.cells[y] ?? "")}`,
    `mean ${chartText(plot.metric, 24)}  ${formatNumber(mean, 5)}`,
    count === 0 ? "no trial here: filled from around" : `${formatCount(count)} here`,
  ].join("\n");
}

/** Measured cells only. */
export function contourTable(plot: ContourPlot): ChartTable {
  return {
    columns: [plot.x.name, plot.y.name, `mean ${plot.metric}`, "trials"],
    rows: cellsOf(plot)
      .filter((cell) => cell.count > 0)
      .map(({ value: [x, y, mean], count }) => [
        cellText(plot.x.cells[x] ?? ""),
        cellText(plot.y.cells[y] ?? ""),
        formatNumber(mean, 5),
        formatCount(count),
      ]),
  };
}
