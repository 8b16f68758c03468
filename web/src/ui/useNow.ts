/** One clock for all relative times, the server's: a tick a second while something listens and is seen. */
import { useSyncExternalStore } from "react";
import { serverNow } from "../api/serverClock";

const TICK_MS = 1000;
const listeners = new Set<() => void>();
let now_ms = serverNow();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (document.hidden) return;
  now_ms = serverNow();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    now_ms = serverNow();
    timer = setInterval(tick, TICK_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now_ms);
}
