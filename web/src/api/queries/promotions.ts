/** Replay families, the models they are for, and approving or declining one. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { components } from "../schema";

export type Promotion = components["schemas"]["PromotionOut"];
export type PromotionDetail = components["schemas"]["PromotionDetail"];
export type PromotionState = Promotion["state"];
export type ReplayRun = components["schemas"]["RunOut"];
export type Model = components["schemas"]["ModelOut"];
export type Incumbent = components["schemas"]["PositionOut"];

export interface PromotionListQuery {
  readonly state?: readonly PromotionState[] | undefined;
  readonly model?: string | undefined;
}

const PAGE = 50;
/** Long enough for a worker that is awake. */
const WAIT_S = 5;

export const promotionsQuery = (query: PromotionListQuery) =>
  infiniteQueryOptions({
    queryKey: keys.promotionList({ ...query }),
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/promotions", {
          signal,
          params: {
            query: {
              limit: PAGE,
              ...(query.state === undefined ? {} : { state: [...query.state] }),
              ...(query.model === undefined ? {} : { model: query.model }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

/** Named below `promotions`, so that news of a gate refreshes it too. */
export const promotionQuery = (family: string) =>
  queryOptions({
    queryKey: [...keys.promotions(), "one", family],
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/promotions/{family}", { signal, params: { path: { family } } })),
  });

export const modelsQuery = () =>
  queryOptions({
    queryKey: [...keys.promotions(), ...keys.models()],
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/models", { signal })),
  });

/** Every position of a model's pointer, the newest first. */
export const incumbentsQuery = (model: string) =>
  infiniteQueryOptions({
    queryKey: [...keys.promotions(), ...keys.models(), model],
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/models/{model}/incumbents", {
          signal,
          params: {
            path: { model },
            query: { limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export type Decision = "approve" | "decline";

/** The note is kept with an approval; a decline has none. */
export function decidePromotion(family: string, decision: Decision, note: string) {
  const params = {
    path: { family },
    query: { wait: WAIT_S },
    header: { "idempotency-key": newKey() },
  };
  return decision === "approve"
    ? bodyOf(api.POST("/api/v1/promotions/{family}/approve", { params, body: { note } }))
    : bodyOf(api.POST("/api/v1/promotions/{family}/decline", { params, body: {} }));
}
