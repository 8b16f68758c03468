import { formatNumber } from "../../format/numbers";
import { oneLine, shortName } from "../../format/text";
import { None } from "../../ui/Values";
import css from "./Study.module.css";

type Scalar = string | number | boolean | null;

export function paramText(value: Scalar): string {
  if (typeof value === "number") return formatNumber(value, 5);
  return value === null ? "–" : oneLine(String(value), 200);
}

/** Parameters as name and value, on as few lines as it takes. */
export function ParamsList({ params }: { readonly params: Readonly<Record<string, Scalar>> }) {
  const names = Object.keys(params);
  if (names.length === 0) return <None />;
  return (
    <dl className={css.params}>
      {names.map((name) => (
        <div key={name}>
          <dt title={oneLine(name)}>{shortName(name, 48)}</dt>
          <dd title={oneLine(String(params[name]))}>{paramText(params[name] ?? null)}</dd>
        </div>
      ))}
    </dl>
  );
}
