/** What a trial left in the store, with its files. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

export const artifactsQuery = (trial: string) =>
  queryOptions({
    queryKey: keys.artifacts(trial),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/trials/{trial}/artifacts", { signal, params: { path: { trial } } })),
  });

/** Where a file of a stored tree is fetched: always as an attachment. */
export const fileAddress = (digest: string, path: string): string =>
  `/api/v1/artifacts/${digest}/${path.split("/").map(encodeURIComponent).join("/")}`;
