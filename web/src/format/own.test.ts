import { describe, expect, it } from "vitest";
import { paramRows, scoreRows } from "../pages/compare/shaping";
import { paramChanges } from "../pages/promotion/changes";
import { resourceName } from "./numbers";
import { own } from "./own";

const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty"];

describe("a name that every object has", () => {
  it.each(NAMES)("%s is absent where nobody wrote it", (name) => {
    expect(own({}, name)).toBeUndefined();
    expect(typeof resourceName(name)).toBe("string");
  });

  it.each(NAMES)("%s is a parameter and a score like any other", (name) => {
    const has = JSON.parse(`{"${name}": 0.5}`) as Record<string, number>;
    expect(paramRows([{ params: has }, { params: {} }])[0]?.values).toEqual([0.5, undefined]);
    expect(paramChanges({}, has)).toEqual([{ name, before: null, after: 0.5 }]);
    const measured = (scores: Record<string, number>) =>
      ({ evaluations: [{ split: "search", scores, items: 4 }], non_finite: [] }) as never;
    expect(scoreRows([measured(has), measured({})])[0]?.values).toEqual([0.5, null]);
  });
});
