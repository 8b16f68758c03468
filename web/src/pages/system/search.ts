import { textOf } from "../../app/search";

export interface SystemSearch {
  readonly tab?: string | undefined;
}

export function readSystemSearch(given: Readonly<Record<string, unknown>>): SystemSearch {
  return { tab: textOf(given.tab) };
}
