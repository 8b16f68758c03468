/** What the tokens' dialog and list work out. */
import type { Scope, Token } from "../../api/queries/system";
import type { Tone } from "../../format/states";

const DAY_S = 86_400;

export const LIFETIMES: readonly { readonly value: string; readonly label: string }[] = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
  { value: "", label: "never" },
];

export const SCOPES: readonly { readonly scope: Scope; readonly may: string }[] = [
  { scope: "read", may: "see everything" },
  { scope: "submit", may: "submit and steer studies" },
  { scope: "promote", may: "approve and decline promotions" },
  { scope: "admin", may: "all of it, and tokens" },
];

export const lifetimeSeconds = (days: string): number | null =>
  days === "" ? null : Number(days) * DAY_S;

export function tokenState(token: Pick<Token, "is_valid" | "revoked_at">): {
  readonly word: string;
  readonly tone: Tone;
} {
  if (token.is_valid) return { word: "valid", tone: "good" };
  return token.revoked_at === null
    ? { word: "expired", tone: "warn" }
    : { word: "revoked", tone: "mute" };
}
