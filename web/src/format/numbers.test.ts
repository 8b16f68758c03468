import { describe, expect, it } from "vitest";
import {
  formatAmount,
  formatBytes,
  formatDuration,
  formatNumber,
  formatShare,
  plural,
} from "./numbers";

describe("numbers", () => {
  it.each([
    [0.8125, "0.8125"],
    [0.30000000000000004, "0.3"],
    [12345, "12\u202f345"],
    [1234, "1234"],
    [-3.5, "\u22123.5"],
    [0.0000031, "3.1e\u22126"],
    [1e300, "1e300"],
    [-0, "0"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "∞"],
    [Number.NEGATIVE_INFINITY, "\u2212∞"],
    [99999.96, "100\u202f000"],
  ])("%d is written %s", (value, text) => expect(formatNumber(value)).toBe(text));

  it.each([
    [0, "0 s"],
    [0.0004, "1 ms"],
    [0.48, "480 ms"],
    [0.9999, "1 s"],
    [3.24, "3.2 s"],
    [59.9, "1 min 00 s"],
    [245, "4 min 05 s"],
    [7800, "2 h 10 min"],
    [273_600, "3 d 4 h"],
    [-2, "0 s"],
  ])("%d s is written %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  it("bytes have binary units", () => {
    expect(formatBytes(17)).toBe("17 B");
    expect(formatBytes(10_391_388)).toBe("9.91 MiB");
  });

  it("a share is never rounded to nothing", () => {
    expect(formatShare(0)).toBe("0 %");
    expect(formatShare(0.0001)).toBe("< 0.1 %");
    expect(formatShare(1)).toBe("100 %");
  });

  it("a budget is written in its own unit", () => {
    expect(formatAmount("gpu_s", 5400)).toBe("1.5 GPU h");
    expect(formatAmount("llm_cost_usd", 0.125)).toBe("$0.125");
    expect(formatAmount("wall_s", 600)).toBe("10 min 00 s");
  });

  it("one of a thing has no s", () => {
    expect(plural(1, "trial")).toBe("1 trial");
    expect(plural(20000, "trial")).toBe("20\u202f000 trials");
  });
});
