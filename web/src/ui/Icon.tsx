/** The icons, as strokes on a 16 by 16 grid. Decoration only: the word beside one says it. */

const PATHS = {
  check: "M3.5 8.5 6.5 11.5 12.5 4.5",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  minus: "M4 8h8",
  dot: "M8 7.5v1",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2 1.3",
  gear: "M8 5.8a2.2 2.2 0 1 0 0 4.4a2.2 2.2 0 1 0 0-4.4M8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M12.2 3.8l-1.4 1.4M5.2 10.8l-1.4 1.4",
  play: "M5.5 3.8v8.4l6.5-4.2z",
  pause: "M5.5 4v8M10.5 4v8",
  stop: "M4.5 4.5h7v7h-7z",
  drain: "M8 3v8M4.8 8 8 11.2 11.2 8M3.5 13.5h9",
  repeat:
    "M3.5 7.5A4.5 4.5 0 0 1 11.6 5M12.5 8.5A4.5 4.5 0 0 1 4.4 11M11.8 2.5V5H9.2M4.2 13.5V11h2.6",
  scale: "M8 2.5v11M5 13.5h6M3 5l5-1 5 1M3 5 1.5 9h3zM13 5l-1.5 4h3z",
  ruler: "M2.5 10.5 10.5 2.5 13.5 5.5 5.5 13.5zM5 8l1.3 1.3M7.3 5.7 8.6 7",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  scissors: "M4 3.2 12 12M12 4 4 12.8M4.2 2.6a1.4 1.4 0 1 0 .1 2.8M4.2 13.4a1.4 1.4 0 1 1 .1-2.8",
  ban: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M4.2 4.2l7.6 7.6",
  unplugged: "M6 3v3M10 3v3M4 6h8v2a4 4 0 0 1-8 0zM8 12v2M2.5 2.5l11 11",
  question: "M6 6a2 2 0 1 1 3 1.7c-.7.4-1 .8-1 1.6M8 11.8v.2",
  hand: "M4.5 8.5V4.7a1 1 0 0 1 2 0V7.5V3.6a1 1 0 0 1 2 0v3.9V4.2a1 1 0 0 1 2 0v4V6a1 1 0 0 1 2 0v3.5a4 4 0 0 1-4 4H8a3.8 3.8 0 0 1-3.2-1.8L3 9.2a1 1 0 0 1 1.5-.7",
  flag: "M4 14V2.8M4 3h7.5l-1.6 2.7 1.6 2.8H4",
  chevron_right: "M6 3.5 10.5 8 6 12.5",
  chevron_down: "M3.5 6 8 10.5 12.5 6",
  chevron_left: "M10 3.5 5.5 8l4.5 4.5",
  arrow_up: "M8 13V3.5M4 7.5l4-4 4 4",
  arrow_down: "M8 3v9.5M4 8.5l4 4 4-4",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 1 0 0-8.4M10.2 10.2l3.3 3.3",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13 9.6A5.4 5.4 0 0 1 6.4 3a5.4 5.4 0 1 0 6.6 6.6z",
  screen: "M2.5 3.5h11v7.5h-11zM6 13.5h4",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10",
  refresh: "M12.8 8A4.8 4.8 0 1 1 11 4.2M11.4 1.8v2.8H8.6",
  alert: "M8 2.5 14 13H2zM8 6.5v3M8 11.2v.2",
  info: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 7.5v3.2M8 5.2v.2",
  keyboard: "M1.5 4.5h13v7.5h-13zM4 7h.2M6.6 7h.2M9.2 7h.2M11.8 7h.2M5 9.6h6",
  flask: "M6.5 2.5h3M7 2.5v4L3.4 12a1 1 0 0 0 .9 1.5h7.4a1 1 0 0 0 .9-1.5L9 6.5v-4M5.2 10h5.6",
  compare: "M5 3v10M11 3v10M2.5 5.5 5 3l2.5 2.5M8.5 10.5 11 13l2.5-2.5",
  ledger: "M4 2.5h8.5v11H4a1.5 1.5 0 0 1 0-3h8.5M4 2.5a1.5 1.5 0 0 0-1.5 1.5v8M6 5.5h4",
  plan: "M3 13V8M6.3 13V5M9.6 13V9.5M13 13V3",
  system: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.2M5 11h.2",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  filter: "M2.5 3.5h11L9.5 8.3v4.2l-3-1.5V8.3z",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  link: "M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.8.8M9.2 6.8a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.8-.8",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5.2a2.5 2.5 0 0 1 5 0v2.3",
  table: "M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.6h11M7 6.3V13",
  chart: "M2.5 2.5v11h11M5 10l2.5-3 2 1.5L13 4.5",
} as const;

export type IconName = keyof typeof PATHS;

const FILLED: ReadonlySet<IconName> = new Set(["play", "stop"]);

export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill={FILLED.has(name) ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth={name === "dot" ? 4 : 1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
