/** What the address of a list of trials holds, and the query it means. */
import type { TrialListQuery } from "../../api/queries/trials";
import type { TrialListed } from "../../api/types";
import { listOf, oneOf, textOf, textsOf } from "../../app/search";

export type Outcome = TrialListed["outcome"];
export type Kind = TrialListed["kind"];

export const OUTCOMES: readonly { readonly value: Outcome; readonly label: string }[] = [
  { value: "kept", label: "Kept" },
  { value: "discarded", label: "Discarded" },
  { value: "measured", label: "Measured" },
  { value: "served", label: "Served" },
  { value: "pruned", label: "Pruned" },
  { value: "failed", label: "Failed" },
  { value: "cancelled", label: "Cancelled" },
  { value: "running", label: "Running" },
];

export const KINDS: readonly { readonly value: Kind; readonly label: string }[] = [
  { value: "search", label: "Search" },
  { value: "baseline", label: "Baseline" },
  { value: "replay", label: "Replay" },
  { value: "conversion", label: "Conversion" },
];

export interface TrialsSearch {
  readonly q?: string | undefined;
  readonly outcomes?: readonly Outcome[] | undefined;
  readonly kinds?: readonly Kind[] | undefined;
  /** Comparisons such as `params.learning_rate>=0.001`. */
  readonly where?: readonly string[] | undefined;
  readonly sort?: string | undefined;
  readonly order?: "asc" | "desc" | undefined;
}

export function readTrialsSearch(given: Readonly<Record<string, unknown>>): TrialsSearch {
  return {
    q: textOf(given.q),
    outcomes: listOf(
      given.outcomes,
      OUTCOMES.map((outcome) => outcome.value),
    ),
    kinds: listOf(
      given.kinds,
      KINDS.map((kind) => kind.value),
    ),
    where: textsOf(given.where),
    sort: textOf(given.sort),
    order: oneOf(given.order, ["asc", "desc"] as const),
  };
}

/** "running" for a reader is all that is under way. */
const UNDER_WAY: readonly Outcome[] = ["proposed", "running", "evaluating", "deciding"];

export function trialListQuery(search: TrialsSearch): TrialListQuery {
  return {
    sort: search.sort ?? "number",
    order: search.order ?? "desc",
    ...(search.q === undefined ? {} : { text: search.q }),
    ...(search.kinds === undefined ? {} : { kind: [...search.kinds] }),
    ...(search.where === undefined ? {} : { where: [...search.where] }),
    ...(search.outcomes === undefined
      ? {}
      : { outcome: search.outcomes.flatMap((one) => (one === "running" ? UNDER_WAY : [one])) }),
  };
}

export function isFiltered(search: TrialsSearch): boolean {
  return [search.q, search.outcomes, search.kinds, search.where].some((part) => part !== undefined);
}

/** The same trials as a file. */
export function csvAddress(study: string, search: TrialsSearch): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(trialListQuery(search))) {
    if (name === "sort" || name === "order") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return `/api/v1/studies/${encodeURIComponent(study)}/trials.csv${text === "" ? "" : `?${text}`}`;
}
