import { textOf } from "../../app/search";

export interface PlanSearch {
  readonly tab?: string | undefined;
}

export function readPlanSearch(given: Readonly<Record<string, unknown>>): PlanSearch {
  return { tab: textOf(given.tab) };
}
