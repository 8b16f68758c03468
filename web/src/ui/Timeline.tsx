import type { ReactNode } from "react";
import type { Tone } from "../format/states";
import { Icon, type IconName } from "./Icon";
import css from "./Timeline.module.css";
import tones from "./tones.module.css";
import { cx } from "./cx";

export interface TimelineItem {
  readonly id: string;
  readonly icon: IconName;
  readonly tone: Tone;
  readonly title: ReactNode;
  readonly detail?: ReactNode;
  readonly aside?: ReactNode;
}

/** What happened, one below the other. */
export function Timeline({
  items,
  label,
}: {
  readonly items: readonly TimelineItem[];
  readonly label: string;
}) {
  return (
    <ol className={css.list} aria-label={label} data-feed>
      {items.map((item) => (
        <li key={item.id} className={css.item}>
          <span className={cx(css.mark, tones[item.tone])}>
            <Icon name={item.icon} size={12} />
          </span>
          <div className={css.body}>
            <div className={css.title}>{item.title}</div>
            {item.detail !== undefined && <div className={css.detail}>{item.detail}</div>}
          </div>
          {item.aside !== undefined && <div className={css.aside}>{item.aside}</div>}
        </li>
      ))}
    </ol>
  );
}
