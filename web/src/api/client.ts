/** The one place that speaks HTTP: paths and bodies typed by the server's own description. */
import createClient from "openapi-fetch";
import { asProblem, Unreachable } from "./problems";
import type { paths } from "./schema";
import { noteServerDate } from "./serverClock";

const TIMEOUT_MS = 30_000;
const READING_MS = 600_000;

/** Requests end by themselves, and a server that is gone is told apart from one that refuses. */
const fetchWithin = (ms: number) =>
  async function patientFetch(request: Request): Promise<Response> {
    try {
      const answer = await fetch(request, {
        signal: AbortSignal.any([request.signal, AbortSignal.timeout(ms)]),
      });
      noteServerDate(answer.headers.get("date"));
      return answer;
    } catch (error) {
      if (request.signal.aborted) throw error;
      throw new Unreachable();
    }
  };

export const api = createClient<paths>({
  baseUrl: window.location.origin,
  fetch: fetchWithin(TIMEOUT_MS),
});

/** For a request before whose answer the server reads every byte of a model. */
export const whileItReads = { fetch: fetchWithin(READING_MS) } as const;

interface Answer<Body> {
  readonly data?: Body;
  readonly error?: unknown;
  readonly response: Response;
}

/** The body of an answer. Throws Problem where the server refused, Unreachable where it is gone. */
export async function bodyOf<Body>(asked: Promise<Answer<Body>>): Promise<Body> {
  const answer = await asked;
  if (!answer.response.ok || answer.data === undefined) {
    if (answer.response.ok) return undefined as Body; // 204
    // A proxy in front of a stopped server answers for it.
    if ([502, 504].includes(answer.response.status)) throw new Unreachable();
    throw asProblem(answer.error, answer.response.status);
  }
  return answer.data;
}

/** For a POST: repeated by a nervous hand or a lost answer, it happens once. */
export function newKey(): string {
  // Not randomUUID: a page that came over plain HTTP from another machine has none.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether there is a server at all. */
export async function serverAnswers(): Promise<boolean> {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
