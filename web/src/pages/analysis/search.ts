/** What the address of an analysis holds: the view and its axes. */
import { countOf, oneOf, textOf, textsOf } from "../../app/search";

export const VIEWS = [
  "parallel",
  "importances",
  "slice",
  "contour",
  "edf",
  "pareto",
  "intermediate",
  "timeline",
] as const;
export type View = (typeof VIEWS)[number];

export interface AnalysisSearch {
  readonly view?: View | undefined;
  /** Of parallel coordinates and slices; none: all. */
  readonly params?: readonly string[] | undefined;
  /** Of a contour, parameters; of a Pareto front, metrics. */
  readonly x?: string | undefined;
  readonly y?: string | undefined;
  readonly metric?: string | undefined;
  readonly before?: number | undefined;
}

export function readAnalysisSearch(given: Readonly<Record<string, unknown>>): AnalysisSearch {
  return {
    view: oneOf(given.view, VIEWS),
    params: textsOf(given.params),
    x: textOf(given.x),
    y: textOf(given.y),
    metric: textOf(given.metric),
    before: countOf(given.before),
  };
}

type Json = Readonly<Record<string, unknown>>;

const mapping = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

export interface StudyNames {
  readonly params: readonly string[];
  /** The objective first. */
  readonly metrics: readonly string[];
}

/** The names that axes can be chosen from, read from the study file. */
export function namesOf(spec: unknown, objective: string): StudyNames {
  const file = mapping(spec);
  const further = Array.isArray(file.objectives) ? (file.objectives as unknown[]) : [];
  const names = [
    objective,
    ...further.flatMap((one) => textOf(mapping(one).metric) ?? []),
    ...Object.keys(mapping(mapping(file.evaluator).metrics)),
  ];
  return { params: Object.keys(mapping(file.space)), metrics: [...new Set(names)] };
}

/** The chosen one where it is known, else the first that is not `other`. */
export function chosenName(
  known: readonly string[],
  chosen: string | undefined,
  other?: string,
): string | undefined {
  if (chosen !== undefined && known.includes(chosen) && chosen !== other) return chosen;
  return known.find((name) => name !== other);
}
