import { expect, it } from "vitest";
import { curvePoints, numberAt } from "./finite";

it("a number that JSON cannot hold is the one named for its place", () => {
  const places = [{ path: "best/value", value: "nan" }];
  expect(numberAt(null, "best/value", places)).toBeNaN();
  expect(numberAt(null, "noise_floor", places)).toBeNull();
  expect(numberAt(0.5, "best/value", places)).toBe(0.5);
});

it("a curve keeps its NaN and infinities, and leaves out what is missing", () => {
  const points = curvePoints({
    steps: [1, 2, 3, 4],
    values: [1, null, null, 2],
    non_finite: { "1": "-inf" },
  });
  expect(points).toEqual([
    { step: 1, value: 1 },
    { step: 2, value: Number.NEGATIVE_INFINITY },
    { step: 4, value: 2 },
  ]);
});
