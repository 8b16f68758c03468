import type { ReactNode } from "react";
import css from "./KeyValue.module.css";

interface Fact {
  readonly name: string;
  readonly value: ReactNode;
}

/** Facts under names, in one or two columns. */
export function KeyValue({ facts }: { readonly facts: readonly (Fact | false | null)[] }) {
  return (
    <dl className={css.facts}>
      {facts.map(
        (fact) =>
          fact !== false &&
          fact !== null && (
            <div key={fact.name} className={css.fact}>
              <dt>{fact.name}</dt>
              <dd>{fact.value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
