import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { signIn } from "../api/queries/access";
import { problemText } from "../api/problems";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { TextField } from "../ui/Field";
import { PageHeader } from "../ui/PageHeader";
import { signedIn } from "./session";
import css from "./SignIn.module.css";

/** The token goes into a cookie that no script can read. */
export function SignIn() {
  const client = useQueryClient();
  const [token, setToken] = useState("");
  const attempt = useMutation({
    mutationFn: signIn,
    onSuccess: () => {
      signedIn();
      void client.resetQueries();
    },
  });
  return (
    <div className={css.page}>
      <PageHeader title="Sign in" note="This server asks for a token." />
      <Card>
        <form
          className={css.form}
          onSubmit={(event) => {
            event.preventDefault();
            attempt.mutate(token.trim());
          }}
        >
          <TextField
            label="Token"
            type="password"
            autoComplete="current-password"
            required
            value={token}
            onChange={setToken}
            problem={attempt.isError ? problemText(attempt.error) : undefined}
            hint={
              <>
                <code>arl token create NAME --scope read</code> on the server makes one.
              </>
            }
          />
          <Button
            type="submit"
            look="strong"
            isBusy={attempt.isPending}
            disabled={token.trim() === ""}
          >
            Sign in
          </Button>
        </form>
      </Card>
    </div>
  );
}
