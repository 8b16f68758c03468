"""Parts of a study on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.wire import DIGEST, ISO, Iso, Number, Out, example
from ledger.records import CommandVerb, Direction


class ObjectiveOut(Out):
    """What a study is about."""

    model_config = example({"metric": "exact_match", "direction": "maximize"})
    metric: str
    direction: Direction


class BudgetOut(Out):
    """One resource, in its own unit: trials, seconds, tokens, US dollars."""

    model_config = example({"limit": 40.0, "spent": 12.0, "reserved": 2.0, "overrun": 0.0})
    limit: float | None = Field(description="Null: counted, not limited.")
    spent: float
    reserved: float
    overrun: float = Field(description="Measured beyond its reservation and the limit.")


class LastEventOut(Out):
    """The latest link of a study's chain."""

    model_config = example({"seq": 311, "kind": "trial_decided", "at": ISO})
    seq: int
    kind: str
    at: Iso


class BaselineOut(Out):
    """The study's own runs of its starting point."""

    model_config = example({"values": [0.42, 0.44], "mean": 0.43})
    values: list[Number]
    mean: Number


class PromotionBrief(Out):
    """What the gate said of the study's last family."""

    model_config = example(
        {
            "model": "tiny-arithmetic",
            "family": "st-7f3a-f1",
            "state": "promoted",
            "reason": "promoted",
            "promoted": True,
            "candidate": "st-7f3a-c9",
            "gain": 0.06,
            "ci95": [0.02, 0.1],
        }
    )
    model: str
    family: str
    state: str
    reason: str | None
    promoted: bool
    candidate: str | None
    gain: JsonValue = None
    ci95: JsonValue = None


class TimingsOut(Out):
    """Moments and durations of a study."""

    model_config = example(
        {
            "submitted_at": ISO,
            "first_attempt_started_at": ISO,
            "first_trial_started_at": ISO,
            "ended_at": None,
            "wall_s": None,
            "active_s": 124.5,
        }
    )
    submitted_at: Iso
    first_attempt_started_at: Iso | None
    first_trial_started_at: Iso | None
    ended_at: Iso | None
    wall_s: Number = Field(description="From its submission to its end.")
    active_s: float = Field(description="Pauses excluded.")


class HeadOut(Out):
    """Where a chain ends."""

    model_config = example({"seq": 311, "digest": DIGEST})
    seq: int
    digest: str


class TallyOut(Out):
    """What was asked of the network."""

    model_config = example({"count": 3, "refused": 1, "sent_bytes": 512, "received_bytes": 10240})
    count: int
    refused: int
    sent_bytes: int
    received_bytes: int


class NetworkOut(TallyOut):
    """The same with its hosts and, of a trial or of the preparing, every request."""

    model_config = example(
        {
            "count": 1,
            "refused": 1,
            "sent_bytes": 0,
            "received_bytes": 0,
            "hosts": {
                "example.org:443": {
                    "count": 1,
                    "refused": 1,
                    "sent_bytes": 0,
                    "received_bytes": 0,
                }
            },
            "requests": [],
        }
    )
    hosts: dict[str, TallyOut]
    requests: list[dict[str, JsonValue]]


class PendingCommandOut(Out):
    """What was asked for and is not carried out yet."""

    model_config = example({"id": 7, "verb": "pause", "actor": "token:ci", "at": ISO})
    id: int
    verb: CommandVerb
    actor: str
    at: Iso


class ModelUseOut(Out):
    """What a study asked of language models, in sums."""

    model_config = example(
        {
            "calls": 12,
            "outcomes": {"answered": 11, "timeout": 1},
            "tokens": 31000,
            "prompt_tokens": 24000,
            "completion_tokens": 7000,
            "cost_usd": 0.12,
            "latency_s": 55.1,
            "malformed": 1,
            "malformed_share": 0.05,
        }
    )
    calls: int
    outcomes: dict[str, int]
    tokens: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float
    malformed: int
    malformed_share: Number = Field(description="Of the search trials; null before the first.")
