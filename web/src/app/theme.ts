/** Light or dark: the system's choice unless the reader made one, kept on this machine. */
import { useSyncExternalStore } from "react";

export type ThemeChoice = "system" | "light" | "dark";

const KEY = "arl.theme";
const listeners = new Set<() => void>();
const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", announce);

function announce(): void {
  for (const listener of listeners) listener();
}

function stored(): ThemeChoice {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function chooseTheme(choice: ThemeChoice): void {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // Storage may be off: the choice holds until the page is closed.
  }
  announce();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(subscribe, stored);
}

/** What is shown: changes when the choice or the system's own theme does. */
export function useTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const choice = stored();
    if (choice !== "system") return choice;
    return dark.matches ? "dark" : "light";
  });
}
