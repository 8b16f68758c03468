/** Reading what an address holds: anything may stand there, what is not understood is left out. */

const LONGEST = 400;

export function textOf(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && text !== "" ? text.slice(0, LONGEST) : undefined;
}

export function oneOf<Value extends string>(
  value: unknown,
  known: readonly Value[],
): Value | undefined {
  return known.find((option) => option === value);
}

export function listOf<Value extends string>(
  value: unknown,
  known: readonly Value[],
): Value[] | undefined {
  const given: unknown[] = Array.isArray(value) ? value : [value];
  const found = known.filter((option) => given.includes(option));
  return found.length === 0 ? undefined : found;
}

export function textsOf(value: unknown): string[] | undefined {
  const given: unknown[] = Array.isArray(value) ? value : [value];
  const found = given.flatMap((one) => textOf(one) ?? []).slice(0, 20);
  return found.length === 0 ? undefined : found;
}

export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
