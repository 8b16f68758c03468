/** The machine, its workers, access tokens and what was asked of the server. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { components } from "../schema";

export type System = components["schemas"]["SystemOut"];
export type Token = components["schemas"]["TokenOut"];
export type TokenWanted = components["schemas"]["TokenWanted"];
export type TokenGiven = components["schemas"]["TokenGiven"];
export type Scope = Token["scopes"][number];
export type Audited = components["schemas"]["Audited"];
export type Worker = components["schemas"]["WorkerOut"];
export type Lease = components["schemas"]["LeaseOut"];
export type Want = components["schemas"]["WantOut"];
export type Running = components["schemas"]["RunningOut"];

/** No entry of the ledger tells of leases and disk: asked again while it is looked at. */
const EVERY_MS = 5000;
const PAGE = 50;

export const systemQuery = () =>
  queryOptions({
    queryKey: keys.system(),
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/system", { signal })),
    refetchInterval: EVERY_MS,
  });

export const tokensQuery = () =>
  queryOptions({
    queryKey: [...keys.system(), "tokens"],
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/tokens", { signal })),
  });

export const makeToken = (wanted: TokenWanted) =>
  bodyOf(
    api.POST("/api/v1/tokens", {
      params: { header: { "idempotency-key": newKey() } },
      body: wanted,
    }),
  );

export const revokeToken = (token: string) =>
  bodyOf(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token } } }));

export const auditQuery = () =>
  infiniteQueryOptions({
    queryKey: [...keys.system(), "audit"],
    queryFn: ({ pageParam, signal }) =>
      bodyOf(
        api.GET("/api/v1/audit", {
          signal,
          params: {
            query: {
              order: "desc",
              limit: PAGE,
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });
