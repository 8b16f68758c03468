/** The server's clock, as its answers tell it: a browser that is hours off shows no wrong ages. */

const LATE_MS = 2000;
let ahead_ms = 0;

/** From the `Date` of an answer, which says whole seconds: less than two apart is no difference. */
export function noteServerDate(date: string | null, here_ms = Date.now()): void {
  const there_ms = Date.parse(date ?? "");
  if (Number.isNaN(there_ms)) return;
  const difference_ms = there_ms + 500 - here_ms;
  ahead_ms = Math.abs(difference_ms) < LATE_MS ? 0 : difference_ms;
}

/** Milliseconds since the epoch. */
export const serverNow = (): number => Date.now() + ahead_ms;
