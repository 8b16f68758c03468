/** j and k (or the arrows) move through a table's rows, Home and End to its ends, Enter opens. */
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { isTyping } from "./keys";

interface Rows {
  readonly count: number;
  readonly reveal: (at: number) => void;
  readonly open: (at: number) => void;
}

function target(key: string, current: number, count: number): number | null {
  switch (key) {
    case "j":
    case "ArrowDown":
      return Math.min(count - 1, current + 1);
    case "k":
    case "ArrowUp":
      return Math.max(0, current - 1);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

export function useRowKeys({ count, reveal, open }: Rows) {
  const [current, setCurrent] = useState(0);
  const at = Math.min(current, Math.max(0, count - 1));
  // The row that gets the focus with the next frame: a key pressed before that means this one.
  const awaited = useRef<number | null>(null);

  const move = (next: number, table: ParentNode) => {
    reveal(next);
    setCurrent(next);
    awaited.current = next;
    // After the row is in the document.
    requestAnimationFrame(() => {
      if (awaited.current !== next) return;
      awaited.current = null;
      table.querySelector<HTMLElement>(`tr[data-row="${String(next)}"]`)?.focus();
    });
  };

  const onKeyDown = (event: KeyboardEvent<HTMLTableElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (!(event.target instanceof HTMLTableRowElement)) return;
    // The row that has the focus, wherever it is by now: others may have come on top.
    const focused = awaited.current ?? Number(event.target.dataset.row ?? at);
    if (event.key === "Enter") {
      open(focused);
      return;
    }
    const next = target(event.key, focused, count);
    if (next === null || count === 0) return;
    event.preventDefault();
    event.stopPropagation();
    move(next, event.currentTarget);
  };

  return { current: at, setCurrent, onKeyDown };
}

/** On the page: the first j or k goes into the page's first table. */
export function useTableEntry(): void {
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key !== "j" && event.key !== "k") return;
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      document.querySelector<HTMLElement>('main tr[data-row][tabindex="0"]')?.focus();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
