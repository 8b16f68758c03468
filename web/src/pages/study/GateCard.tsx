import type { Family, Study } from "../../api/types";
import { formatNumber, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { KeyValue } from "../../ui/KeyValue";
import { CandidateLink, NumberValue, RelativeTime } from "../../ui/Values";

/** What the promotion gate said of the study's winners. */
export function GateCard({ study }: { readonly study: Study }) {
  const family = study.families.at(-1);
  if (family === undefined) return null;
  return (
    <Card
      title="Promotion"
      note={`family ${String(family.number)} for ${oneLine(family.model, 60)}`}
      actions={<StateBadge state={family.state} />}
    >
      <KeyValue
        facts={[
          family.reason !== null && { name: "Why", value: words(family.reason) },
          {
            name: "Candidates",
            value: family.candidates.map((id, index) => (
              <span key={id}>
                {index > 0 && ", "}
                <CandidateLink id={id} />
              </span>
            )),
          },
          { name: "Against", value: <CandidateLink id={family.incumbent} /> },
          gain(family),
          interval(family),
          p(family),
          { name: "Opened", value: <RelativeTime at={family.created_at} /> },
          family.ended_at !== null && {
            name: "Ended",
            value: <RelativeTime at={family.ended_at} />,
          },
        ]}
      />
    </Card>
  );
}

function gain(family: Family) {
  const value = family.evidence.gain;
  return typeof value === "number" && { name: "Gain", value: <NumberValue value={value} /> };
}

function p(family: Family) {
  const { p: value, alpha } = family.evidence;
  if (typeof value !== "number") return false;
  const bar = typeof alpha === "number" ? ` (passes at ${formatNumber(alpha)})` : "";
  return { name: "p", value: `${formatNumber(value)}${bar}` };
}

function interval(family: Family) {
  const ends = family.evidence.ci95;
  if (!Array.isArray(ends)) return false;
  const [low, high] = ends as unknown[];
  if (typeof low !== "number" || typeof high !== "number") return false;
  return { name: "95 % interval", value: `${formatNumber(low)} to ${formatNumber(high)}` };
}
