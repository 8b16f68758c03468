import { listOf, textOf } from "../../app/search";
import type { PromotionState } from "../../api/queries/promotions";

export interface PromotionsSearch {
  readonly state?: readonly PromotionState[] | undefined;
  readonly model?: string | undefined;
}

export const PROMOTION_STATES: readonly PromotionState[] = [
  "awaiting_approval",
  "open",
  "promoted",
  "passed",
  "refused",
  "inconclusive",
  "declined",
];

export function readPromotionsSearch(given: Readonly<Record<string, unknown>>): PromotionsSearch {
  return { state: listOf(given.state, PROMOTION_STATES), model: textOf(given.model) };
}
