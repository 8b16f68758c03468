/** What the address of a comparison holds: `?trials=a,b,c`. */

export const MOST = 8;
const LONGEST = 200;

export interface CompareSearch {
  readonly trials?: string | undefined;
}

export function idsOf(text: string | undefined): readonly string[] {
  const found = (text ?? "").split(",").map((id) => id.trim());
  return [...new Set(found.filter((id) => id !== "" && id.length <= LONGEST))].slice(0, MOST);
}

export const textOfIds = (ids: readonly string[]): string | undefined =>
  ids.length === 0 ? undefined : ids.join(",");

export function readCompareSearch(given: Readonly<Record<string, unknown>>): CompareSearch {
  const { trials } = given;
  const text = Array.isArray(trials) ? trials.join(",") : typeof trials === "string" ? trials : "";
  return { trials: textOfIds(idsOf(text)) };
}
