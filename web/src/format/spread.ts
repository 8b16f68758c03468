/** Means, their intervals, and the scale on which runs are drawn. */

export function meanOf(values: readonly number[]): number | null {
  const [first] = values;
  if (first === undefined) return null;
  // Around the first: the mean of equal values is that value, and their spread nothing.
  return first + values.reduce((sum, value) => sum + (value - first), 0) / values.length;
}

/** Student's t, 97.5 %, for 1 … 30 degrees of freedom; the normal's beyond. */
const T975 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048,
  2.045, 2.042,
];

/** The 95 % interval of a mean; null for fewer than two values. */
export function meanInterval(values: readonly number[]): readonly [number, number] | null {
  const mean = meanOf(values);
  if (mean === null || values.length < 2) return null;
  const freedom = values.length - 1;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const half = (T975[freedom - 1] ?? 1.96) * Math.sqrt(squares / freedom / values.length);
  return [mean - half, mean + half];
}

export interface Scale {
  readonly low: number;
  readonly high: number;
  /** 0 … 100: how far from the left a value stands. */
  readonly at: (value: number) => number;
}

/** One scale for everything that is compared, with some air at both ends. */
export function scaleOf(values: readonly number[]): Scale {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const span = most - least || Math.abs(most) || 1;
  const low = least - span * 0.06;
  const high = most + span * 0.06;
  return { low, high, at: (value) => ((value - low) / (high - low)) * 100 };
}
