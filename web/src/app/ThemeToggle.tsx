import { Button } from "../ui/Button";
import { chooseTheme, useThemeChoice, type ThemeChoice } from "./theme";

const NEXT: Readonly<Record<ThemeChoice, ThemeChoice>> = {
  system: "light",
  light: "dark",
  dark: "system",
};
const ICONS = { system: "screen", light: "sun", dark: "moon" } as const;

/** Goes round: the system's, light, dark. */
export function ThemeToggle() {
  const choice = useThemeChoice();
  const said = choice === "system" ? "as the system" : choice;
  return (
    <Button
      look="quiet"
      icon={ICONS[choice]}
      aria-label={`Theme: ${said}; change to ${NEXT[choice] === "system" ? "the system's" : NEXT[choice]}`}
      title={`Theme: ${said}`}
      onClick={() => chooseTheme(NEXT[choice])}
    />
  );
}
