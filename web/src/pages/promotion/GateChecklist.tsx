import { gateChecks, type Gate, type Verdict } from "../../format/evidence";
import { visible } from "../../format/text";
import { cx } from "../../ui/cx";
import { Icon, type IconName } from "../../ui/Icon";
import css from "./GateChecklist.module.css";

const LOOKS: Readonly<Record<Verdict, { readonly icon: IconName; readonly word: string }>> = {
  passed: { icon: "check", word: "passed" },
  failed: { icon: "cross", word: "failed" },
  waiting: { icon: "clock", word: "waits for its runs" },
  unreached: { icon: "minus", word: "not reached" },
};

/** The gate's checks in its order, each with the numbers it was decided by. */
export function GateChecklist({ gate }: { readonly gate: Gate }) {
  return (
    <ol className={css.list}>
      {gateChecks(gate).map((check) => {
        const look = LOOKS[check.verdict];
        return (
          <li key={check.id} className={cx(css.item, css[check.verdict])}>
            <span className={css.mark}>
              <Icon name={look.icon} size={12} />
            </span>
            <div>
              <p className={css.title}>
                {visible(check.title)}
                <span className="visually-hidden">: {look.word}</span>
              </p>
              <p className={css.detail}>
                {check.detail === "" ? look.word : visible(check.detail)}
              </p>
            </div>
          </li>
        );
      })}
    </ol>
  );
}
