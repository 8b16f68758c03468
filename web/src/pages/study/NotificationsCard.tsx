/** What the study's webhooks were told: the latest, what waits, and what was given up. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { whoQuery } from "../../api/queries/access";
import { notificationsQuery, resendNotification } from "../../api/queries/notifications";
import { keys } from "../../api/keys";
import { problemText } from "../../api/problems";
import type { Notification, NotificationCounts } from "../../api/types";
import { capital, formatCount, words } from "../../format/numbers";
import { stateLook } from "../../format/states";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Failure } from "../../ui/States";
import { Timeline } from "../../ui/Timeline";
import { useToast } from "../../ui/Toasts";
import { RelativeTime } from "../../ui/Values";
import css from "./Study.module.css";

/** Nothing where the study names no webhook, or none had anything to be told yet. */
export function NotificationsCard({ study }: { readonly study: string }) {
  const found = useQuery(notificationsQuery(study));
  const who = useQuery(whoQuery());
  const client = useQueryClient();
  const say = useToast();
  const resend = useMutation({
    mutationFn: resendNotification,
    onSuccess: () => say("good", "It is sent again as soon as a worker looks"),
    onError: (error) => say("bad", problemText(error)),
    onSettled: () => void client.invalidateQueries({ queryKey: keys.notifications(study) }),
  });
  if (found.data === undefined) {
    if (!found.isError) return null;
    return (
      <Card title="Webhooks">
        <Failure
          what="What webhooks were told"
          error={found.error}
          onRetry={() => void found.refetch()}
        />
      </Card>
    );
  }
  if (found.data.latest.length === 0) return null;
  return (
    <Card title="Webhooks" note={countsNote(found.data.counts)}>
      <NotificationList
        items={found.data.latest}
        mayResend={who.data?.scopes.includes("submit") === true}
        busy={resend.isPending ? resend.variables : null}
        onResend={(name) => resend.mutate(name)}
      />
    </Card>
  );
}

/** How many did not arrive. */
export function countsNote({ waiting, dead }: NotificationCounts): string {
  const parts = [
    waiting > 0 && `${formatCount(waiting)} waiting`,
    dead > 0 && `${formatCount(dead)} given up`,
  ].filter((part) => part !== false);
  return parts.length === 0 ? "all delivered" : parts.join(", ");
}

interface NotificationListProps {
  readonly items: readonly Notification[];
  readonly mayResend: boolean;
  /** Which one is being sent again. */
  readonly busy: string | null;
  readonly onResend: (notification: string) => void;
}

export function NotificationList({ items, mayResend, busy, onResend }: NotificationListProps) {
  return (
    <Timeline
      label="What webhooks were told"
      items={items.map((one) => {
        const look = stateLook(one.state);
        return {
          id: one.notification,
          icon: look.icon,
          tone: look.tone,
          title: `${capital(words(one.event))}: ${look.word}`,
          detail: (
            <>
              <span title={oneLine(one.webhook, 200)}>{hostOf(one.webhook)}</span>
              {one.detail !== "" && one.state !== "delivered" && <p>{oneLine(one.detail, 200)}</p>}
              {one.state === "waiting" && one.tries > 0 && (
                <p>
                  tried {formatCount(one.tries)}×, next <RelativeTime at={one.next_at} />
                </p>
              )}
              {one.state === "dead" && mayResend && (
                <p className={css.again}>
                  <Button
                    icon="repeat"
                    look="quiet"
                    isBusy={busy === one.notification}
                    onClick={() => onResend(one.notification)}
                    aria-label={`Send ${words(one.event)} to ${hostOf(one.webhook)} again`}
                  >
                    Send again
                  </Button>
                </p>
              )}
            </>
          ),
          aside: <RelativeTime at={one.done_at ?? one.tried_at ?? one.created_at} />,
        };
      })}
    />
  );
}

/** The rest of an address may be a key: it is shown on hover only. */
function hostOf(webhook: string): string {
  try {
    return new URL(webhook).host;
  } catch {
    return oneLine(webhook, 60);
  }
}
