/** Studies: the list, one, its file, its latest entries, and what can be asked of it. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { StudyState } from "../types";

export interface StudyListQuery {
  readonly text?: string | undefined;
  readonly state?: readonly StudyState[] | undefined;
  readonly sort: "submitted_at" | "name" | "state";
  readonly order: "asc" | "desc";
}

const PAGE = 50;

export const studiesQuery = (query: StudyListQuery) =>
  infiniteQueryOptions({
    queryKey: keys.studyList({ ...query }),
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/studies", {
          signal,
          params: {
            query: {
              sort: query.sort,
              order: query.order,
              limit: PAGE,
              ...(query.text === undefined ? {} : { text: query.text }),
              ...(query.state === undefined ? {} : { state: [...query.state] }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export const studyQuery = (study: string) =>
  queryOptions({
    queryKey: keys.study(study),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/studies/{study}", { signal, params: { path: { study } } })),
  });

export const specQuery = (study: string) =>
  queryOptions({
    queryKey: keys.spec(study),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/studies/{study}/spec", { signal, params: { path: { study } } })),
  });

export type StudyVerb = "pause" | "resume" | "stop" | "cancel";

/** Long enough for a worker that is awake; a longer one is told by its entry. */
const WAIT_S = 5;

export function askStudy(study: string, verb: StudyVerb) {
  const init = {
    params: { path: { study }, query: { wait: WAIT_S }, header: { "idempotency-key": newKey() } },
    body: {},
  };
  switch (verb) {
    case "pause":
      return bodyOf(api.POST("/api/v1/studies/{study}/pause", init));
    case "resume":
      return bodyOf(api.POST("/api/v1/studies/{study}/resume", init));
    case "stop":
      return bodyOf(api.POST("/api/v1/studies/{study}/stop", init));
    case "cancel":
      return bodyOf(api.POST("/api/v1/studies/{study}/cancel", init));
  }
}
