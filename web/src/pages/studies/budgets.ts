import type { BudgetLine } from "../../ui/Progress";

/** The limited budget of which the largest share is spent: the one that will end the study. */
export function tightestBudget(
  budgets: Readonly<Record<string, BudgetLine | undefined>>,
): { readonly resource: string; readonly line: BudgetLine } | null {
  let found: { resource: string; line: BudgetLine; share: number } | null = null;
  for (const [resource, line] of Object.entries(budgets)) {
    if (line === undefined || line.limit === null || line.limit <= 0) continue;
    const share = line.spent / line.limit;
    if (found === null || share > found.share) found = { resource, line, share };
  }
  return found === null ? null : { resource: found.resource, line: found.line };
}
