import { describe, expect, it } from "vitest";
import { comparisons, endText, gateChecks, stageText, type Gate } from "./evidence";
import { meanInterval, scaleOf } from "./spread";

const POOL = { a: [0.3, 0.31], b: [0.3, 0.32] };
const PASSED: Gate = {
  state: "awaiting_approval",
  reason: "passed",
  profile: { n0: 5 },
  evidence: {
    pool: POOL,
    best: "s-c1",
    bar: 0.305,
    stage1: { "s-c1": { a: [0.8], failed: 0, screening: 0.8 }, "s-c2": { a: [0.2], failed: 1 } },
    stage1_mean: 0.8,
    interim_mean: 0.79,
    stage2: { b: [0.8, 0.78], failed: 0, mean: 0.79 },
    p: 0.008,
    alpha: 0.04,
    gain: 0.5,
    ci95: [0.4, 0.6],
    min_effect: 0,
    confirm: { new: [0.8, 0.81], old: [0.3], new_failed: 0, old_failed: 0 },
    guards: { cost: { drop: 0.2, drop_bound95: 0.4, holds: false, max_drop: 0.1 } },
  },
};

describe("the gate's checks", () => {
  it("are all answered for a family that went the whole way", () => {
    const found = gateChecks(PASSED);
    expect(found.map((check) => [check.id, check.verdict])).toEqual([
      ["pool", "passed"],
      ["stage1", "passed"],
      ["interim", "passed"],
      ["test", "passed"],
      ["confirm", "passed"],
      ["guard:cost", "failed"],
    ]);
    expect(found[1]?.detail).toBe("mean 0.8 against the bar at 0.305");
    expect(found[3]?.detail).toBe("p = 0.008, passes at 0.04 or less");
    expect(found[4]?.detail).toContain("95 % interval 0.4 to 0.6");
  });

  it("stop where the family was refused, and say what was never asked", () => {
    const { pool, best, bar, stage1, stage1_mean } = PASSED.evidence;
    const refused = {
      ...PASSED,
      state: "refused",
      reason: "stage1_futility",
      evidence: { pool, best, bar, stage1, stage1_mean },
    };
    expect(gateChecks(refused).map((check) => check.verdict)).toEqual([
      "passed",
      "failed",
      "unreached",
      "unreached",
      "unreached",
    ]);
  });

  it("wait while the family is open, and survive evidence of any shape", () => {
    const odd = { pool: 3, stage1: [1], ci95: ["a", null], guards: "none", gain: "0.3" };
    const open = { state: "open", reason: null, profile: {}, evidence: odd };
    expect(new Set(gateChecks(open).map((check) => check.verdict))).toEqual(new Set(["waiting"]));
    expect(comparisons(open)).toEqual([]);
  });
});

describe("the runs that are compared", () => {
  it("stand in stages, the incumbent first, with the members of the family by name", () => {
    const found = comparisons(PASSED);
    expect(found.map((one) => one.id)).toEqual(["confirm", "stage2", "stage1"]);
    expect(found[2]?.groups.map((g) => g.candidate)).toEqual([undefined, "s-c1", "s-c2"]);
    expect(found[2]?.groups[2]?.failed).toBe(1);
    expect(found[2]?.bar).toBe(0.305);
  });

  it("have Student's interval from two values on", () => {
    expect(meanInterval([1])).toBeNull();
    const [low, high] = meanInterval([1, 2, 3]) ?? [0, 0];
    expect(low).toBeCloseTo(2 - 4.303 / Math.sqrt(3), 3);
    expect(high).toBeCloseTo(2 + 4.303 / Math.sqrt(3), 3);
  });

  it("fit on a scale also when all are the same", () => {
    const scale = scaleOf([0, 0]);
    expect(scale.at(0)).toBe(50);
    expect(scaleOf([1, 3]).at(3)).toBeLessThan(100);
  });
});

it("says what a stage and an end are", () => {
  expect(stageText("stage1:0", false)).toBe("stage 1, seed 0");
  expect(stageText("confirm:7", false)).toBe("confirm, seed 7");
  expect(stageText(null, true)).toBe("pool");
  expect(endText({ ...PASSED, state: "refused", reason: "not_significant" })).toBe(
    "It ended: not significant.",
  );
});
