import { expect, test } from "vitest";
import { idsOf, MOST, readCompareSearch } from "./search";
import { bestPlace, paramRows, scoreRows } from "./shaping";

test("parameters that differ come first, also those that only some have", () => {
  const rows = paramRows([{ params: { a: 1, b: 2 } }, { params: { a: 1, b: 3, c: "x" } }]);
  expect(rows.map((row) => [row.name, row.differs])).toEqual([
    ["b", true],
    ["c", true],
    ["a", false],
  ]);
  expect(rows[1]?.values).toEqual([undefined, "x"]);
});

test("a score that is NaN stays NaN, a missing one is none", () => {
  const evaluation = {
    split: "search" as const,
    value: null,
    scores: { score: null },
    items: 8,
    bundle: "",
    artifact: "",
    attempt: "a",
  };
  const rows = scoreRows([
    {
      evaluations: [evaluation],
      non_finite: [{ path: "evaluations/0/scores/score", value: "nan" }],
    },
    { evaluations: [], non_finite: [] },
  ]);
  expect(rows).toEqual([
    { split: "search", metric: "score", values: [Number.NaN, null], items: [8, 0] },
  ]);
});

test("the best is named only where values differ", () => {
  expect(bestPlace([0.2, null, 0.7], "maximize")).toBe(2);
  expect(bestPlace([0.2, Number.NaN, 0.7], "minimize")).toBe(0);
  expect(bestPlace([0.5, 0.5], "maximize")).toBeNull();
  expect(bestPlace([], "maximize")).toBeNull();
});

test("an address holds each trial once and no more than can be shown", () => {
  expect(idsOf("a, b,,a")).toEqual(["a", "b"]);
  expect(idsOf(Array.from({ length: 50 }, (_, n) => `t${String(n)}`).join(","))).toHaveLength(MOST);
  expect(readCompareSearch({ trials: 7 })).toEqual({ trials: undefined });
});
