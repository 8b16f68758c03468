/** Whether the reader has to sign in: set by the first request that was refused for it. */
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let is_asked = false;

function set(value: boolean): void {
  if (is_asked === value) return;
  is_asked = value;
  for (const listener of listeners) listener();
}

export const askToSignIn = (): void => set(true);
export const signedIn = (): void => set(false);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useIsSignInAsked = (): boolean => useSyncExternalStore(subscribe, () => is_asked);
