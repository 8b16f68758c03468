/** The links of a chain, and whether it is whole. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { whoQuery } from "../../api/queries/access";
import { chainQuery, linksQuery } from "../../api/queries/ledger";
import { studiesQuery } from "../../api/queries/studies";
import type { Link as ChainLink } from "../../api/types";
import { words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { JsonView } from "../../ui/Code";
import { DataTable } from "../../ui/DataTable";
import { Dialog } from "../../ui/Dialog";
import { SelectField } from "../../ui/Field";
import { KeyValue } from "../../ui/KeyValue";
import { Stack, Toolbar } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure } from "../../ui/States";
import { Digest, Moment } from "../../ui/Values";
import { ChainStatus, ChainWaiting } from "./ChainStatus";
import { linkColumns } from "./columns";
import { SERVICE_CHAIN, type LedgerSearch } from "./search";

const route = getRouteApi("/ledger");

const NO_LINKS: readonly ChainLink[] = [];

export function LedgerPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const studies = useInfiniteQuery(studiesQuery({ sort: "submitted_at", order: "desc" }));
  const who = useQuery(whoQuery());
  const is_admin = who.data?.scopes.includes("admin") === true;
  const listed = studies.data?.pages.flatMap((page) => page.items) ?? [];
  // Without a chain in the address: that of the newest study.
  const chain =
    search.chain ?? (studies.isPending ? undefined : (listed[0]?.study ?? SERVICE_CHAIN));
  const change = (next: Partial<LedgerSearch>) =>
    void navigate({ search: (now) => ({ ...now, chain, ...next }), replace: true });
  const choices = [
    ...listed.map((study) => ({ value: study.study, label: oneLine(study.name, 60) })),
    ...(is_admin ? [{ value: SERVICE_CHAIN, label: "Service: tokens and requests" }] : []),
  ];
  if (chain !== undefined && !choices.some((choice) => choice.value === chain)) {
    choices.unshift({ value: chain, label: oneLine(chain, 60) });
  }
  return (
    <>
      <PageHeader
        title="Ledger"
        note="Every fact in its order. Each link holds the digest of the one before."
      />
      <Stack>
        {chain === undefined ? <ChainWaiting /> : <ChainStatus chain={chain} />}
        <Card isFlush>
          <Toolbar>
            <SelectField
              label="Chain"
              isLabelHidden
              value={chain ?? ""}
              onChange={(next) => change({ chain: next, kinds: undefined })}
              options={choices}
            />
            <KindFilter
              chain={chain}
              chosen={search.kinds?.[0]}
              onChange={(kinds) => change({ kinds })}
            />
            <SelectField
              label="Order"
              isLabelHidden
              value={search.order ?? "desc"}
              onChange={(order) => change({ order: order === "asc" ? "asc" : undefined })}
              options={[
                { value: "desc", label: "Newest first" },
                { value: "asc", label: "Oldest first" },
              ]}
            />
          </Toolbar>
          {chain === undefined ? (
            <LinksWaiting />
          ) : (
            <Links chain={chain} kinds={search.kinds ?? []} order={search.order ?? "desc"} />
          )}
        </Card>
      </Stack>
    </>
  );
}

/** As tall as the list will be. */
function LinksWaiting() {
  return (
    <DataTable<ChainLink>
      label="Links"
      columns={linkColumns}
      rows={NO_LINKS}
      rowKey={(row) => String(row.seq)}
      skeletonRows={12}
    />
  );
}

interface KindFilterProps {
  /** Undefined while it is not known which. */
  readonly chain: string | undefined;
  readonly chosen: string | undefined;
  readonly onChange: (kinds: readonly string[] | undefined) => void;
}

function KindFilter({ chain, chosen, onChange }: KindFilterProps) {
  const { data } = useQuery({ ...chainQuery(chain ?? ""), enabled: chain !== undefined });
  const kinds = [...(data?.kinds ?? [])].sort();
  return (
    <SelectField
      label="Kind"
      isLabelHidden
      value={chosen ?? ""}
      onChange={(kind) => onChange(kind === "" ? undefined : [kind])}
      options={[
        { value: "", label: "Every kind" },
        ...kinds.map((kind) => ({ value: kind, label: words(kind) })),
      ]}
    />
  );
}

interface LinksProps {
  readonly chain: string;
  readonly kinds: readonly string[];
  readonly order: "asc" | "desc";
}

function Links({ chain, kinds, order }: LinksProps) {
  const [open, setOpen] = useState<ChainLink | null>(null);
  const found = useInfiniteQuery({
    ...linksQuery({ chain, kinds, order }),
    placeholderData: (shown) => shown,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  if (found.isError && found.data === undefined) {
    return <Failure what="The chain" error={found.error} onRetry={() => void found.refetch()} />;
  }
  return (
    <>
      <DataTable<ChainLink>
        label={`Links of ${oneLine(chain, 80)}`}
        columns={linkColumns}
        rows={rows}
        rowKey={(row) => `${row.chain}:${String(row.seq)}`}
        onOpen={setOpen}
        hasMore={found.hasNextPage}
        isLoadingMore={found.isFetchingNextPage}
        onMore={() => void found.fetchNextPage()}
        skeletonRows={found.isPending ? 12 : 0}
        isStale={found.isPlaceholderData}
        height={rows.length > 25 ? "fill" : "auto"}
        empty={<Empty icon="ledger" title="No entry of this kind" />}
      />
      {open !== null && <LinkDialog link={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function LinkDialog({ link, onClose }: { readonly link: ChainLink; readonly onClose: () => void }) {
  return (
    <Dialog title={`${String(link.seq)} · ${words(link.kind)}`} onClose={onClose}>
      <KeyValue
        facts={[
          { name: "At", value: <Moment at={link.at} /> },
          { name: "Digest", value: <Digest value={link.digest} /> },
          { name: "Before it", value: <Digest value={link.previous} /> },
        ]}
      />
      <JsonView value={link.payload} what="entry" />
    </Dialog>
  );
}
