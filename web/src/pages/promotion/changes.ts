import { own } from "../../format/own";

type Scalar = string | number | boolean | null;
type Params = Readonly<Record<string, Scalar>>;

export interface ParamChange {
  readonly name: string;
  readonly before: Scalar;
  readonly after: Scalar;
}

/** The names whose values differ; a name that one side lacks has null there. */
export function paramChanges(
  before: Params | undefined = {},
  after: Params | undefined = {},
): readonly ParamChange[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names
    .map((name) => ({ name, before: own(before, name) ?? null, after: own(after, name) ?? null }))
    .filter((change) => change.before !== change.after);
}
