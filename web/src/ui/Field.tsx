import {
  useId,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
} from "react";
import css from "./Field.module.css";
import { Icon } from "./Icon";
import { cx } from "./cx";

interface FieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly problem?: string | undefined;
  readonly isLabelHidden?: boolean;
}

interface TextFieldProps
  extends FieldProps, Omit<InputHTMLAttributes<HTMLInputElement>, "onChange" | "value"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export function TextField({
  label,
  hint,
  problem,
  isLabelHidden,
  onChange,
  ...input
}: TextFieldProps) {
  const id = useId();
  return (
    <div className={css.field}>
      <label htmlFor={id} className={isLabelHidden === true ? "visually-hidden" : css.label}>
        {label}
      </label>
      <input
        {...input}
        id={id}
        className={cx(css.input, problem !== undefined && css.wrong)}
        aria-invalid={problem !== undefined || undefined}
        aria-describedby={problem === undefined && hint === undefined ? undefined : `${id}-said`}
        onChange={(event) => onChange(event.target.value)}
      />
      <Said id={`${id}-said`} hint={hint} problem={problem} />
    </div>
  );
}

interface TextAreaFieldProps
  extends FieldProps, Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onChange" | "value"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** For a sentence or several. */
export function TextAreaField(props: TextAreaFieldProps) {
  const { label, hint, problem, isLabelHidden, onChange, ...area } = props;
  const id = useId();
  return (
    <div className={css.field}>
      <label htmlFor={id} className={isLabelHidden === true ? "visually-hidden" : css.label}>
        {label}
      </label>
      <textarea
        rows={3}
        {...area}
        id={id}
        className={cx(css.input, css.area, problem !== undefined && css.wrong)}
        aria-invalid={problem !== undefined}
        aria-describedby={hint === undefined && problem === undefined ? undefined : `${id}-said`}
        onChange={(event) => onChange(event.target.value)}
      />
      <Said id={`${id}-said`} hint={hint} problem={problem} />
    </div>
  );
}

interface SelectFieldProps
  extends FieldProps, Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange" | "value"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly options: readonly { readonly value: string; readonly label: string }[];
}

export function SelectField(props: SelectFieldProps) {
  const { label, hint, problem, isLabelHidden, onChange, options, ...select } = props;
  const id = useId();
  return (
    <div className={css.field}>
      <label htmlFor={id} className={isLabelHidden === true ? "visually-hidden" : css.label}>
        {label}
      </label>
      <select
        {...select}
        id={id}
        className={css.input}
        onChange={(event) => onChange(event.target.value)}
      >
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
      <Said id={`${id}-said`} hint={hint} problem={problem} />
    </div>
  );
}

interface SaidProps {
  readonly id: string;
  readonly hint: ReactNode;
  readonly problem: string | undefined;
}

function Said({ id, hint, problem }: SaidProps) {
  if (problem !== undefined) {
    return (
      <p id={id} className={css.problem}>
        {problem}
      </p>
    );
  }
  if (hint === undefined) return null;
  return (
    <p id={id} className={css.hint}>
      {hint}
    </p>
  );
}

interface SearchFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** What `/` jumps to on a page. */
export function SearchField({ label, value, onChange }: SearchFieldProps) {
  return (
    <div className={css.search}>
      <Icon name="search" />
      <input
        type="search"
        className={css.input}
        aria-label={label}
        placeholder={label}
        value={value}
        data-search
        onChange={(event) => onChange(event.target.value)}
      />
      <kbd className={css.key} aria-hidden="true">
        /
      </kbd>
    </div>
  );
}
