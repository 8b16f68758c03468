/** The design tokens as plain colours, for a canvas, which knows no CSS variables. */
import { useTheme } from "../app/theme";

const TOKENS = {
  text: "--text",
  soft: "--text-soft",
  faint: "--text-faint",
  surface: "--surface",
  border: "--border",
  grid: "--grid",
  accent: "--accent",
  band: "--band",
  good: "--mark-good",
  info: "--mark-info",
  warn: "--mark-warn",
  bad: "--mark-bad",
  rare: "--mark-rare",
  mute: "--mark-mute",
} as const;

export type Palette = Readonly<Record<keyof typeof TOKENS, string>> & {
  /** For curves that differ in nothing but what they are of. */
  readonly series: readonly string[];
};

function readPalette(): Palette {
  const probe = document.createElement("span");
  document.body.append(probe);
  const resolved = Object.fromEntries(
    Object.entries(TOKENS).map(([name, token]) => {
      probe.style.color = `var(${token})`;
      return [name, getComputedStyle(probe).color];
    }),
  ) as Readonly<Record<keyof typeof TOKENS, string>>;
  probe.remove();
  const { accent, warn, rare, good, info, bad, mute } = resolved;
  return { ...resolved, series: [accent, warn, rare, good, info, bad, mute] };
}

const palettes = new Map<string, Palette>();

/** Of the theme that is shown; read once for each. */
export function usePalette(): Palette {
  const theme = useTheme();
  const palette = palettes.get(theme) ?? readPalette();
  palettes.set(theme, palette);
  return palette;
}
