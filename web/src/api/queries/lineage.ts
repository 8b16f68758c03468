/** Where a candidate comes from and what became of it, and putting it before the gate. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { components } from "../schema";

export type Lineage = components["schemas"]["LineageOut"];
export type LineageNode = components["schemas"]["NodeOut"];

export const lineageQuery = (candidate: string) =>
  queryOptions({
    queryKey: [...keys.candidate(candidate), "lineage"],
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/candidates/{candidate}/lineage", {
          signal,
          params: { path: { candidate } },
        }),
      ),
  });

export const replayCandidate = (candidate: string) =>
  bodyOf(
    api.POST("/api/v1/candidates/{candidate}/replay", {
      params: { path: { candidate }, query: { wait: 5 }, header: { "idempotency-key": newKey() } },
      body: {},
    }),
  );
