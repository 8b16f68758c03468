/** The part of a log that is shown, as its ranges come. */
import type { LogRange } from "../../api/queries/logs";

export interface LogState {
  readonly text: string;
  /** Byte at which the text begins, and the one after its end. */
  readonly begin: number;
  readonly end: number;
  readonly size_bytes: number;
  readonly is_over: boolean;
}

export const RANGE_BYTES = 64 * 1024;
/** What is kept of a log that grows and grows: its newest part. */
export const MOST_CHARACTERS = 1_000_000;

export function firstRange(range: LogRange): LogState {
  return {
    text: range.text,
    begin: range.offset,
    end: range.next_offset,
    size_bytes: range.size_bytes,
    is_over: range.is_over,
  };
}

/** A range that does not begin where the text ends came too late: it is dropped. */
export function withNewer(shown: LogState, range: LogRange): LogState {
  if (range.offset !== shown.end) return shown;
  const text = shown.text + range.text;
  const cut = Math.max(0, text.length - MOST_CHARACTERS);
  return {
    text: cut === 0 ? text : text.slice(cut),
    begin: cut === 0 ? shown.begin : shown.begin + bytesOf(text.slice(0, cut)),
    end: range.next_offset,
    size_bytes: range.size_bytes,
    is_over: range.is_over,
  };
}

/** The range right before the text. */
export function withEarlier(shown: LogState, range: LogRange): LogState {
  if (range.next_offset < shown.begin || range.offset >= shown.begin) return shown;
  return { ...shown, text: range.text + shown.text, begin: range.offset };
}

/** Where the range before the text lies. */
export function earlierPlace({ begin }: LogState): { offset: number; limit: number } {
  const offset = Math.max(0, begin - RANGE_BYTES);
  return { offset, limit: Math.max(4, begin - offset) };
}

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
