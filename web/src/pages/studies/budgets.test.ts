import { expect, it } from "vitest";
import { tightestBudget } from "./budgets";

const line = (limit: number | null, spent: number) => ({ limit, spent, reserved: 0, overrun: 0 });

it("the tightest budget is the limited one with the largest share spent", () => {
  const found = tightestBudget({
    trials: line(40, 10),
    wall_s: line(3600, 3000),
    llm_tokens: line(null, 1e9),
    gpu_s: line(0, 0),
  });
  expect(found?.resource).toBe("wall_s");
});

it("without a limit there is none", () => {
  expect(tightestBudget({ trials: line(null, 7), gone: undefined })).toBeNull();
});
