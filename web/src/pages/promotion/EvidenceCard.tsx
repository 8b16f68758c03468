/** What was signed of a promotion: checked here, saved, or repeated elsewhere. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { incumbentsQuery, type PromotionDetail } from "../../api/queries/promotions";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { KeyValue } from "../../ui/KeyValue";
import { CopyButton, Digest, RelativeTime } from "../../ui/Values";
import { EvidenceActions } from "../models/EvidenceActions";
import css from "../models/Models.module.css";

export function EvidenceCard({ family }: { readonly family: PromotionDetail }) {
  const found = useInfiniteQuery({
    ...incumbentsQuery(family.model),
    enabled: family.state === "promoted",
  });
  const { data, hasNextPage, isFetching, fetchNextPage } = found;
  const positions = data?.pages.flatMap((page) => page.items) ?? [];
  const mine = positions.find((one) => one.family === family.family && one.rolled_back_to === null);
  // It may have been long ago: its page is looked for among the older ones.
  const is_further = mine === undefined && hasNextPage && !isFetching;
  useEffect(() => {
    if (is_further) void fetchNextPage();
  }, [is_further, fetchNextPage]);
  if (family.state !== "promoted" || mine === undefined) return null;
  const name = `${oneLine(family.model, 100)}:${String(mine.seq)}`;
  const { signature } = mine;
  return (
    <Card title="Evidence" note={`incumbent ${String(mine.seq)} of ${oneLine(family.model, 60)}`}>
      <KeyValue
        facts={[
          {
            name: "Signed",
            value: signature === null ? "not yet" : <RelativeTime at={signature.at} />,
          },
          signature !== null && { name: "Key", value: <Digest value={signature.key} what="key" /> },
          { name: "Repeat it", value: <Command text={`arl reproduce ${name} DIR`} /> },
          signature === null && {
            name: "Sign it",
            value: <Command text={`arl evidence ${name}`} />,
          },
        ]}
      />
      <EvidenceActions of={mine} />
    </Card>
  );
}

function Command({ text }: { readonly text: string }) {
  return (
    <span className={css.command}>
      <code>{text}</code>
      <CopyButton text={text} what="command" />
    </span>
  );
}
