/** Comparisons with a number or a text: each a tag that can be taken away again. */
import { useState } from "react";
import { Icon } from "../../ui/Icon";
import css from "./Trials.module.css";

const CONDITION =
  /^(number|value|wall_s|created|(params|scores|metrics)\..+?)\s*(<=|>=|!=|=|<|>)\s*(.+)$/;

export const isCondition = (text: string): boolean => CONDITION.test(text.trim());

interface ConditionsProps {
  readonly chosen: readonly string[];
  readonly onChange: (chosen: string[]) => void;
}

export function Conditions({ chosen, onChange }: ConditionsProps) {
  const [text, setText] = useState("");
  const [is_wrong, setWrong] = useState(false);
  const add = () => {
    const condition = text.trim();
    if (!isCondition(condition)) {
      setWrong(condition !== "");
      return;
    }
    setText("");
    setWrong(false);
    onChange([...chosen.filter((other) => other !== condition), condition]);
  };
  return (
    <div className={css.conditions}>
      {chosen.map((condition) => (
        <span key={condition} className={css.condition} title={condition}>
          <span>{condition}</span>
          <button
            type="button"
            className={css.remove}
            aria-label={`Remove ${condition}`}
            onClick={() => onChange(chosen.filter((other) => other !== condition))}
          >
            <Icon name="cross" size={12} />
          </button>
        </span>
      ))}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <input
          className={css.where}
          aria-label="Add a condition"
          aria-invalid={is_wrong || undefined}
          placeholder="value>0.5, params.lr<0.01"
          title="A column (value, wall_s, number, params.NAME, scores.NAME, metrics.NAME), one of = != < <= > >=, and a number or text; Enter adds it"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setWrong(false);
          }}
        />
      </form>
      {is_wrong && (
        <span className={css.wrong} role="alert">
          Write it like value&gt;0.5 or params.NAME=text
        </span>
      )}
    </div>
  );
}
