/** What a language model was sent and answered, taken apart into who said what. */

export interface Said {
  readonly who: string;
  readonly text: string;
}

type Json = Readonly<Record<string, unknown>>;

const mapping = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function words(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null ? "" : JSON.stringify(content, null, 2);
  return content
    .map((part) => mapping(part).text)
    .filter((text) => typeof text === "string")
    .join("\n");
}

function said(message: unknown): Said | null {
  const { role, content } = mapping(message) as { role?: unknown; content?: unknown };
  if (content === undefined) return null;
  return { who: typeof role === "string" ? role : "message", text: words(content) };
}

/** The messages of a request; none where it is no such request. */
export function toldBy(request: string): readonly Said[] {
  const sent = parsed(request);
  const messages = Array.isArray(sent) ? (sent as unknown[]) : mapping(sent).messages;
  return Array.isArray(messages) ? messages.flatMap((one) => said(one) ?? []) : [];
}

/** The answers in a response: several where several were asked for. */
export function answeredBy(response: string): readonly Said[] {
  const { choices } = mapping(parsed(response));
  if (!Array.isArray(choices)) return [];
  return choices.flatMap((choice) => said(mapping(choice).message) ?? []);
}
