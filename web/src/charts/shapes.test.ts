/** What each chart makes of its data, above all of data that hardly are any. */
import { describe, expect, it } from "vitest";
import type { EdfPlot, IntermediatePlot, ParetoPlot, Proposer, TimelinePlot } from "../api/types";
import type { Curve } from "../format/finite";
import { armPoints, armsLegend, armsTable } from "./arms";
import { chartText, stepRange } from "./base";
import { curvesOption, curvesTable, orderMetrics } from "./curve";
import { edfPoints, quantile } from "./distribution";
import { ranked, importancesTable } from "./importances";
import { curveData, curveLook, gapCount, intermediateTable } from "./intermediate";
import type { Palette } from "./palette";
import { paretoPoints, paretoTable } from "./pareto";
import { barsOf, lookOf, timelineHeight, timelineTable } from "./timeline";

const PALETTE = new Proxy({ series: ["one", "two"] } as unknown as Palette, {
  get: (target, name) => (name === "series" ? target.series : String(name)),
});

describe("text of a candidate in a chart", () => {
  it("is no markup of the canvas, and neither moves nor hides anything", () => {
    expect(chartText("{red|a}\u202e\nb")).toBe(" red a ‹U+202E› b");
    expect(chartText("x".repeat(100), 11)).toBe("xxxxx…xxxxx");
  });
});

describe("steps", () => {
  it("reach from the first to the last, and one alone stands in the middle", () => {
    expect(stepRange([3, 9, 5])).toEqual({ min: 3, max: 9 });
    expect(stepRange([7])).toEqual({ min: 6, max: 8 });
    expect(stepRange([])).toEqual({});
  });
});

describe("a curve", () => {
  const curve = (values: readonly (number | null)[], words: Readonly<Record<number, string>>) =>
    ({
      metric: "kl",
      of: values.length,
      sampled: false,
      steps: values.map((_, at) => at + 1),
      values,
      non_finite: words,
    }) as unknown as Curve;
  const optionOf = (one: Curve) =>
    curvesOption([{ name: "kl", curve: one, colour: "red" }], PALETTE) as {
      xAxis: { min: number; max: number };
      yAxis: { min?: number; max?: number };
      series: { data: number[][]; markLine: { data: { name: string; xAxis: number }[] } }[];
    };

  it("marks what was not finite where it was reported", () => {
    const { series, yAxis } = optionOf(curve([1, null, 3], { 1: "-inf" }));
    expect(series[0]?.data).toEqual([
      [1, 1],
      [3, 3],
    ]);
    expect(series[0]?.markLine.data).toEqual([{ xAxis: 2, name: "−∞" }]);
    expect(yAxis.max).toBeUndefined();
  });

  it("without any finite value still has a place for the marks", () => {
    const { xAxis, yAxis } = optionOf(curve([null, null], { 0: "nan", 1: "inf" }));
    expect([xAxis.min, xAxis.max, yAxis.min, yAxis.max]).toEqual([1, 2, 0, 1]);
  });

  it("beside another is a table by steps, with a gap where one has none", () => {
    const table = curvesTable([
      { name: "a", curve: curve([1, 2], {}), colour: "" },
      { name: "b", curve: curve([5], {}), colour: "" },
    ]);
    expect(table.rows).toEqual([
      [1, "1", "5"],
      [2, "2", ""],
    ]);
  });

  it("of the objective comes first, then the signals of health", () => {
    expect(orderMetrics(["zz", "train/kl", "aa", "reward_mean", "score"], "score")).toEqual([
      "score",
      "reward_mean",
      "train/kl",
      "aa",
      "zz",
    ]);
  });
});

describe("a distribution", () => {
  const plot = { metric: "m", of: 3, value: [1, null, 4], share: [0.3, 0.6, 1] } as EdfPlot;
  it("leaves out what has no value, and finds what share lies below", () => {
    expect(edfPoints(plot)).toEqual([
      [1, 0.3],
      [4, 1],
    ]);
    expect(quantile(plot, 0.5)).toBe(4);
    expect(quantile({ ...plot, value: [], share: [] }, 0.5)).toBeNull();
  });
});

describe("importances", () => {
  it("are ranked, and equal ones by name", () => {
    const one = (name: string, share: number) => ({ name, share });
    const plot = { importances: [one("b", 0.1), one("a", 0.1), one("c", 0.8)] } as never;
    expect(ranked(plot).map((row) => row.name)).toEqual(["c", "a", "b"]);
    expect(importancesTable(plot).rows[0]).toEqual(["c", "80 %"]);
  });
});

describe("curves of several trials", () => {
  const curve = { number: 1, state: "complete", verdict: null, steps: [1, 2], values: [0.5, null] };
  const plot = { metric: "m", curves: [curve] } as unknown as IntermediatePlot;
  it("have gaps, counted, and say how their trial stands", () => {
    expect(curveData(plot.curves[0] as never)).toEqual([
      [1, 0.5],
      [2, "-"],
    ]);
    expect(gapCount(plot)).toBe(1);
    expect(intermediateTable(plot).rows[0]).toEqual([1, "complete", 2, 2, "not finite"]);
    const word = (changes: object) => curveLook({ ...curve, ...changes } as never).word;
    expect(word({ verdict: "keep" })).toBe("kept");
    expect(word({ state: "pruned" })).toBe("pruned");
    expect(word({ state: "evaluating" })).toBe("running");
  });
});

describe("a front", () => {
  const plot = {
    objectives: [{ metric: "a" }, { metric: "b" }],
    front: {
      number: [1, 2],
      scores: [
        [1, 2],
        [null, 3],
      ],
    },
    others: { number: [3], scores: [[0]] },
  } as unknown as ParetoPlot;
  it("holds only trials with both scores, and the table all", () => {
    expect(paretoPoints(plot.front)).toEqual([{ value: [1, 2], number: 1 }]);
    expect(paretoPoints(plot.others)).toEqual([]);
    expect(paretoTable(plot).rows).toEqual([
      [1, "on the front", "1", "2"],
      [2, "on the front", "–", "3"],
      [3, "behind it", "0", "–"],
    ]);
  });
});

describe("a timeline", () => {
  const row = {
    trial: 3,
    attempt: "t3-train-0",
    kind: "train",
    split: null,
    state: "running",
    reason: null,
    slot: 0,
    started_at: "2026-05-04T09:30:00.000+00:00",
    ended_at: null,
  };
  const plot = { now: "2026-05-04T09:31:30.000+00:00", slots: 1, rows: [row] };
  const timeline = plot as unknown as TimelinePlot;

  it("reaches to now while an attempt runs", () => {
    const [bar] = barsOf(timeline);
    expect((bar?.value[2] ?? 0) - (bar?.value[1] ?? 0)).toBe(90_000);
    expect(timelineTable(timeline).rows[0]?.at(-1)).toBe("1 min 30 s");
  });

  it("says what ran, or how it went wrong", () => {
    const word = (changes: object) => lookOf({ ...row, ...changes } as never).word;
    expect([word({}), word({ kind: "evaluate" }), word({ kind: "merge_lora" })]).toEqual([
      "training",
      "evaluation",
      "merge lora",
    ]);
    expect(word({ state: "rejected" })).toBe("rejected");
    expect(word({ state: "lost" })).toBe("lost");
  });

  it("grows with its slots, within the page", () => {
    expect(timelineHeight({ ...timeline, slots: 0 })).toBe(140);
    expect(timelineHeight({ ...timeline, slots: 5000 })).toBe(900);
  });
});

describe("the arms of a proposer", () => {
  const arm = (name: string) => ({ name, curve: { finish: [1, 2], mean: [0.5, null] } });
  const proposer = {
    metric: "m",
    arms: [arm("hybrid/tpe"), arm("llm"), arm("random")],
  } as unknown as Proposer;
  it("have a colour each, again from the first where there are more", () => {
    expect(armsLegend(proposer, PALETTE).map((one) => [one.name, one.colour])).toEqual([
      ["tpe", "one"],
      ["llm", "two"],
      ["random", "one"],
    ]);
    expect(proposer.arms.map((one) => armPoints(one).length)).toEqual([1, 1, 1]);
    expect(armsTable(proposer).rows[0]).toEqual(["tpe", "1", "0.5"]);
  });
});
