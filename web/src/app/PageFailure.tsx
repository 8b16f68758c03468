import type { ErrorComponentProps } from "@tanstack/react-router";
import { Card } from "../ui/Card";
import { Failure } from "../ui/States";

/** A page that broke: the rest of the dashboard goes on. */
export function PageFailure({ error, reset }: ErrorComponentProps) {
  return (
    <Card>
      <Failure what="This page" error={error} onRetry={reset} isPage />
    </Card>
  );
}
