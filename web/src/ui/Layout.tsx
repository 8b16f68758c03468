import type { ReactNode } from "react";
import css from "./Layout.module.css";
import { cx } from "./cx";

/** Cards one below the other. */
export function Stack({ children }: { readonly children: ReactNode }) {
  return <div className={css.stack}>{children}</div>;
}

/** Two columns on a wide window, the first the wider one. */
export function Columns({ main, side }: { readonly main: ReactNode; readonly side: ReactNode }) {
  return (
    <div className={css.columns}>
      <div className={css.stack}>{main}</div>
      <div className={css.stack}>{side}</div>
    </div>
  );
}

/** Filters and buttons over a table. */
export function Toolbar({ children }: { readonly children: ReactNode }) {
  return <div className={css.toolbar}>{children}</div>;
}

interface ChipsProps<Value extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: Value; readonly label: string }[];
  readonly chosen: readonly Value[];
  readonly onChange: (chosen: readonly Value[]) => void;
  /** Its label is seen, where two groups stand side by side. */
  readonly isNamed?: boolean;
}

/** Choices of which any number may be on. */
export function Chips<Value extends string>({
  label,
  options,
  chosen,
  onChange,
  isNamed = false,
}: ChipsProps<Value>) {
  return (
    <div className={css.chips} role="group" aria-label={label}>
      {isNamed && (
        <span className={css.label} aria-hidden="true">
          {label}
        </span>
      )}
      {options.map(({ value, label: word }) => {
        const is_on = chosen.includes(value);
        return (
          <button
            key={value}
            type="button"
            className={cx(css.chip, is_on && css.on)}
            aria-pressed={is_on}
            onClick={() =>
              onChange(is_on ? chosen.filter((other) => other !== value) : [...chosen, value])
            }
          >
            {word}
          </button>
        );
      })}
    </div>
  );
}
