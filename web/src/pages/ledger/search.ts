import { oneOf, textOf, textsOf } from "../../app/search";

export interface LedgerSearch {
  /** A study's id, or `service`. */
  readonly chain?: string | undefined;
  readonly kinds?: readonly string[] | undefined;
  readonly order?: "asc" | "desc" | undefined;
}

export const SERVICE_CHAIN = "service";

export function readLedgerSearch(given: Readonly<Record<string, unknown>>): LedgerSearch {
  return {
    chain: textOf(given.chain),
    kinds: textsOf(given.kinds),
    order: oneOf(given.order, ["asc", "desc"] as const),
  };
}
