/** Colours between two, and where a value lies between others. */

function channels(colour: string): readonly number[] {
  return (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
}

/** Between two `rgb(…)` colours: 0 is the first, 1 the second. */
export function mixed(from: string, to: string, share: number): string {
  const [a, b] = [channels(from), channels(to)];
  if (a.length < 3 || b.length < 3) return to;
  const at = Math.min(1, Math.max(0, share));
  return `rgb(${a.map((one, i) => Math.round(one + ((b[i] ?? one) - one) * at)).join(", ")})`;
}

/** The smallest and the largest finite value; null where there is none. */
export function extentOf(
  values: readonly (number | null | undefined)[],
): readonly [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** 0 for the worst, 1 for the best; one half where all are equal. */
export function goodness(
  value: number,
  [low, high]: readonly [number, number],
  direction: "maximize" | "minimize",
): number {
  if (high <= low) return 0.5;
  const share = (value - low) / (high - low);
  return direction === "maximize" ? share : 1 - share;
}
