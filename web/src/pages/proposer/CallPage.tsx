/** One request to a language model: what it was told and what it said, always as text. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { modelCallQuery } from "../../api/queries/proposer";
import { isMissing } from "../../api/problems";
import type { ModelCall } from "../../api/types";
import { answeredBy, toldBy, type Said } from "../../format/conversation";
import { formatCount, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { CodeView } from "../../ui/Code";
import { Icon } from "../../ui/Icon";
import { KeyValue } from "../../ui/KeyValue";
import { Columns } from "../../ui/Layout";
import { Empty, Failure, Skeleton } from "../../ui/States";
import { Clipped, Moment, NumberValue } from "../../ui/Values";
import { Cost } from "./Cost";
import css from "./Proposer.module.css";

const route = getRouteApi("/studies/$study/model-calls/$call");

export function CallPage() {
  const { study, call } = route.useParams();
  const found = useQuery(modelCallQuery(study, Number(call)));
  return (
    <>
      <Link to="/studies/$study/proposer" params={{ study }} className={css.back}>
        <Icon name="chevron_left" size={13} /> All of the proposer
      </Link>
      {found.data !== undefined ? (
        <Words call={found.data} />
      ) : found.isError ? (
        <Card>
          <Failure
            what={`Model call ${oneLine(call, 20)}`}
            error={found.error}
            {...(isMissing(found.error) ? {} : { onRetry: () => void found.refetch() })}
          />
        </Card>
      ) : (
        <Skeleton height="30rem" />
      )}
    </>
  );
}

function Words({ call }: { readonly call: ModelCall }) {
  const told = toldBy(call.request);
  const answers = call.response === null ? [] : answeredBy(call.response);
  return (
    <Columns
      main={
        <>
          <Card title="What it was told">
            <Conversation said={told} raw={call.request} what="request" />
          </Card>
          <Card title="What it said">
            {call.response === null ? (
              <Empty icon="question" title="No answer">
                The call ended as: {words(call.outcome)}.
              </Empty>
            ) : (
              <Conversation said={answers} raw={call.response} what="answer" />
            )}
          </Card>
        </>
      }
      side={
        <Card title={`Call ${String(call.number)}`} actions={<Tag>{words(call.outcome)}</Tag>}>
          <KeyValue
            facts={[
              { name: "Model", value: <Clipped>{oneLine(call.model, 120)}</Clipped> },
              { name: "Endpoint", value: <Clipped>{oneLine(call.endpoint, 200)}</Clipped> },
              { name: "From proposal", value: formatCount(call.first_number) },
              { name: "Told", value: `${formatCount(call.prompt_tokens)} tokens` },
              { name: "Said", value: `${formatCount(call.completion_tokens)} tokens` },
              {
                name: "Cost",
                value: <Cost usd={call.cost_usd} />,
              },
              { name: "Took", value: <NumberValue value={call.latency_s} unit="seconds" /> },
              { name: "Prompt version", value: oneLine(call.prompt_version, 40) },
              { name: "When", value: <Moment at={call.at} /> },
            ]}
          />
        </Card>
      }
    />
  );
}

interface ConversationProps {
  readonly said: readonly Said[];
  readonly raw: string;
  readonly what: string;
}

function Conversation({ said, raw, what }: ConversationProps) {
  if (said.length === 0) return <CodeView text={raw} what={what} isProse />;
  return (
    <div className={css.said}>
      {said.map((one, place) => (
        <div key={place}>
          <h3>{oneLine(one.who, 30)}</h3>
          <CodeView text={one.text} what={`${what} (${oneLine(one.who, 30)})`} isProse />
        </div>
      ))}
    </div>
  );
}
