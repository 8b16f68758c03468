"""A study's proposer on the wire: its arms, its calls of the proposer and of language models."""

from pydantic import Field, JsonValue

from controller.api.models.plots import FinalOutcome
from controller.api.models.study_parts import ModelUseOut
from controller.api.models.wire import ISO, Flagged, Iso, Number, Out, example
from ledger.records import Direction


class ArmCurve(Out):
    """The mean of an arm's latest values, as trials ended."""

    model_config = example({"finish": [1, 2], "mean": [0.4, 0.5], "window": 20, "sampled": False})
    finish: list[int]
    mean: list[Number]
    window: int = Field(description="How many trials each mean is of.")
    sampled: bool


class ArmOut(Out):
    """What one proposer, or arm of a hybrid, brought."""

    model_config = example(
        {
            "name": "tpe",
            "trials": 20,
            "outcomes": {"kept": 3, "discarded": 15, "failed": 2},
            "improved": 4,
            "share_of_wins": 0.8,
            "best_value": 0.71,
            "curve": {"finish": [1], "mean": [0.4], "window": 20, "sampled": False},
        }
    )
    name: str
    trials: int
    outcomes: dict[FinalOutcome, int]
    improved: int = Field(description="How often one of its trials was the best so far.")
    share_of_wins: Number = Field(description="Of all such improvements; null before the first.")
    best_value: Number
    curve: ArmCurve


class ProposalCall(Out):
    """One call of the proposer."""

    model_config = example(
        {
            "seq": 120,
            "at": ISO,
            "first_number": 10,
            "asked": 2,
            "given": 2,
            "watermark": 9,
            "seed": 12345,
        }
    )
    seq: int
    at: Iso
    first_number: int = Field(description="Search proposals there were before it.")
    asked: int
    given: int
    watermark: int = Field(description="How many trials it had seen end.")
    seed: int


class ProposerOut(Flagged):
    """Who proposes, and what came of it."""

    model_config = example(
        {
            "study": "st-7f3a",
            "name": "hybrid",
            "options": {},
            "metric": "exact_match",
            "direction": "maximize",
            "arms": [],
            "model_use": None,
            "calls": [],
            "waits": None,
        }
    )
    study: str
    name: str
    options: dict[str, JsonValue]
    metric: str
    direction: Direction
    arms: list[ArmOut]
    model_use: ModelUseOut | None
    calls: list[ProposalCall] = Field(description="The latest fifty, the newest first.")
    waits: str | None = Field(description="Why it cannot go on for now.")


class ModelCallListed(Out):
    """One request to a language model."""

    model_config = example(
        {
            "number": 3,
            "first_number": 10,
            "model": "a-model",
            "endpoint": "http://127.0.0.1:8000/v1",
            "outcome": "answered",
            "prompt_version": "3",
            "prompt_tokens": 2000,
            "completion_tokens": 600,
            "cost_usd": 0.01,
            "latency_s": 4.2,
            "at": ISO,
        }
    )
    number: int
    first_number: int
    model: str
    endpoint: str
    outcome: str
    prompt_version: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: Number
    latency_s: Number
    at: Iso


class ModelCallOut(ModelCallListed, Flagged):
    """The same with the words."""

    model_config = example(
        {
            "number": 3,
            "first_number": 10,
            "model": "a-model",
            "endpoint": "http://127.0.0.1:8000/v1",
            "outcome": "answered",
            "prompt_version": "3",
            "prompt_tokens": 2000,
            "completion_tokens": 600,
            "cost_usd": 0.01,
            "latency_s": 4.2,
            "at": ISO,
            "request": '{"messages": []}',
            "response": None,
        }
    )
    request: str
    response: str | None
