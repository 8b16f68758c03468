/** The frame of every page: navigation, how live it is, theme, help. */
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouterState, type LinkProps } from "@tanstack/react-router";
import { useState } from "react";
import { whoQuery } from "../api/queries/access";
import { LiveRoot } from "../live/LiveRoot";
import { LiveBadge, ServerBanner } from "../live/LiveBadge";
import { Button } from "../ui/Button";
import { cx } from "../ui/cx";
import { Icon, type IconName } from "../ui/Icon";
import css from "./AppShell.module.css";
import { HelpDialog } from "./HelpDialog";
import { useIsSignInAsked } from "./session";
import { useShortcuts } from "./shortcuts";
import { SignIn } from "./SignIn";
import { ThemeToggle } from "./ThemeToggle";

interface NavItem {
  readonly to: NonNullable<LinkProps["to"]>;
  readonly label: string;
  readonly icon: IconName;
}

const NAV: readonly NavItem[] = [
  { to: "/studies", label: "Studies", icon: "flask" },
  { to: "/compare", label: "Compare", icon: "compare" },
  { to: "/promotions", label: "Promotions", icon: "flag" },
  { to: "/ledger", label: "Ledger", icon: "ledger" },
  { to: "/plan", label: "Plan", icon: "plan" },
  { to: "/system", label: "System", icon: "system" },
];

export function AppShell() {
  const [open_at, setOpenAt] = useState<string>();
  const [is_help, setHelp] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const is_signed_out = useIsSignInAsked();
  useShortcuts({ onHelp: () => setHelp(true) });
  const is_open = open_at === path; // closed by going anywhere
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to the content
      </a>
      <header className={css.bar}>
        <Button
          className={css.menu}
          look="quiet"
          icon="menu"
          aria-label="Navigation"
          aria-expanded={is_open}
          aria-controls="navigation"
          onClick={() => setOpenAt(is_open ? undefined : path)}
        />
        <Link to="/studies" className={css.brand}>
          <Mark />
          ARL
        </Link>
        <nav id="navigation" className={cx(css.nav, is_open && css.open)} aria-label="Main">
          {NAV.map((item) => (
            <Link
              key={item.label}
              to={item.to}
              className={css.link}
              activeProps={{ className: cx(css.link, css.active), "aria-current": "page" }}
            >
              <Icon name={item.icon} />
              {item.label}
            </Link>
          ))}
        </nav>
        <div className={css.side}>
          <LiveBadge />
          <Button
            look="quiet"
            icon="keyboard"
            className={css.help}
            aria-label="Keyboard shortcuts"
            title="Keyboard shortcuts (?)"
            onClick={() => setHelp(true)}
          />
          <ThemeToggle />
          <WhoBadge />
        </div>
      </header>
      <ServerBanner />
      <main id="main" className={css.main} tabIndex={-1}>
        {is_signed_out ? <SignIn /> : <Outlet />}
      </main>
      {!is_signed_out && <LiveRoot />}
      {is_help && <HelpDialog onClose={() => setHelp(false)} />}
    </div>
  );
}

function WhoBadge() {
  const { data } = useQuery(whoQuery());
  if (data === undefined || data.token === null) return null;
  return (
    <span className={css.who} title={`Scopes: ${data.scopes.join(", ")}`}>
      {data.name}
    </span>
  );
}

function Mark() {
  return (
    <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" className={css.mark} />
      <path d="M6 23 11 18l4 2.5 5-8 6-5" fill="none" className={css.stroke} strokeWidth="2.6" />
      <circle cx="26" cy="7.5" r="2.6" className={css.spot} />
    </svg>
  );
}
