/** What happens in a study, the newest first, as it happens. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { eventsQuery } from "../../api/queries/ledger";
import { tellEntry } from "../../format/entries";
import { Card } from "../../ui/Card";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { Timeline } from "../../ui/Timeline";
import { RelativeTime } from "../../ui/Values";
import css from "./Study.module.css";

const SHOWN = 14;

export function EventsCard({ study }: { readonly study: string }) {
  const found = useQuery(eventsQuery(study));
  return (
    <Card
      title="Latest events"
      actions={
        <Link to="/ledger" search={{ chain: study }} className={css.more}>
          Whole ledger
        </Link>
      }
    >
      <div className={css.events}>
        {found.data === undefined ? (
          found.isError ? (
            <Failure what="The events" error={found.error} onRetry={() => void found.refetch()} />
          ) : (
            <Loading what="events">
              <Skeleton lines={SHOWN} />
            </Loading>
          )
        ) : found.data.length === 0 ? (
          <Empty icon="ledger" title="Nothing happened yet" />
        ) : (
          <Timeline
            label="Latest events"
            items={found.data.slice(0, SHOWN).map((entry) => {
              const said = tellEntry(entry);
              return {
                id: String(entry.seq),
                icon: said.icon,
                tone: said.tone,
                title: said.text,
                aside: <RelativeTime at={entry.at} />,
              };
            })}
          />
        )}
      </div>
    </Card>
  );
}
