import { describe, expect, it } from "vitest";
import { faultsOf, readStudy, studyAround } from "./study";

describe("a pasted study", () => {
  it("is read as YAML and as JSON", () => {
    expect(readStudy("name: demo\nbudget: {trials: 3}").study).toEqual({
      name: "demo",
      budget: { trials: 3 },
    });
    expect(readStudy('{"name": "demo"}').study).toEqual({ name: "demo" });
  });

  it.each(["", "- a list", "just text", "name: [", "name: a\nname: b"])(
    "that is none is refused in a sentence: %j",
    (text) => {
      expect(readStudy(text).problem).toMatch(/\w/);
    },
  );

  it("with a bomb of aliases ends at once", () => {
    const lines = ["a0: &a0 [x, x]"];
    for (let at = 1; at < 30; at += 1) {
      lines.push(`a${String(at)}: &a${String(at)} [*a${String(at - 1)}, *a${String(at - 1)}]`);
    }
    expect(readStudy(lines.join("\n")).problem).toMatch(/alias/i);
  });
});

it("states the axes that were chosen, counts as numbers", () => {
  const { program } = studyAround({ stage: "online_rl", trainer: "", group_size: "8" });
  expect(program).toMatchObject({ plan: { stage: "online_rl", group_size: 8 } });
});

it("puts a fault beside its input and keeps the others", () => {
  const { byField, rest } = faultsOf(
    [
      { field: "program.plan.sync", detail: "program.plan.sync: 'x': no such value" },
      { field: "program.plan.sync", detail: "and more" },
      { field: "program", detail: "all wrong" },
    ],
    "program.plan.",
    ["sync"],
  );
  expect(byField).toEqual({ sync: "'x': no such value; and more" });
  expect(rest).toEqual([{ field: "program", detail: "all wrong" }]);
});
