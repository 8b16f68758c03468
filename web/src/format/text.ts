/** Text of unknown origin, made safe to read: nothing in it moves, hides or reorders anything. */

// eslint-disable-next-line no-control-regex -- these are what is looked for
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

// The same here.
const HIDDEN =
  // eslint-disable-next-line no-control-regex -- these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** Colour sequences are dropped; controls and characters that reorder text are shown by number. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(ANSI, "").replace(HIDDEN, shown);
}

function shown(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** On one line, at most `most` characters. */
export function oneLine(text: string, most = 400): string {
  const line = visible(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
