/** Trials: the list of a study, one, what it reported, its logs and files. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";
import type { paths } from "../schema";

type ListParameters = NonNullable<
  paths["/api/v1/studies/{study}/trials"]["get"]["parameters"]["query"]
>;

/** Filters and order as the API names them. */
export type TrialListQuery = Omit<ListParameters, "cursor" | "limit" | "count">;

const PAGE = 100;
const POINTS = 600;

/** The newest first and all of them: what the event stream can keep up by itself. */
function isNewestFirst(query: TrialListQuery): boolean {
  const { sort, order, ...filters } = query;
  const is_filtered = Object.keys(filters).length > 0;
  return sort === "number" && order === "desc" && !is_filtered;
}

export const trialsQuery = (study: string, query: TrialListQuery) =>
  infiniteQueryOptions({
    queryKey: keys.trialList(study, { ...query, is_newest_first: isNewestFirst(query) }),
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/trials", {
          signal,
          params: {
            path: { study },
            query: {
              ...query,
              limit: PAGE,
              count: pageParam === null,
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export const trialQuery = (study: string, number: number) =>
  queryOptions({
    queryKey: keys.trial(study, number),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/trials/{number}", {
          signal,
          params: { path: { study, number } },
        }),
      ),
  });

export const valuesQuery = (trial: string) =>
  queryOptions({
    queryKey: keys.values(trial),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/trials/{trial}/values", {
          signal,
          params: { path: { trial }, query: { points: POINTS } },
        }),
      ),
  });
