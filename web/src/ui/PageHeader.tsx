import { Link, type LinkProps } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";
import { oneLine, shortName } from "../format/text";
import { Icon } from "./Icon";
import css from "./PageHeader.module.css";

export interface Crumb {
  readonly label: string;
  readonly link: LinkProps;
}

interface PageHeaderProps {
  readonly title: string;
  readonly crumbs?: readonly Crumb[];
  /** Beside the title: a state. */
  readonly badge?: ReactNode;
  /** Under the title: what it is, in a line. */
  readonly note?: ReactNode;
  readonly actions?: ReactNode;
}

/** Where one is, what it is called, what can be done with it. */
export function PageHeader({ title, crumbs = [], badge, note, actions }: PageHeaderProps) {
  const name = oneLine(title);
  useEffect(() => {
    document.title = `${oneLine(title, 80)} · ARL`;
  }, [title]);
  return (
    <header className={css.header}>
      {crumbs.length > 0 && (
        <nav aria-label="Breadcrumb">
          <ol className={css.crumbs}>
            {crumbs.map((crumb, index) => (
              <li key={crumb.label}>
                {index > 0 && <Icon name="chevron_right" size={12} />}
                <Link {...crumb.link} title={oneLine(crumb.label)}>
                  {shortName(crumb.label, 36)}
                </Link>
              </li>
            ))}
          </ol>
        </nav>
      )}
      <div className={css.row}>
        <div className={css.titles}>
          <h1 className={css.title} title={name.length > 60 ? name : undefined}>
            {name}
          </h1>
          {badge}
        </div>
        {actions !== undefined && <div className={css.actions}>{actions}</div>}
      </div>
      {note !== undefined && <div className={css.note}>{note}</div>}
    </header>
  );
}
