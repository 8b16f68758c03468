/** Who one is, and signing in. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";
import type { Who } from "../types";

export const whoQuery = () =>
  queryOptions({
    queryKey: keys.whoami(),
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/whoami", { signal })),
    staleTime: Infinity,
  });

export type Scope = Who["scopes"][number];

/** Why the reader may not do what takes this scope; null where they may. */
export function useBarred(scope: Scope): string | null {
  const { data } = useQuery(whoQuery());
  if (data === undefined) return "It is not known yet what you may do";
  const may = data.scopes.some((given) => given === scope || given === "admin");
  return may ? null : `Your token lacks the scope ${scope}`;
}

export const signIn = (token: string) => bodyOf(api.POST("/api/v1/session", { body: { token } }));
