import { Link, useRouterState, type LinkProps } from "@tanstack/react-router";
import {
  useId,
  useLayoutEffect,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactNode,
} from "react";
import { formatCount } from "../format/numbers";
import { oneLine } from "../format/text";
import css from "./Tabs.module.css";
import { cx } from "./cx";

interface LinkTab {
  readonly label: string;
  readonly link: LinkProps;
  readonly count?: number | undefined;
}

/** Views of one thing, each with an address of its own. */
export function LinkTabs({
  label,
  tabs,
}: {
  readonly label: string;
  readonly tabs: readonly LinkTab[];
}) {
  const frame = useRef<HTMLElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useLayoutEffect(() => bringIntoSight(frame.current), [path]);
  return (
    <nav ref={frame} className={css.tabs} aria-label={oneLine(label)}>
      {tabs.map((tab) => (
        <Link
          key={tab.label}
          {...tab.link}
          className={css.tab}
          activeOptions={{ exact: true, includeSearch: false }}
          activeProps={{ className: cx(css.tab, css.chosen), "aria-current": "page" }}
        >
          {tab.label}
          {tab.count !== undefined && (
            <span className={cx(css.count, "figures")}>{formatCount(tab.count)}</span>
          )}
        </Link>
      ))}
    </nav>
  );
}

/** On a phone a row of tabs is wider than the window: the chosen one is where it is seen. */
function bringIntoSight(frame: HTMLElement | null): void {
  const chosen = frame?.querySelector<HTMLElement>("[aria-current=page], [aria-selected=true]");
  if (frame === null || chosen === null || chosen === undefined) return;
  const [left, right] = [
    chosen.offsetLeft - frame.offsetLeft,
    frame.scrollLeft + frame.clientWidth,
  ];
  const is_seen = left >= frame.scrollLeft && left + chosen.offsetWidth <= right;
  if (!is_seen) frame.scrollLeft = left - (frame.clientWidth - chosen.offsetWidth) / 2;
}

interface Panel {
  readonly id: string;
  readonly label: string;
  readonly content: () => ReactNode;
}

interface TabsProps {
  readonly label: string;
  readonly panels: readonly Panel[];
  readonly chosen?: string | undefined;
  readonly onChoose?: (id: string) => void;
}

/** Panels in one place; arrow keys move between them. */
export function Tabs({ label, panels, chosen, onChoose }: TabsProps) {
  const base = useId();
  const frame = useRef<HTMLDivElement>(null);
  const [own, setOwn] = useState(panels[0]?.id);
  const current = panels.find((panel) => panel.id === (chosen ?? own)) ?? panels[0];
  const id = current?.id;
  useLayoutEffect(() => bringIntoSight(frame.current), [id]);
  if (current === undefined) return null;
  const choose = (id: string) => {
    setOwn(id);
    onChoose?.(id);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = panels[(panels.indexOf(current) + step + panels.length) % panels.length];
    if (next === undefined) return;
    choose(next.id);
    document.getElementById(`${base}-${next.id}`)?.focus();
  };
  return (
    <>
      <div
        ref={frame}
        className={css.tabs}
        role="tablist"
        aria-label={label}
        tabIndex={-1}
        onKeyDown={onKeyDown}
      >
        {panels.map((panel) => (
          <button
            key={panel.id}
            id={`${base}-${panel.id}`}
            type="button"
            role="tab"
            aria-selected={panel === current}
            aria-controls={`${base}-panel`}
            tabIndex={panel === current ? 0 : -1}
            className={cx(css.tab, panel === current && css.chosen)}
            onClick={() => choose(panel.id)}
          >
            {panel.label}
          </button>
        ))}
      </div>
      <div id={`${base}-panel`} role="tabpanel" aria-labelledby={`${base}-${current.id}`}>
        {current.content()}
      </div>
    </>
  );
}
