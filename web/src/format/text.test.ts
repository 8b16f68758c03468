import { expect, it } from "vitest";
import { oneLine, shortName, visible } from "./text";

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

it("what is invisible, or piled upon a letter, is not hidden any more", () => {
  expect(visible("a\u3164b\u{e0041}")).toBe("a‹U+3164›b‹U+E0041›");
  expect(visible(`e${"\u0301".repeat(30)}!`)).toBe(`e${"\u0301".repeat(4)}…!`);
  expect(visible("क्षि é 👩‍💻".replace("\u200d", ""))).toBe("क्षि é 👩💻");
});

it("names that are alike are told apart by their ends", () => {
  const names = [1, 2].map((n) => `${"a_word_that_never_ends_".repeat(9)}${String(n)}`);
  const short = names.map((name) => shortName(name, 20));
  expect(short[0]).not.toBe(short[1]);
  expect(short.every((name) => name.length === 20)).toBe(true);
  expect(shortName("learning_rate", 20)).toBe("learning_rate");
  expect(shortName("x\n\u202ey", 20)).toBe("x ‹U+202E›y");
});
