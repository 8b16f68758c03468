/** A new token: asked for, and then shown this once. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState, type SubmitEvent } from "react";
import { keys } from "../../api/keys";
import { Problem, problemText } from "../../api/problems";
import { signIn, whoQuery } from "../../api/queries/access";
import { makeToken, type Scope, type TokenGiven } from "../../api/queries/system";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { SelectField, TextField } from "../../ui/Field";
import { Notice } from "../../ui/States";
import { CopyButton } from "../../ui/Values";
import css from "./System.module.css";
import { LIFETIMES, lifetimeSeconds, SCOPES } from "./tokens";

export function TokenDialog({ onClose }: { readonly onClose: () => void }) {
  const client = useQueryClient();
  const form = useId();
  const [name, setName] = useState("");
  const [days, setDays] = useState("30");
  const [scopes, setScopes] = useState<readonly Scope[]>(["read"]);
  const who = useQuery(whoQuery());
  const make = useMutation({
    mutationFn: async () => {
      const given = await makeToken({
        name,
        scopes: [...scopes],
        expires_in_s: lifetimeSeconds(days),
      });
      // The first token ends access without one: the reader goes on with it, and can still copy it.
      const signs_in = who.data?.token === null;
      if (signs_in) await signIn(given.token).catch(() => undefined);
      return { given, signs_in };
    },
    // A secret is kept nowhere but in the open dialog.
    gcTime: 0,
  });
  const close = () => {
    void client.invalidateQueries({ queryKey: keys.system() });
    void client.invalidateQueries({ queryKey: keys.whoami() });
    onClose();
  };
  if (make.data !== undefined) return <Given {...make.data} onClose={close} />;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    make.mutate();
  };
  const problem = nameProblem(make.error);
  return (
    <Dialog
      title="New token"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button
            type="submit"
            form={form}
            look="strong"
            isBusy={make.isPending}
            disabled={name.trim() === "" || scopes.length === 0}
          >
            Make the token
          </Button>
        </>
      }
    >
      <form id={form} className={css.form} onSubmit={submit}>
        <TextField
          label="Name"
          hint="whom or what it is for"
          value={name}
          maxLength={100}
          autoComplete="off"
          onChange={setName}
          problem={problem}
        />
        <fieldset className={css.scopes}>
          <legend>It may</legend>
          {SCOPES.map(({ scope, may }) => (
            <label key={scope} htmlFor={`${form}-${scope}`}>
              <input
                id={`${form}-${scope}`}
                aria-label={scope}
                type="checkbox"
                checked={scopes.includes(scope)}
                onChange={(event) =>
                  setScopes(
                    event.target.checked
                      ? [...scopes, scope]
                      : scopes.filter((other) => other !== scope),
                  )
                }
              />
              <span>
                <strong>{scope}</strong> <span className={css.faint}>{may}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <SelectField label="Expires after" value={days} onChange={setDays} options={LIFETIMES} />
        {make.error !== null && problem === undefined && (
          <Notice tone="bad">{problemText(make.error)}</Notice>
        )}
      </form>
    </Dialog>
  );
}

function nameProblem(error: unknown): string | undefined {
  if (!(error instanceof Problem)) return undefined;
  return error.findings.find((finding) => finding.field === "body.name")?.detail;
}

interface GivenProps {
  readonly given: TokenGiven;
  readonly signs_in: boolean;
  readonly onClose: () => void;
}

function Given({ given, signs_in, onClose }: GivenProps) {
  return (
    <Dialog
      title={`Token ${oneLine(given.name, 60)}`}
      onClose={onClose}
      actions={
        <Button look="strong" onClick={onClose}>
          I have copied it
        </Button>
      }
    >
      <div className={css.form}>
        <Notice tone="warn">
          It is shown this once and stored nowhere. Copy it now.
          {signs_in &&
            " This browser is signed in with it: from now on the server asks for a token."}
        </Notice>
        <div className={css.secret}>
          <code>{given.token}</code>
          <CopyButton text={given.token} what="token" />
        </div>
        <p className={css.faint}>
          Clients send it in the header Authorization: Bearer; arl takes it from ARL_TOKEN.
        </p>
      </div>
    </Dialog>
  );
}
