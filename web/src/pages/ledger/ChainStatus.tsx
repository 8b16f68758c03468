import { useQuery } from "@tanstack/react-query";
import { chainQuery } from "../../api/queries/ledger";
import type { Chain } from "../../api/types";
import { formatCount } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { StatTile, StatTiles } from "../../ui/Card";
import { Failure, Loading } from "../../ui/States";
import { Digest } from "../../ui/Values";

/** Where the chain ends, and how far the server recomputed it. */
export function ChainStatus({ chain }: { readonly chain: string }) {
  const found = useQuery(chainQuery(chain));
  if (found.data === undefined) {
    if (found.isError)
      return <Failure what="The chain" error={found.error} onRetry={() => void found.refetch()} />;
    return <ChainWaiting />;
  }
  const { data } = found;
  return (
    <StatTiles>
      <StatTile label="Length" note="entries">
        {formatCount(data.seq)}
      </StatTile>
      <StatTile label="Whole" note={verdictNote(data)}>
        <Tag tone={data.is_whole === true ? "good" : data.is_whole === false ? "bad" : "info"}>
          {verdict(data)}
        </Tag>
      </StatTile>
      <StatTile label="Head" note="digest of the last entry">
        <Digest value={data.digest} />
      </StatTile>
    </StatTiles>
  );
}

/** As tall as what comes, on a phone too. */
export function ChainWaiting() {
  return (
    <Loading what="the chain">
      <StatTiles>
        {["Length", "Whole", "Head"].map((label) => (
          <StatTile key={label} label={label} note={"\u00a0"}>
            {"\u00a0"}
          </StatTile>
        ))}
      </StatTiles>
    </Loading>
  );
}

function verdict({ is_whole }: Chain): string {
  if (is_whole === null) return "checking";
  return is_whole ? "verified" : "broken";
}

function verdictNote({ problem, verified_seq }: Chain): string {
  if (problem !== null) return oneLine(problem, 200);
  return `${formatCount(verified_seq)} digests recomputed`;
}
