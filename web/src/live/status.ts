/** How the event stream stands, for the badge and the banner. */
import { useSyncExternalStore } from "react";
import type { StreamState } from "./stream";

const listeners = new Set<() => void>();
let state: StreamState = "connecting";
let retry: () => void = () => undefined;

export function setStreamState(next: StreamState): void {
  state = next;
  for (const listener of listeners) listener();
}

export function setRetry(next: () => void): void {
  retry = next;
}

/** Try to connect at once. */
export const retryStream = (): void => retry();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useStreamState = (): StreamState => useSyncExternalStore(subscribe, () => state);
