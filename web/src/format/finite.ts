/** Numbers that JSON cannot hold: the API sends null and names the place in `non_finite`. */

export interface NonFinitePlace {
  readonly path: string;
  readonly value: string;
}

const VALUES: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

/** The number meant at `path`: the one sent, the non-finite one named for it, or null. */
export function numberAt(
  value: number | null | undefined,
  path: string,
  places: readonly NonFinitePlace[] | null | undefined,
): number | null {
  if (value !== null && value !== undefined) return value;
  const place = places?.find((found) => found.path === path);
  return place === undefined ? null : (VALUES[place.value] ?? null);
}

export interface Curve {
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
  readonly non_finite?: Readonly<Record<string, string>> | null;
}

/** The points of a curve with NaN and infinities put back where they were said. */
export function curvePoints(curve: Curve): readonly { step: number; value: number }[] {
  return curve.steps.flatMap((step, index) => {
    const sent = curve.values[index];
    if (sent !== null && sent !== undefined) return [{ step, value: sent }];
    const value = VALUES[curve.non_finite?.[String(index)] ?? ""];
    return value === undefined ? [] : [{ step, value }];
  });
}
