/** Refusals as the server words them (RFC 9457), and the one error the dashboard throws. */

export interface Finding {
  readonly field: string;
  readonly detail: string;
}

interface ProblemDocument {
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly errors?: readonly Finding[];
}

/** The server answered, and refused. */
export class Problem extends Error {
  readonly status: number;
  /** A stable word: `not_found`, `unauthorized`, `conflict` … */
  readonly code: string;
  readonly findings: readonly Finding[];

  constructor(document: ProblemDocument) {
    super(document.detail === "" ? document.title : document.detail);
    this.name = "Problem";
    this.status = document.status;
    this.code = document.code;
    this.findings = document.errors ?? [];
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. It may have been stopped; its ledger keeps everything.");
    this.name = "Unreachable";
  }
}

export function asProblem(body: unknown, status: number): Problem {
  if (isProblemDocument(body)) return new Problem(body);
  return new Problem({
    title: "Refused",
    status,
    code: status === 404 ? "not_found" : "error",
    detail: `The server answered with status ${String(status)}`,
  });
}

function isProblemDocument(body: unknown): body is ProblemDocument {
  if (typeof body !== "object" || body === null) return false;
  return "title" in body && "status" in body && "code" in body && "detail" in body;
}

export function problemText(error: unknown): string {
  if (error instanceof Error) return error.message;
  return "Something went wrong";
}

export const isMissing = (error: unknown): boolean =>
  error instanceof Problem && error.status === 404;
/** What was asked for had been decided otherwise meanwhile, or cannot be as things are. */
export const isConflict = (error: unknown): boolean =>
  error instanceof Problem && error.status === 409;
export const isSignedOut = (error: unknown): boolean =>
  error instanceof Problem && error.status === 401;
