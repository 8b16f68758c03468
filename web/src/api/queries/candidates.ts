/** Candidates. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

export const candidateQuery = (candidate: string) =>
  queryOptions({
    queryKey: keys.candidate(candidate),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/candidates/{candidate}", { signal, params: { path: { candidate } } }),
      ),
  });
