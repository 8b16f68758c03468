import { expect, it } from "vitest";
import { oneLine, visible } from "./text";

it("colour sequences are dropped, other controls are shown", () => {
  expect(visible("\u001b[31mred\u001b[0m \u0007bell")).toBe("red ␇bell");
  expect(visible("\u001b]8;;https://evil.example\u0007link")).toBe("link");
});

it("characters that reorder or hide text are shown by number", () => {
  expect(visible("a\u202eb")).toBe("a‹U+202E›b");
  expect(visible("x\u200by\ufeff")).toBe("x‹U+200B›y‹U+FEFF›");
});

it("line ends of other systems stay line ends, and tabs stay", () => {
  expect(visible("a\r\nb\tc\n")).toBe("a\nb\tc\n");
});

it("one line is one line, and not longer than it may be", () => {
  expect(oneLine("a\n\n b\u2028c")).toBe("a b‹U+2028›c");
  expect(oneLine("x".repeat(1000), 10)).toBe(`${"x".repeat(10)}…`);
});
