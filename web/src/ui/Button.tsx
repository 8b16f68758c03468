import type { ButtonHTMLAttributes, ReactNode } from "react";
import css from "./Button.module.css";
import { Icon, type IconName } from "./Icon";
import { cx } from "./cx";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: "plain" | "strong" | "quiet" | "danger";
  readonly icon?: IconName;
  readonly isBusy?: boolean;
  /** Why it may not be pressed, which is said with it. */
  readonly barred?: string | null | undefined;
  readonly children?: ReactNode;
}

export function Button({
  look = "plain",
  icon,
  isBusy = false,
  children,
  className,
  disabled,
  barred,
  title,
  ...rest
}: ButtonProps) {
  const only = children === undefined || children === null;
  const is_barred = barred !== undefined && barred !== null;
  return (
    <button
      type="button"
      {...rest}
      className={cx(css.button, css[look], only && css.only, className)}
      disabled={disabled === true || isBusy || is_barred}
      title={is_barred ? barred : title}
      aria-busy={isBusy || undefined}
    >
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  );
}
