/** Who one is, and signing in. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

export const whoQuery = () =>
  queryOptions({
    queryKey: keys.whoami(),
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/whoami", { signal })),
    staleTime: Infinity,
  });

export const signIn = (token: string) => bodyOf(api.POST("/api/v1/session", { body: { token } }));
