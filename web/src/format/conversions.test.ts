import { expect, test } from "vitest";
import { wantedOf, type Entered } from "./conversions";

const EMPTY: Entered = {
  method: "merge",
  margin: "",
  seeds: "",
  group_size: "",
  calibration_rows: "",
};

test("only what a method takes is asked for, and nothing for what was left empty", () => {
  expect(wantedOf(EMPTY)).toEqual({ merge: true });
  expect(wantedOf({ ...EMPTY, method: "keep", seeds: " 3 " })).toEqual({ merge: false, seeds: 3 });
  const grouped = { ...EMPTY, group_size: "64", calibration_rows: "9", margin: "0.02" };
  expect(wantedOf({ ...grouped, method: "int8" })).toEqual({ quantize: "int8", margin: 0.02 });
  expect(wantedOf({ ...grouped, method: "int4" })).toEqual({
    quantize: "int4",
    margin: 0.02,
    group_size: 64,
  });
  expect(wantedOf({ ...grouped, method: "awq" })).toMatchObject({ calibration_rows: 9 });
});

test("what is no number goes to the server as it was typed", () => {
  expect(wantedOf({ ...EMPTY, margin: "two" })).toEqual({ merge: true, margin: "two" });
});
