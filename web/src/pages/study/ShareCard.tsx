/** A study's share of its machines: what its trials hold, and what the next one waits for. */
import type { Share } from "../../api/types";
import { formatNumber, plural } from "../../format/numbers";
import { heldText, wantedText } from "../../format/shares";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { KeyValue } from "../../ui/KeyValue";
import { RelativeTime } from "../../ui/Values";

export function ShareCard({ share }: { readonly share: Share }) {
  const { waits } = share;
  return (
    <Card title="Share of the machine">
      <KeyValue
        facts={[
          { name: "Weight", value: formatNumber(share.weight) },
          { name: "Priority", value: formatNumber(share.priority) },
          ...share.holds.map((held) => ({
            name: `Holds on ${oneLine(held.host, 60)}`,
            value: heldText(held),
          })),
          waits !== null && {
            name: "Waits for",
            value: (
              <>
                {wantedText(waits)} of {oneLine(waits.host, 60)}, asked{" "}
                <RelativeTime at={waits.since} />; others hold {heldText(waits.held_by_others)}
                {waits.others_waiting > 0 &&
                  `, ${plural(waits.others_waiting, "study", "studies")} waiting beside it`}
              </>
            ),
          },
        ]}
      />
    </Card>
  );
}
