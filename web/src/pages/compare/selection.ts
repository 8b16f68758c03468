/** The trials picked for comparison, in this tab, wherever they were picked. */
import { useSyncExternalStore } from "react";
import { MOST } from "./search";

let picked: readonly string[] = [];
const listeners = new Set<() => void>();

function put(next: readonly string[]): void {
  picked = next;
  for (const listener of listeners) listener();
}

/** Picks a trial, or puts it back. With the most there can be, the oldest pick makes room. */
export function togglePick(trial: string): void {
  put(
    picked.includes(trial)
      ? picked.filter((other) => other !== trial)
      : [...picked, trial].slice(-MOST),
  );
}

export const clearPicks = (): void => put([]);

export function usePicks(): readonly string[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => picked,
  );
}
