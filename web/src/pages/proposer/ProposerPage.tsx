/** Who proposes, what came of it, what it cost, and what language models were told. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { proposerQuery } from "../../api/queries/proposer";
import type { Proposer } from "../../api/types";
import { formatCount, formatNumber, formatShare, plural, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { JsonView } from "../../ui/Code";
import { Stack } from "../../ui/Layout";
import { Failure, Loading, Notice, Skeleton } from "../../ui/States";
import { None, RelativeTime } from "../../ui/Values";
import { ArmsCard, LearningCard } from "./ArmsCard";
import { CallsCard } from "./CallsCard";
import css from "./Proposer.module.css";

const route = getRouteApi("/studies/$study/proposer");

export function ProposerPage() {
  const { study } = route.useParams();
  const found = useQuery(proposerQuery(study));
  if (found.data === undefined) {
    if (found.isError) {
      return (
        <Card>
          <Failure what="The proposer" error={found.error} onRetry={() => void found.refetch()} />
        </Card>
      );
    }
    return (
      <Loading what="the proposer">
        <Stack>
          <Skeleton height="5rem" />
          <Skeleton height="12rem" />
          <Skeleton height="22rem" />
        </Stack>
      </Loading>
    );
  }
  const proposer = found.data;
  return (
    <Stack>
      {proposer.waits !== null && <Notice tone="warn">{oneLine(proposer.waits, 600)}</Notice>}
      <Tiles proposer={proposer} />
      <ArmsCard proposer={proposer} />
      <LearningCard proposer={proposer} />
      <CallsCard study={study} />
      <AskedCard proposer={proposer} />
      {Object.keys(proposer.options).length > 0 && (
        <Card title="Options">
          <JsonView value={proposer.options} what="options of the proposer" />
        </Card>
      )}
    </Stack>
  );
}

function Tiles({ proposer }: { readonly proposer: Proposer }) {
  const use = proposer.model_use;
  const trials = proposer.arms.reduce((sum, arm) => sum + arm.trials, 0);
  return (
    <StatTiles>
      <StatTile label="Proposer" note={plural(proposer.arms.length, "arm")}>
        {proposer.name === "" ? <None /> : oneLine(proposer.name, 30)}
      </StatTile>
      <StatTile label="Trials ended" note="of its proposals">
        {formatCount(trials)}
      </StatTile>
      {use !== null && (
        <>
          <StatTile label="Malformed" note={`${formatCount(use.malformed)} unusable proposals`}>
            {use.malformed_share === null ? <None /> : formatShare(use.malformed_share)}
          </StatTile>
          <StatTile
            label="Tokens"
            note={`${formatCount(use.prompt_tokens)} told, ${formatCount(use.completion_tokens)} said`}
          >
            {formatCount(use.tokens)}
          </StatTile>
          <StatTile label="Cost" note="at the prices of the study file">
            ${formatNumber(use.cost_usd, 3)}
          </StatTile>
          <StatTile
            label="Model calls"
            note={Object.entries(use.outcomes)
              .map(([outcome, count]) => `${formatCount(count)} ${words(outcome)}`)
              .join(", ")}
          >
            {formatCount(use.calls)}
          </StatTile>
        </>
      )}
    </StatTiles>
  );
}

const SHOWN = 10;

function AskedCard({ proposer }: { readonly proposer: Proposer }) {
  const calls = proposer.calls.slice(0, SHOWN);
  if (calls.length === 0) return null;
  return (
    <Card title="Asked for proposals" note={`The latest ${plural(calls.length, "time")}.`}>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard */}
      <div className={css.scroll} tabIndex={0} role="region" aria-label="Asked for proposals">
        <table className={css.table}>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col" className={css.number}>
                From proposal
              </th>
              <th scope="col" className={css.number}>
                Asked
              </th>
              <th scope="col" className={css.number}>
                Given
              </th>
              <th scope="col" className={css.number}>
                Knew of
              </th>
              <th scope="col" className={css.number}>
                Seed
              </th>
            </tr>
          </thead>
          <tbody>
            {calls.map((call) => (
              <tr key={call.seq}>
                <td>
                  <RelativeTime at={call.at} />
                </td>
                <td className={css.number}>{formatCount(call.first_number)}</td>
                <td className={css.number}>{formatCount(call.asked)}</td>
                <td className={css.number}>{formatCount(call.given)}</td>
                <td className={css.number}>{plural(Math.max(0, call.watermark), "trial")}</td>
                <td className={css.number}>
                  <code>{call.seed}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
