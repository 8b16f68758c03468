import { expect, it } from "vitest";
import { paramChanges } from "./changes";

it("lists what differs by name, also what one side lacks", () => {
  expect(paramChanges({ b: 1, a: "x", same: true }, { b: 2, same: true, c: null })).toEqual([
    { name: "a", before: "x", after: null },
    { name: "b", before: 1, after: 2 },
  ]);
  expect(paramChanges(undefined, undefined)).toEqual([]);
});
