/** The page of something that could not be had. */
import type { ReactNode } from "react";
import { isMissing } from "../api/problems";
import { Card } from "./Card";
import { Failure } from "./States";

interface FailedPageProps {
  readonly what: string;
  /** The query that failed: asked again on a person's word, unless there is no such thing. */
  readonly query: { readonly error: unknown; readonly refetch: () => unknown };
  /** Where to go instead. */
  readonly children: ReactNode;
}

export function FailedPage({ what, query, children }: FailedPageProps) {
  return (
    <Card>
      <Failure
        what={what}
        error={query.error}
        isPage
        {...(isMissing(query.error) ? {} : { onRetry: () => void query.refetch() })}
      >
        {children}
      </Failure>
    </Card>
  );
}
