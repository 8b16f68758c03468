import { useEffect, useRef } from "react";
import css from "./ColumnPicker.module.css";
import { Icon } from "./Icon";

interface ColumnPickerProps {
  readonly columns: readonly {
    readonly id: string;
    readonly title: string;
    readonly hint?: string;
  }[];
  readonly hidden: ReadonlySet<string>;
  readonly onChange: (id: string, is_hidden: boolean) => void;
}

/** Which columns a table shows. */
export function ColumnPicker({ columns, hidden, onChange }: ColumnPickerProps) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      const is_inside =
        event.target instanceof Node && box.current?.contains(event.target) === true;
      const is_escape = event instanceof KeyboardEvent && event.key === "Escape";
      if ((event.type === "click" && !is_inside) || is_escape) box.current?.removeAttribute("open");
    };
    document.addEventListener("click", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("click", close);
      document.removeEventListener("keydown", close);
    };
  }, []);
  return (
    <details ref={box} className={css.box}>
      <summary className={css.button}>
        <Icon name="columns" size={14} /> Columns
      </summary>
      <div className={css.list} role="group" aria-label="Columns">
        {columns.map((column) => (
          <label key={column.id} className={css.choice}>
            <input
              type="checkbox"
              checked={!hidden.has(column.id)}
              onChange={(event) => onChange(column.id, !event.target.checked)}
            />
            <span title={column.hint ?? column.title}>{column.title}</span>
          </label>
        ))}
      </div>
    </details>
  );
}
