/** Plots: computed and sampled by the server, refreshed as trials end. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

export const historyQuery = (study: string) =>
  queryOptions({
    queryKey: keys.plot(study, "history"),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/history", { signal, params: { path: { study } } }),
      ),
    placeholderData: (shown) => shown,
  });
