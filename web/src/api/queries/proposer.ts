/** A study's proposer: its arms, and what it asked of language models. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

const PAGE = 50;

export const proposerQuery = (study: string) =>
  queryOptions({
    queryKey: keys.proposer(study),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/studies/{study}/proposer", { signal, params: { path: { study } } })),
  });

/** Named below the proposer, so that a new call refreshes them too. */
export const modelCallsQuery = (study: string) =>
  infiniteQueryOptions({
    queryKey: [...keys.proposer(study), "calls"],
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/model-calls", {
          signal,
          params: {
            path: { study },
            query: { limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export const modelCallQuery = (study: string, number: number) =>
  queryOptions({
    queryKey: ["model_call", study, number],
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/model-calls/{number}", {
          signal,
          params: { path: { study, number } },
        }),
      ),
    staleTime: Infinity,
  });
