/** A trial by its id alone. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";

export const trialByIdQuery = (trial: string) =>
  queryOptions({
    // Under "trial", so that the event stream refreshes it with the trial's own page.
    queryKey: ["trial", "by_id", trial],
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/trials/{trial}", { signal, params: { path: { trial } } })),
    staleTime: 5_000,
  });
