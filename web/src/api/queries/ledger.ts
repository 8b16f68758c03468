/** Chains of the ledger: their links, where they end, whether they are whole. */
import { infiniteQueryOptions, queryOptions, type QueryClient } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";
import type { Entry } from "../types";

export interface LedgerQuery {
  readonly chain: string;
  readonly kinds: readonly string[];
  readonly order: "asc" | "desc";
}

const PAGE = 100;
const LATEST = 40;

export const linksQuery = ({ chain, kinds, order }: LedgerQuery) =>
  infiniteQueryOptions({
    queryKey: keys.entries({ chain, kinds, order }),
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/entries", {
          signal,
          params: {
            query: {
              chain,
              order,
              limit: PAGE,
              ...(kinds.length === 0 ? {} : { kind: [...kinds] }),
              ...(pageParam === null ? {} : { after: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_after,
  });

/** Where the chain ends; asked again while the server is still recomputing it. */
export const chainQuery = (chain: string) =>
  queryOptions({
    queryKey: keys.chain(chain),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/chains/{chain}", { signal, params: { path: { chain } } })),
    refetchInterval: (query) => (query.state.data?.is_whole === null ? 200 : false),
  });

/** The latest entries of a study, the newest first; the event stream puts new ones on top. */
export const eventsQuery = (study: string) =>
  queryOptions({
    queryKey: keys.events(study),
    queryFn: async ({ signal, client }: { signal: AbortSignal; client: QueryClient }) => {
      const page = await bodyOf(
        api.GET("/api/v1/entries", {
          signal,
          params: { query: { chain: study, order: "desc", limit: LATEST } },
        }),
      );
      // What came over the stream meanwhile is kept.
      const newer = (client.getQueryData<readonly Entry[]>(keys.events(study)) ?? []).filter(
        (entry) => entry.seq > page.head_seq,
      );
      const listed: readonly Entry[] = page.items;
      return [...newer, ...listed] as readonly Entry[];
    },
    staleTime: Infinity,
  });
