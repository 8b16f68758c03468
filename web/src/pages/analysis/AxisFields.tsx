/** Which two of several names lie across and up. */
import { shortName } from "../../format/text";
import { SelectField } from "../../ui/Field";
import css from "./Analysis.module.css";

interface AxisFieldsProps {
  readonly names: readonly string[];
  readonly x: string;
  readonly y: string;
  readonly onChange: (axes: { x: string; y: string }) => void;
}

export function AxisFields({ names, x, y, onChange }: AxisFieldsProps) {
  const options = names.map((name) => ({ value: name, label: shortName(name, 50) }));
  return (
    <div className={css.controls}>
      <SelectField
        label="Across"
        value={x}
        options={options}
        onChange={(next) => onChange({ x: next, y: next === y ? x : y })}
      />
      <SelectField
        label="Up"
        value={y}
        options={options.filter((option) => option.value !== x)}
        onChange={(next) => onChange({ x, y: next })}
      />
    </div>
  );
}
