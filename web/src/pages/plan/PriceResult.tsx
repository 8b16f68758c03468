import type { PlanPrice, ProfilePrice, Range } from "../../api/queries/plans";
import {
  capital,
  formatCount,
  formatDuration,
  formatNumber,
  formatShare,
  words,
} from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { JsonView } from "../../ui/Code";
import { Columns } from "../../ui/Layout";
import { None } from "../../ui/Values";
import css from "./Plan.module.css";

/** What a valid study means before anything runs. */
export function PriceResult({ plan }: { readonly plan: PlanPrice }) {
  const hours = plan.profiles.find((profile) => profile.hours !== null)?.hours;
  return (
    <>
      <StatTiles>
        <StatTile label="Study" note="valid">
          {oneLine(plan.name, 60)}
        </StatTile>
        <StatTile
          label="Search trials"
          note={plan.limited_by === null ? "nothing limits them" : `by ${words(plan.limited_by)}`}
        >
          {plan.search_trials === null ? <None /> : formatCount(plan.search_trials)}
        </StatTile>
        <StatTile label="At once">{formatCount(plan.parallel)}</StatTile>
        <StatTile
          label="Takes"
          note={hours === undefined ? "give the seconds of one trial" : "typically, all in all"}
        >
          {hours === undefined || hours === null ? <None /> : formatDuration(hours.typical * 3600)}
        </StatTile>
      </StatTiles>
      <Card title="Price" note="least – typical – most; error rates are simulated" isFlush>
        <Prices profiles={plan.profiles} />
      </Card>
      <Implied plan={plan} />
    </>
  );
}

/** What a stated system implies and how tools launch it; nothing for a study without one. */
export function Implied({ plan }: { readonly plan: PlanPrice }) {
  if (plan.plan === null) return null;
  const implied = Object.entries(plan.implies ?? {}).filter(([, lines]) => lines.length > 0);
  return (
    <Columns
      main={
        <>
          {implied.map(([name, lines]) => (
            <Card key={name} title={capital(words(name))}>
              <ul className={css.list}>
                {lines.map((line, at) => (
                  <li key={at}>{oneLine(line, 500)}</li>
                ))}
              </ul>
            </Card>
          ))}
          {plan.configurations !== null && (
            <Card title="Configurations" note="what launches such a system, by tool">
              <JsonView value={plan.configurations} what="configurations" />
            </Card>
          )}
        </>
      }
      side={
        <>
          <Card title="System" note="every axis, stated or implied">
            <JsonView value={plan.plan} what="system" />
          </Card>
          {plan.memory !== null && (
            <Card title="Memory">
              <JsonView value={plan.memory} what="memory" />
            </Card>
          )}
        </>
      }
    />
  );
}

function Prices({ profiles }: { readonly profiles: readonly ProfilePrice[] }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard
    <div className={css.scroll} tabIndex={0} role="region" aria-label="Price by profile">
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">Profile</th>
            <th scope="col">Baseline</th>
            <th scope="col">Gate runs</th>
            <th scope="col">Trials in all</th>
            <th scope="col">Hours</th>
            <th scope="col">GPU hours</th>
            <th scope="col">Worst hours</th>
            <th scope="col">False promotions</th>
            <th scope="col">Finds +2 sd</th>
          </tr>
        </thead>
        <tbody>
          {profiles.map((profile) => (
            <tr key={profile.profile ?? ""}>
              <th scope="row">{profile.profile ?? "no promotion"}</th>
              <td>{formatCount(profile.baseline_trials)}</td>
              <RangeCell range={profile.gate_runs} />
              <RangeCell range={profile.trials} />
              <RangeCell range={profile.hours} />
              <RangeCell range={profile.gpu_hours} />
              <td>
                {profile.worst_hours === null ? <None /> : formatNumber(profile.worst_hours, 3)}
              </td>
              <ShareCell share={profile.error_rates?.false_promotion} />
              <ShareCell share={profile.error_rates?.power_2_sd} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ShareCell({ share }: { readonly share: number | undefined }) {
  return <td>{share === undefined ? <None /> : formatShare(share)}</td>;
}

function RangeCell({ range }: { readonly range: Range | null }) {
  if (range === null) {
    return (
      <td>
        <None />
      </td>
    );
  }
  const [least, typical, most] = [range.least, range.typical, range.most].map((value) =>
    formatNumber(value, 3),
  );
  return <td>{least === most ? typical : `${least ?? ""} – ${typical ?? ""} – ${most ?? ""}`}</td>;
}
