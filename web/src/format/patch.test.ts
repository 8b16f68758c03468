import { describe, expect, it } from "vitest";
import { changedPieces, parsePatch } from "./patch";

const PATCH = `diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -1,4 +1,4 @@ def train():
 import torch
-lr = 0.001
+lr = 0.003
 steps = 100
-warm = 0
@@ -20,2 +19,3 @@
 end
+print("done")
+--- not a file head
\\ No newline at end of file
--- a/new.py
+++ b/new.py
@@ -0,0 +1 @@
+x = 1
`;

describe("a unified diff", () => {
  const files = parsePatch(PATCH);

  it("has its files, and what was added and removed in each", () => {
    expect(files.map(({ path, added, removed }) => [path, added, removed])).toEqual([
      ["train.py", 3, 2],
      ["new.py", 1, 0],
    ]);
  });

  it("puts a changed line beside what it was, with the numbers of both sides", () => {
    const rows = files[0]?.hunks[0]?.rows ?? [];
    expect(rows.map((row) => [row.kind, row.before?.number, row.after?.number])).toEqual([
      ["same", 1, 1],
      ["changed", 2, 2],
      ["same", 3, 3],
      ["removed", 4, undefined],
    ]);
  });

  it("keeps the hunk's own header", () => {
    expect(files[0]?.hunks.map((hunk) => hunk.header)).toEqual(["def train():", ""]);
  });

  it("takes a removed line that looks like a file's head for a line", () => {
    const found = parsePatch("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n--- a comment\n same\n");
    expect(found).toHaveLength(1);
    expect(found[0]?.removed).toBe(1);
  });
});

it("text that is no patch has no files", () => {
  expect(parsePatch("hello\nworld")).toEqual([]);
});

it("only what differs in a line is marked", () => {
  const [before, after] = changedPieces("lr = 0.001", "lr = 0.003");
  expect(before.filter((piece) => piece.isChanged).map((piece) => piece.text)).toEqual(["1"]);
  expect(after.map((piece) => piece.text).join("")).toBe("lr = 0.003");
});

it("lines with nothing in common are not marked at all", () => {
  const [before] = changedPieces("alpha beta", "12345");
  expect(before.some((piece) => piece.isChanged)).toBe(false);
});
