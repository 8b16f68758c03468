import { expect, it } from "vitest";
import { isCondition } from "./Conditions";
import { csvAddress, isFiltered, readTrialsSearch, trialListQuery } from "./search";

it("what an address holds that is not understood is left out", () => {
  const search = readTrialsSearch({
    q: 7,
    outcomes: ["kept", "<script>", 3],
    kinds: "search",
    where: ["value>0.5", "", null],
    sort: { a: 1 },
    order: "sideways",
  });
  expect(search).toEqual({
    q: "7",
    outcomes: ["kept"],
    kinds: ["search"],
    where: ["value>0.5"],
    sort: undefined,
    order: undefined,
  });
});

it("running means all that is under way", () => {
  expect(trialListQuery({ outcomes: ["running"] }).outcome).toEqual([
    "proposed",
    "running",
    "evaluating",
    "deciding",
  ]);
});

it("an order is no filter", () => {
  expect(isFiltered({ sort: "value", order: "asc" })).toBe(false);
  expect(isFiltered({ q: "x" })).toBe(true);
});

it("the file has the filters of the list, each as often as it is set", () => {
  expect(csvAddress("s 1", { outcomes: ["kept", "failed"], where: ["params.a=b&c"] })).toBe(
    "/api/v1/studies/s%201/trials.csv?where=params.a%3Db%26c&outcome=kept&outcome=failed",
  );
});

it.each(["value>0.5", "params.learning rate <= 1e-3", "metrics.train/loss!=2", "number=3"])(
  "%s is a condition",
  (text) => expect(isCondition(text)).toBe(true),
);

it.each(["", "value", "value>", ">0.5", "speed>3", "params.>1"])("%s is none", (text) =>
  expect(isCondition(text)).toBe(false),
);
