import { describe, expect, it } from "vitest";
import type { HistoryPlot } from "../api/types";
import { historyLegend, historyOption, historyTable } from "./history";
import type { Palette } from "./palette";

const palette = new Proxy({ series: [] } as unknown as Palette, {
  get: (target, name) => (name === "series" ? target.series : String(name)),
});

const EMPTY = { finish: [], number: [], value: [], outcome: [] };

function plot(changes: Partial<HistoryPlot> = {}): HistoryPlot {
  return {
    study: "s1",
    metric: "loss",
    direction: "minimize",
    of: 3,
    sampled: false,
    outcomes: ["kept", "discarded", "served", "measured", "pruned", "failed", "cancelled"],
    points: { finish: [1, 3], number: [0, 2], value: [0.5, 0.4], outcome: [1, 0] },
    without_value: { finish: [2], number: [1], outcome: [5] },
    best: { finish: [1, 3], number: [0, 2], value: [0.5, 0.4] },
    baseline: [0.6, null, 0.4],
    noise_floor: 0.05,
    ...changes,
  };
}

interface Series {
  readonly name: string;
  readonly data: readonly unknown[];
}

const seriesOf = (of: HistoryPlot): readonly Series[] =>
  historyOption(of, palette).series as readonly Series[];

describe("the history", () => {
  it("tells outcomes apart, and draws those without a value too", () => {
    const names = seriesOf(plot()).map((series) => series.name);
    expect(names).toEqual(["baseline", "best so far", "kept", "discarded", "failed"]);
  });

  it("leads the best so far to the end", () => {
    const best = seriesOf(plot({ without_value: { finish: [9], number: [8], outcome: [5] } })).find(
      (series) => series.name === "best so far",
    );
    expect(best?.data.at(-1)).toEqual([9, 0.4]);
  });

  it("makes room for the baseline and its noise, however far off the trials are", () => {
    const baseline = seriesOf(plot()).find((series) => series.name === "baseline");
    expect(baseline?.data).toEqual([
      [3, 0.45],
      [3, 0.55],
    ]);
  });

  it("has no best, no baseline and no marks where every trial failed", () => {
    const failed = plot({
      points: EMPTY,
      best: { finish: [], number: [], value: [] },
      baseline: [],
      noise_floor: null,
    });
    expect(
      seriesOf(failed)
        .filter((series) => series.data.length > 0)
        .map((one) => one.name),
    ).toEqual(["failed"]);
    expect(historyLegend(failed, palette).map((item) => item.name)).toEqual([
      "best so far",
      "failed",
    ]);
  });

  it("is a table as well, in the order trials ended", () => {
    expect(historyTable(plot()).rows).toEqual([
      [1, 0, "discarded", "0.5"],
      [2, 1, "failed", "–"],
      [3, 2, "kept", "0.4"],
    ]);
  });
});
