/** What the address of the list holds. */
import type { StudyState } from "../../api/types";
import { listOf, oneOf, textOf } from "../../app/search";

export type StateGroup = "active" | "paused" | "completed" | "failed" | "cancelled" | "imported";

export const STATE_GROUPS: readonly { readonly value: StateGroup; readonly label: string }[] = [
  { value: "active", label: "Active" },
  { value: "paused", label: "Paused" },
  { value: "completed", label: "Completed" },
  { value: "failed", label: "Failed" },
  { value: "cancelled", label: "Cancelled" },
  { value: "imported", label: "Imported" },
];

const ACTIVE: readonly StudyState[] = [
  "submitted",
  "preparing",
  "running",
  "draining",
  "replaying",
];

export interface StudiesSearch {
  readonly q?: string | undefined;
  readonly states?: readonly StateGroup[] | undefined;
  readonly sort?: "submitted_at" | "name" | "state" | undefined;
  readonly order?: "asc" | "desc" | undefined;
}

export function readStudiesSearch(given: Readonly<Record<string, unknown>>): StudiesSearch {
  return {
    q: textOf(given.q),
    states: listOf(
      given.states,
      STATE_GROUPS.map((group) => group.value),
    ),
    sort: oneOf(given.sort, ["submitted_at", "name", "state"] as const),
    order: oneOf(given.order, ["asc", "desc"] as const),
  };
}

export function statesOf(
  groups: readonly StateGroup[] | undefined,
): readonly StudyState[] | undefined {
  if (groups === undefined) return undefined;
  return groups.flatMap((group): readonly StudyState[] => (group === "active" ? ACTIVE : [group]));
}
