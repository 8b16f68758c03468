import { useId, type ReactNode } from "react";
import css from "./Card.module.css";
import { cx } from "./cx";

interface CardProps {
  readonly title?: string;
  /** One line under the title. */
  readonly note?: ReactNode | undefined;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  /** No inner distance: for a table or a chart that reaches the edges. */
  readonly isFlush?: boolean;
  readonly className?: string | undefined;
}

/** One subject in a frame, as a landmark named by its title. */
export function Card({ title, note, actions, children, isFlush = false, className }: CardProps) {
  const id = useId();
  return (
    <section
      className={cx(css.card, className)}
      aria-labelledby={title === undefined ? undefined : id}
    >
      {title !== undefined && (
        <header className={css.head}>
          <div className={css.names}>
            <h2 id={id}>{title}</h2>
            {note !== undefined && <p className={css.note}>{note}</p>}
          </div>
          {actions !== undefined && <div className={css.actions}>{actions}</div>}
        </header>
      )}
      <div className={isFlush ? css.flush : css.body}>{children}</div>
    </section>
  );
}

interface StatTileProps {
  readonly label: string;
  readonly children: ReactNode;
  readonly note?: ReactNode | undefined;
}

/** One number that is looked for first. */
export function StatTile({ label, children, note }: StatTileProps) {
  return (
    <div className={css.tile}>
      <dt className={css.label}>{label}</dt>
      <dd className={css.value}>{children}</dd>
      {note !== undefined && <dd className={css.note}>{note}</dd>}
    </div>
  );
}

export function StatTiles({ children }: { readonly children: ReactNode }) {
  return <dl className={css.tiles}>{children}</dl>;
}
