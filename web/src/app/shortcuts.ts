/** Keys that work on every page. */
import { useNavigate, type NavigateOptions } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { isTyping } from "../ui/keys";
import { useTableEntry } from "../ui/useRowKeys";

const PLACES: Readonly<Record<string, NonNullable<NavigateOptions["to"]>>> = {
  s: "/studies",
  p: "/promotions",
  l: "/ledger",
};
const CHORD_MS = 1000;

interface Shortcuts {
  readonly onHelp: () => void;
}

export function useShortcuts({ onHelp }: Shortcuts): void {
  const navigate = useNavigate();
  const chord = useRef(0);
  useTableEntry();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      if (document.querySelector("dialog[open]") !== null) return;
      if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("main [data-search]");
        if (search !== null) {
          event.preventDefault();
          search.focus();
          search.select();
        }
      } else if (event.key === "?") onHelp();
      else if (event.key === "g") chord.current = event.timeStamp;
      else if (event.timeStamp - chord.current < CHORD_MS) {
        const place = PLACES[event.key];
        chord.current = 0;
        if (place !== undefined) void navigate({ to: place });
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate, onHelp]);
}
