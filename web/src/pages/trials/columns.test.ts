import { expect, it } from "vitest";
import type { TrialListed } from "../../api/types";
import { hiddenAtFirst, namesIn, trialColumns } from "./columns";

const row = (params: object, scores = {}, metrics = {}) =>
  ({ params, scores, metrics }) as unknown as TrialListed;

it("there is a column for every name that occurs, and numbers stand at the right", () => {
  const names = namesIn([
    row({ lr: 0.1, opt: "adam" }, { score: 1 }),
    row({ lr: null, opt: 3, deep: 2 }, {}, { kl: 0.5 }),
  ]);
  expect(names.params).toEqual(["lr", "opt", "deep"]);
  expect(names.numeric).toEqual(["lr", "deep"]);
  const made = new Map(trialColumns(names).map((column) => [column.id, column]));
  expect(made.get("params.lr")?.isNumber).toBe(true);
  expect(made.get("params.opt")?.isNumber).toBe(false);
  expect([...made.keys()]).toContain("scores.score");
  expect([...made.keys()]).toContain("metrics.kl");
});

it("names that are alike have titles that are not, and the whole on hover", () => {
  const long = "per_device_train_batch_size_of_the_";
  const columns = trialColumns(namesIn([row({ [`${long}actor`]: 1, [`${long}critic`]: 2 })]));
  const found = columns.filter((column) => column.id.startsWith("params."));
  expect(new Set(found.map((column) => column.title)).size).toBe(2);
  expect(found[0]?.hint).toBe(`${long}actor`);
  expect(found.every((column) => column.width <= 220)).toBe(true);
});

it("what would be too much at once is shown when it is asked for", () => {
  const params = Object.fromEntries(Array.from({ length: 12 }, (_, n) => [`p${String(n)}`, n]));
  const hidden = hiddenAtFirst(namesIn([row(params, { score: 1 }, { kl: 1 })]));
  expect(hidden.has("params.p7")).toBe(false);
  expect(hidden.has("params.p8")).toBe(true);
  expect(hidden.has("scores.score")).toBe(true);
  expect(hidden.has("metrics.kl")).toBe(true);
});
