import { expect, test } from "vitest";
import type { ContourPlot, CoordinatesPlot } from "../api/types";
import { namesOf, chosenName, readAnalysisSearch } from "../pages/analysis/search";
import { cellsOf, contourTable } from "./contour";
import type { Palette } from "./palette";
import { coordinatesTable, isConstant, lineData, placeText } from "./parallel";
import { extentOf, goodness, mixed } from "./ramp";
import { slicePoints } from "./slice";

const PALETTE = { mute: "rgb(0, 0, 0)", accent: "rgb(100, 200, 50)" } as unknown as Palette;
const AXIS = { name: "x", kind: "float", log: false, categories: null, low: 0, high: 1 };
const PLOT: CoordinatesPlot = {
  study: "s",
  metric: "score",
  direction: "minimize",
  of: 3,
  sampled: false,
  outcomes: ["kept", "discarded"],
  number: [4, 5, 6],
  value: [0.5, null, 0.1],
  outcome: [0, 1, 1],
  axes: [
    { ...AXIS, values: [0.2, 0.3, null] },
    { ...AXIS, name: "opt", categories: ["adam"], values: [0, 0, 0] },
  ],
};

test("colours lie between two, and out of range at an end", () => {
  expect(mixed("rgb(0, 0, 0)", "rgb(100, 200, 50)", 0.5)).toBe("rgb(50, 100, 25)");
  expect(mixed("rgb(0, 0, 0)", "rgb(100, 200, 50)", 7)).toBe("rgb(100, 200, 50)");
});

test("an extent is of finite values, or there is none", () => {
  expect(extentOf([null, Number.NaN, 3, -1, Infinity])).toEqual([-1, 3]);
  expect(extentOf([null, undefined, Number.NaN])).toBeNull();
  expect(goodness(2, [2, 2], "maximize")).toBe(0.5);
});

test("the best line is drawn last, and a trial without a value is not drawn", () => {
  expect(lineData(PLOT, PALETTE).map((line) => line.number)).toEqual([4, 6]);
  expect(lineData(PLOT, PALETTE)[1]?.value).toEqual(["-", 0, 0.1]);
  expect(lineData({ ...PLOT, value: [null, null, null] }, PALETTE)).toEqual([]);
});

test("the table has the best first and those without a value last", () => {
  expect(coordinatesTable(PLOT).rows.map((row) => row[0])).toEqual([6, 4, 5]);
});

test("a single category is constant and told by its name", () => {
  const [x, opt] = PLOT.axes;
  expect(x !== undefined && isConstant(x)).toBe(false);
  expect(opt !== undefined && isConstant(opt)).toBe(true);
  expect(opt !== undefined && placeText(opt, 0)).toBe("adam");
});

test("a slice leaves out trials without the parameter or the value", () => {
  const [x] = PLOT.axes;
  if (x === undefined) throw new Error("there is an axis");
  expect(slicePoints(PLOT, x, 0)).toEqual([{ value: [0.2, 0.5], number: 4 }]);
  expect(slicePoints(PLOT, x, 1)).toEqual([]);
});

test("a contour's table holds measured cells only", () => {
  const plot: ContourPlot = {
    study: "s",
    metric: "score",
    direction: "maximize",
    of: 2,
    sampled: false,
    x: { ...AXIS, cells: [0.25, 0.75] },
    y: { ...AXIS, name: "y", cells: [0.5] },
    mean: [[0.4, 0.6]],
    count: [[0, 2]],
  };
  expect(cellsOf(plot)).toHaveLength(2);
  expect(contourTable(plot).rows).toEqual([["0.75", "0.5", "0.6", "2"]]);
});

test("an address that holds anything is read as what is understood of it", () => {
  expect(readAnalysisSearch({ view: "nonsense", before: -1, params: ["a", "b"] })).toEqual({
    view: undefined,
    params: ["a", "b"],
    x: undefined,
    y: undefined,
    metric: undefined,
    before: undefined,
  });
  const spec = {
    space: { a: {}, b: {} },
    objectives: [{ metric: "cost" }],
    evaluator: { metrics: { score: {} } },
  };
  expect(namesOf(spec, "score")).toEqual({ params: ["a", "b"], metrics: ["score", "cost"] });
  expect(namesOf(null, "score")).toEqual({ params: [], metrics: ["score"] });
  expect(chosenName(["a", "b"], "a", "a")).toBe("b");
  expect(chosenName(["a"], undefined, "a")).toBeUndefined();
});
