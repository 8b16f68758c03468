/** The campaigns that keep a model learning: how each stands, and what rings. */
import { Link } from "@tanstack/react-router";
import type { Campaign } from "../../api/queries/registry";
import { plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { RelativeTime } from "../../ui/Values";
import css from "./Models.module.css";

export function CampaignsCard({ campaigns }: { readonly campaigns: readonly Campaign[] }) {
  return (
    <Card title="Campaigns" note="served, learned from, and watched; arl campaign show says more">
      <ul className={css.aliases} aria-label="Campaigns">
        {campaigns.map((one) => (
          <li key={one.campaign}>
            <div className={css.named}>
              <Tag tone={one.open_alarm === null ? "info" : "bad"}>
                {oneLine(one.campaign, 100)}
              </Tag>
              <span className={css.said}>
                {`${one.state}, ${plural(one.new_records, "new record")}, `}
                {`${plural(one.studies, "study", "studies")}, ${plural(one.alarms, "alarm")}`}
                {one.open_alarm !== null && ` (number ${String(one.open_alarm)} is not settled)`}
                {", changed "}
                <RelativeTime at={one.changed_at} />
              </span>
            </div>
            {one.running !== null && (
              <Link to="/studies/$study" params={{ study: one.running }}>
                {`Study ${one.running}`}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}
