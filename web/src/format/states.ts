/** How each state and outcome looks: a tone, a shape and a word, never colour alone. */
import type { IconName } from "../ui/Icon";
import { words } from "./numbers";

export type Tone = "good" | "info" | "warn" | "bad" | "rare" | "mute";

export interface StateLook {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly word: string;
  /** Whether something is going on right now. */
  readonly moves: boolean;
}

const look = (tone: Tone, icon: IconName, moves = false): Omit<StateLook, "word"> => ({
  tone,
  icon,
  moves,
});

const LOOKS: Readonly<Record<string, Omit<StateLook, "word">>> = {
  // studies
  submitted: look("mute", "clock"),
  preparing: look("info", "gear", true),
  paused: look("warn", "pause"),
  draining: look("info", "drain", true),
  replaying: look("rare", "repeat", true),
  completed: look("good", "check"),
  imported: look("mute", "download"),
  // trials and their outcomes
  proposed: look("mute", "clock"),
  running: look("info", "play", true),
  evaluating: look("info", "scale", true),
  deciding: look("info", "scale", true),
  complete: look("good", "check"),
  kept: look("good", "check"),
  discarded: look("mute", "minus"),
  measured: look("rare", "ruler"),
  served: look("mute", "copy"),
  pruned: look("warn", "scissors"),
  failed: look("bad", "cross"),
  cancelled: look("mute", "ban"),
  // attempts
  launching: look("info", "clock", true),
  exited: look("info", "drain"),
  collected: look("good", "check"),
  rejected: look("bad", "cross"),
  lost: look("warn", "unplugged"),
  // families
  open: look("info", "scale", true),
  passed: look("good", "check"),
  refused: look("bad", "cross"),
  inconclusive: look("warn", "question"),
  awaiting_approval: look("warn", "hand"),
  promoted: look("good", "flag"),
  declined: look("mute", "ban"),
  // conversions
  servable: look("good", "check"),
  // candidates and commands
  pending: look("mute", "clock"),
  applied: look("good", "check"),
  // notifications
  waiting: look("mute", "clock"),
  delivered: look("good", "check"),
  dead: look("bad", "cross"),
};

/** An unknown word is shown as it is, so that a newer server needs no newer dashboard. */
export function stateLook(state: string): StateLook {
  return { ...(LOOKS[state] ?? look("mute", "dot")), word: words(state) };
}

const STUDY_ENDS: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "imported"]);
const TRIAL_ENDS: ReadonlySet<string> = new Set(["complete", "pruned", "failed", "cancelled"]);

export const isStudyOver = (state: string): boolean => STUDY_ENDS.has(state);
export const isTrialOver = (state: string): boolean => TRIAL_ENDS.has(state);
