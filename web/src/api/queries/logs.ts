/** Logs of a trial's attempts, in ranges. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";
import type { components } from "../schema";

export type LogListed = components["schemas"]["LogListed"];
export type LogRange = components["schemas"]["LogOut"];

export const logsQuery = (trial: string) =>
  queryOptions({
    queryKey: keys.logs(trial),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/trials/{trial}/logs", { signal, params: { path: { trial } } })),
  });

export interface LogPlace {
  /** Negative: so many bytes before the end. */
  readonly offset: number;
  readonly limit: number;
  /** How long the server waits for something new before it answers with nothing. */
  readonly wait_s: number;
}

export const readLog = (attempt: string, query: LogPlace, signal: AbortSignal): Promise<LogRange> =>
  bodyOf(
    api.GET("/api/v1/attempts/{attempt}/log", { signal, params: { path: { attempt }, query } }),
  );
