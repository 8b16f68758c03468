import type { PromotionDetail } from "../../api/queries/promotions";
import { bestOf } from "../../format/evidence";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { paramText } from "../study/ParamsList";
import { paramChanges } from "./changes";
import css from "./Promotion.module.css";

/** The parameters in which the candidate differs from the incumbent. */
export function ChangesCard({ family }: { readonly family: PromotionDetail }) {
  const best = bestOf(family.evidence) ?? family.candidates[0];
  if (best === undefined) return null;
  const changes = paramChanges(family.params[family.incumbent], family.params[best]);
  if (changes.length === 0) return null;
  return (
    <Card title="What it changes" isFlush>
      <table className={css.changes}>
        <thead>
          <tr>
            <th scope="col">Parameter</th>
            <th scope="col">Incumbent</th>
            <th scope="col">Candidate</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ name, before, after }) => (
            <tr key={name}>
              <th scope="row">{oneLine(name, 80)}</th>
              <td>{paramText(before)}</td>
              <td className={css.after}>{paramText(after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
