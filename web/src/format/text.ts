/** Text of unknown origin, made safe to read: nothing in it moves, hides or reorders anything. */

// eslint-disable-next-line no-control-regex -- these are what is looked for
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

// The same here.
const HIDDEN =
  // eslint-disable-next-line no-control-regex, no-misleading-character-class -- these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** More marks upon one letter than any script has: they cover the lines around. */
const PILED = /(\p{M}{4})\p{M}+/gu;

/** Colour sequences are dropped; controls and characters that reorder text are shown by number. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(ANSI, "").replace(HIDDEN, shown).replace(PILED, "$1…");
}

function shown(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** A name in little room: its middle goes, for names that are alike differ at their ends. */
export function shortName(name: string, most = 40): string {
  const letters = Array.from(oneLine(name));
  if (letters.length <= most) return letters.join("");
  const end = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(-end).join("")}`;
}

/** On one line, at most `most` characters. */
export function oneLine(text: string, most = 400): string {
  const line = visible(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
