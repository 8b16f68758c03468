/** A study file as it is pasted, and a bare one around a system that is only planned. */
import { parseDocument } from "yaml";
import type { StudyDocument } from "../../api/queries/plans";

export type ReadStudy =
  | { readonly study: StudyDocument; readonly problem?: undefined }
  | { readonly study?: undefined; readonly problem: string };

const LONGEST = 1_000_000;
/** Aliases of a file that was pasted; a bomb of them has thousands. */
const MOST_ALIASES = 50;

/** YAML or JSON; says in one sentence what it is not. */
export function readStudy(text: string): ReadStudy {
  if (text.trim() === "") return { problem: "Paste a study file" };
  if (text.length > LONGEST)
    return { problem: "The file is too long: a million characters at most" };
  const document = parseDocument(text, { prettyErrors: true });
  const error = document.errors[0];
  if (error !== undefined) return { problem: error.message };
  try {
    const value: unknown = document.toJS({ maxAliasCount: MOST_ALIASES });
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return { problem: "A study file is a mapping: it begins with a line such as name: demo" };
    }
    return { study: value as StudyDocument };
  } catch (problem) {
    return { problem: problem instanceof Error ? problem.message : "It cannot be read" };
  }
}

export type Axes = Readonly<Record<string, string>>;

const COUNTS: ReadonlySet<string> = new Set([
  "group_size",
  "trainer_gpus",
  "rollout_gpus",
  "staleness_bound",
  "tensor_parallel",
]);

/** The smallest study that states such a system. */
export function studyAround(axes: Axes): StudyDocument {
  const stated = Object.entries(axes)
    .filter(([, value]) => value !== "")
    .map(([axis, value]) => [axis, COUNTS.has(axis) ? asNumber(value) : value] as const);
  return {
    name: "plan",
    objective: { metric: "score", direction: "maximize" },
    program: { kind: "command", argv: ["train"], plan: Object.fromEntries(stated) },
    space: { learning_rate: { type: "float", low: 1e-6, high: 1e-4, default: 1e-5 } },
    evaluator: {
      bundle: "evaluator",
      argv: ["evaluate"],
      splits: { search: "search.jsonl", holdout: "holdout.jsonl" },
      metrics: { score: {} },
    },
    budget: { trials: 1 },
  };
}

/** What is no number is sent as it stands: the server says what to write instead. */
const asNumber = (value: string): string | number => {
  const number = Number(value);
  return Number.isFinite(number) ? number : value;
};

export interface Fault {
  readonly field: string;
  readonly detail: string;
}

/** Faults by the input they are about; the rest is for the form as a whole. */
export function faultsOf(
  faults: readonly Fault[],
  prefix: string,
  known: readonly string[],
): { readonly byField: Readonly<Record<string, string>>; readonly rest: readonly Fault[] } {
  const byField: Record<string, string> = {};
  const rest: Fault[] = [];
  for (const fault of faults) {
    const name = fault.field.startsWith(prefix) ? fault.field.slice(prefix.length) : null;
    if (name === null || !known.includes(name)) {
      rest.push(fault);
      continue;
    }
    const detail = fault.detail.startsWith(`${fault.field}: `)
      ? fault.detail.slice(fault.field.length + 2)
      : fault.detail;
    byField[name] = byField[name] === undefined ? detail : `${byField[name]}; ${detail}`;
  }
  return { byField, rest };
}
