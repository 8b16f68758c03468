import { useEffect, useRef, useState } from "react";

const WAIT_MS = 250;

/** What is typed, at once, and what is made of it, when the typing rests. */
export function useDebounced(
  value: string,
  settle: (value: string) => void,
): [string, (value: string) => void] {
  const [typed, setTyped] = useState(value);
  const [from, setFrom] = useState(value);
  const latest = useRef(settle);
  useEffect(() => {
    latest.current = settle;
  });
  // Changed from outside (back, a link): that wins.
  if (from !== value) {
    setFrom(value);
    setTyped(value);
  }
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => latest.current(typed), WAIT_MS);
    return () => clearTimeout(timer);
  }, [typed, value]);
  return [typed, setTyped];
}
