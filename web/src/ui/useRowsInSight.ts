/** Which rows of a long table are in the document, and where it is scrolled to. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef, type RefObject } from "react";

const ROW_PX = 36;
/** Rows kept ready beyond those in sight. */
export const AHEAD = 12;

interface RowsInSight {
  /** Places of the rows that are in the document. */
  readonly shown: readonly number[];
  /** Pixels in place of those above and below. */
  readonly before: number;
  readonly after: number;
  readonly reveal: (at: number) => void;
}

/** All of them, or with `is_virtual` those that the frame shows. */
export function useRowsInSight(
  frame: RefObject<HTMLDivElement | null>,
  count: number,
  is_virtual: boolean,
): RowsInSight {
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    overscan: AHEAD,
    enabled: is_virtual,
  });
  if (!is_virtual) {
    const shown = Array.from({ length: count }, (_, at) => at);
    return { shown, before: 0, after: 0, reveal: () => undefined };
  }
  const items = virtual.getVirtualItems();
  return {
    shown: items.map((item) => item.index),
    before: items[0]?.start ?? 0,
    after: virtual.getTotalSize() - (items.at(-1)?.end ?? 0),
    reveal: (at) => virtual.scrollToIndex(at),
  };
}

/** Rows that come on top while one reads further down move nothing of what is read. */
export function useSteadyScroll(
  frame: RefObject<HTMLDivElement | null>,
  first: string | undefined,
  placeOf: (id: string) => number,
): void {
  const known = useRef(first);
  useLayoutEffect(() => {
    const before = known.current;
    known.current = first;
    const element = frame.current;
    if (before === undefined || before === first || element === null) return;
    const added = placeOf(before);
    if (added > 0 && element.scrollTop > 0) element.scrollBy(0, added * ROW_PX);
  });
}
