import { describe, expect, it } from "vitest";
import { lineageGraph, shortId, type LineageFact } from "./lineage";

const node = (
  kind: string,
  id: string,
  came_from: readonly string[],
  facts: Readonly<Record<string, unknown>> = {},
): LineageFact => ({ kind, id, came_from, facts });

const trials = Array.from({ length: 11 }, (_, at) =>
  node("trial", `s-${String(at)}`, ["s-c2"], {
    number: at,
    kind: "replay",
    stage: `stage1:${String(at)}`,
    state: "complete",
  }),
);
const NODES = [
  node("study", "s", [], { name: "one\u202etwo" }),
  node("input", "base:1", ["s"]),
  node("candidate", "s-c1", ["s", "base:1"], { proposer: "llm", state: "discarded" }),
  node("candidate", "s-c2", ["s", "base:1", "s-c1"], { proposer: "llm", state: "kept" }),
  ...trials,
  node("artifact", "s-0:ab", ["s-0"]),
  node("evaluation", "s-0:holdout_a", ["s-0:ab"], { scores: { score: 0.5 } }),
  node("family", "s-f1", ["s-c2"], { state: "promoted" }),
  node("promotion", "toy:1", ["s-f1"], { model: "toy", seq: 1 }),
  node("conversion", "s-k1", ["s-c2"], {}),
];

describe("a lineage", () => {
  const graph = lineageGraph("s-c2", NODES);
  const boxes = new Map(graph.boxes.map((box) => [box.id, box]));

  it("goes from the study over the ancestors to the promotion, left to right", () => {
    const x = ["s", "s-c1", "s-c2", "s-f1", "toy:1"].map((id) => boxes.get(id)?.x ?? -1);
    expect(x).toEqual([...x].sort((a, b) => a - b));
    expect(new Set(x).size).toBe(5);
    expect(boxes.get("s-c2")?.isSelf).toBe(true);
  });

  it("draws five executions and counts the rest", () => {
    expect(graph.boxes.filter((box) => box.kind === "trial")).toHaveLength(5);
    expect(graph.hidden).toBe(6);
  });

  it("says an execution's score, and folds files and scores into it", () => {
    expect(boxes.get("s-0")?.detail).toBe("stage 1 · 0.5");
    expect(boxes.has("s-0:ab")).toBe(false);
    expect(boxes.get("s")?.label).toBe("one‹U+202E›two");
  });

  it("joins the study to the oldest ancestor only, and everything else to what it came from", () => {
    const pairs = graph.edges.map((edge) => `${edge.from}>${edge.to}`);
    expect(pairs).toContain("s>s-c1");
    expect(pairs).not.toContain("s>s-c2");
    expect(pairs).toContain("s-c1>s-c2");
    expect(pairs).toContain("s-f1>toy:1");
  });

  it("shows a kind it does not know", () => {
    expect(boxes.get("s-k1")?.target).toEqual({ to: "nowhere" });
  });

  it("overlaps nowhere", () => {
    const places = graph.boxes.map((box) => `${String(box.x)},${String(box.y)}`);
    expect(new Set(places).size).toBe(places.length);
  });
});

it("shortens ids to what tells them apart", () => {
  expect(shortId("s17-c04ee41c4ceac1b40")).toBe("c04ee41c4…");
  expect(shortId("s17-f1")).toBe("f1");
});
