/** What a study's webhooks were told, and telling it again. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey } from "../client";
import { keys } from "../keys";
import type { Notification, NotificationCounts } from "../types";

const LATEST = 8;
/** Deliveries are in no chain, so that no event tells of one. */
const LOOK_AGAIN_MS = 5000;

export interface Told {
  readonly latest: readonly Notification[];
  readonly counts: NotificationCounts;
}

/** Looked at again only while something waits to be delivered. */
export const notificationsQuery = (study: string) =>
  queryOptions({
    queryKey: keys.notifications(study),
    queryFn: async ({ signal }): Promise<Told> => {
      const [page, counts] = await Promise.all([
        bodyOf(
          api.GET("/api/v1/notifications", { signal, params: { query: { study, limit: LATEST } } }),
        ),
        bodyOf(
          api.GET("/api/v1/studies/{study}/notifications/counts", {
            signal,
            params: { path: { study } },
          }),
        ),
      ]);
      return { latest: page.items, counts };
    },
    refetchInterval: (query) =>
      (query.state.data?.counts.waiting ?? 0) > 0 ? LOOK_AGAIN_MS : false,
  });

export function resendNotification(notification: string) {
  return bodyOf(
    api.POST("/api/v1/notifications/{notification}/resend", {
      params: { path: { notification }, header: { "idempotency-key": newKey() } },
      body: {},
    }),
  );
}
