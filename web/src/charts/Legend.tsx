import { shortName } from "../format/text";
import css from "./Chart.module.css";

export interface LegendItem {
  readonly name: string;
  readonly colour: string;
  readonly shape:
    | "dot"
    | "ring"
    | "triangle"
    | "cross"
    | "line"
    | "band"
    | "diamond"
    | "frame"
    | "square"
    | "dash";
}

/** What the marks mean: shape, colour and word. */
export function Legend({ items }: { readonly items: readonly LegendItem[] }) {
  return (
    <ul className={css.items}>
      {items.map((item) => (
        <li key={item.name} className={css.item}>
          <Mark item={item} />
          {shortName(item.name, 48)}
        </li>
      ))}
    </ul>
  );
}

function Mark({ item: { shape, colour } }: { readonly item: LegendItem }) {
  return (
    <svg width="14" height="12" viewBox="0 0 14 12" aria-hidden="true">
      {shape === "dot" && <circle cx="7" cy="6" r="4" fill={colour} />}
      {shape === "ring" && (
        <circle cx="7" cy="6" r="3.2" fill="none" stroke={colour} strokeWidth="1.6" />
      )}
      {shape === "triangle" && <path d="M7 2 11.5 10h-9z" fill={colour} />}
      {shape === "diamond" && <path d="M7 1.5 11.5 6 7 10.5 2.5 6z" fill={colour} />}
      {shape === "cross" && (
        <path d="M3.5 2.5l7 7M10.5 2.5l-7 7" stroke={colour} strokeWidth="1.8" />
      )}
      {shape === "line" && <path d="M1 6h12" stroke={colour} strokeWidth="2" />}
      {shape === "dash" && (
        <path d="M1 6h12" stroke={colour} strokeWidth="1.6" strokeDasharray="3 2.4" />
      )}
      {shape === "frame" && (
        <path d="M7 2 11 6 7 10 3 6z" fill="none" stroke={colour} strokeWidth="1.5" />
      )}
      {shape === "square" && <rect x="4" y="3" width="6" height="6" fill={colour} />}
      {shape === "band" && <rect x="1" y="2" width="12" height="8" fill={colour} />}
    </svg>
  );
}
