/** Candidates, and making something of a promoted one. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { ConvertWanted } from "../types";

export const candidateQuery = (candidate: string) =>
  queryOptions({
    queryKey: keys.candidate(candidate),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/candidates/{candidate}", { signal, params: { path: { candidate } } }),
      ),
  });

export const convertCandidate = (candidate: string, body: ConvertWanted) =>
  bodyOf(
    api.POST("/api/v1/candidates/{candidate}/convert", {
      params: { path: { candidate }, query: { wait: 5 }, header: { "idempotency-key": newKey() } },
      body,
    }),
  );
