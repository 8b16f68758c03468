/** The cache of what the server said; the event stream keeps it true, so nothing is polled. */
import { QueryCache, QueryClient } from "@tanstack/react-query";
import { isSignedOut, Problem } from "../api/problems";
import { askToSignIn } from "./session";

const RETRIES = 2;

export function newQueryClient(): QueryClient {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error) => {
        if (isSignedOut(error)) askToSignIn();
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 30_000,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        // What the server refused, it refuses again.
        retry: (count, error) =>
          !(error instanceof Problem && error.status < 500) && count < RETRIES,
        retryDelay: (count) => 400 * 2 ** count,
      },
      mutations: { retry: false },
    },
  });
}
