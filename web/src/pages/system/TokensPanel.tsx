import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../../api/keys";
import { problemText } from "../../api/problems";
import { revokeToken, tokensQuery, type Token } from "../../api/queries/system";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Confirm } from "../../ui/Dialog";
import { Empty, Failure } from "../../ui/States";
import { useToast } from "../../ui/Toasts";
import { Clipped, Digest, RelativeTime } from "../../ui/Values";
import css from "./System.module.css";
import { TokenDialog } from "./TokenDialog";
import { tokenState } from "./tokens";

const COLUMNS: readonly Column<Token>[] = [
  {
    id: "name",
    title: "Name",
    width: 170,
    grows: true,
    cell: (row) => <Clipped>{oneLine(row.name, 100)}</Clipped>,
  },
  { id: "id", title: "Id", width: 150, cell: (row) => <Digest value={row.id} what="token's id" /> },
  {
    id: "scopes",
    title: "Scopes",
    width: 220,
    cell: (row) => (
      <span className={css.tags}>
        {row.scopes.map((scope) => (
          <Tag key={scope} tone={scope === "admin" ? "warn" : "info"}>
            {scope}
          </Tag>
        ))}
      </span>
    ),
  },
  {
    id: "state",
    title: "State",
    width: 110,
    cell: (row) => {
      const { word, tone } = tokenState(row);
      return <Tag tone={tone}>{word}</Tag>;
    },
  },
  { id: "made", title: "Made", width: 120, cell: (row) => <RelativeTime at={row.created_at} /> },
  {
    id: "expires",
    title: "Expires",
    width: 120,
    cell: (row) => (row.expires_at === null ? "never" : <RelativeTime at={row.expires_at} />),
  },
];

/** Who may do what over the network. A token itself is shown once, when it is made. */
export function TokensPanel() {
  const found = useQuery(tokensQuery());
  const [is_making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const columns: readonly Column<Token>[] = [
    ...COLUMNS,
    {
      id: "revoke",
      title: "",
      width: 100,
      cell: (row) =>
        row.is_valid && (
          <Button
            look="quiet"
            aria-label={`Revoke ${oneLine(row.name, 60)}`}
            onClick={() => setRevoking(row)}
          >
            Revoke
          </Button>
        ),
    },
  ];
  return (
    <Card
      title="Access tokens"
      note="the first one ends access without a token"
      actions={
        <Button icon="lock" look="strong" onClick={() => setMaking(true)}>
          New token
        </Button>
      }
      isFlush
    >
      {found.isError && found.data === undefined ? (
        <Failure what="The tokens" error={found.error} onRetry={() => void found.refetch()} />
      ) : (
        <DataTable<Token>
          label="Tokens"
          columns={columns}
          rows={found.data?.items ?? []}
          rowKey={(row) => row.id}
          skeletonRows={found.isPending ? 3 : 0}
          empty={
            <Empty icon="lock" title="No token yet">
              Without any, this server answers on this machine only, and everyone on it may do
              everything.
            </Empty>
          }
        />
      )}
      {is_making && <TokenDialog onClose={() => setMaking(false)} />}
      {revoking !== null && <RevokeDialog token={revoking} onClose={() => setRevoking(null)} />}
    </Card>
  );
}

interface RevokeProps {
  readonly token: Token;
  readonly onClose: () => void;
}

function RevokeDialog({ token, onClose }: RevokeProps) {
  const client = useQueryClient();
  const say = useToast();
  const name = oneLine(token.name, 60);
  const revoke = useMutation({
    mutationFn: () => revokeToken(token.id),
    onSuccess: () => say("good", `Revoked ${name}`),
    onError: (error) => say("bad", problemText(error)),
    onSettled: () => {
      onClose();
      void client.invalidateQueries({ queryKey: keys.system() });
    },
  });
  return (
    <Confirm
      title={`Revoke ${name}?`}
      verb="Revoke the token"
      isDangerous
      isBusy={revoke.isPending}
      onConfirm={() => revoke.mutate()}
      onClose={onClose}
    >
      <p>Whoever uses it is refused from now on. It cannot be undone; a new token can be made.</p>
    </Confirm>
  );
}
