"""The options of `hybrid`: its arms, and how it chooses between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proposers.chat_options import Endpoint
from proposers.options import Options

NAME: Final = "hybrid"
MOST_ARMS: Final = 8


class ArmSpec(BaseModel):
    """One arm: a proposer and its options."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(min_length=1, max_length=100)
    options: dict[str, object] = Field(default_factory=dict)


class HybridOptions(Options):
    """Of `hybrid`."""

    mode: Literal["stall", "bandit"] = "stall"
    """stall: one arm until it brings nothing more, then the next; bandit: trials go to the arm
    from which most is to be expected for what they cost."""
    arms: Annotated[tuple[ArmSpec, ...] | None, Field(strict=False)] = None
    """At least two proposers, in their order. Default: tpe (random, where Optuna is missing), then
    llm_diff."""
    endpoints: Annotated[tuple[Endpoint, ...] | None, Field(strict=False)] = None
    """Of the arms that ask language models and name none of their own."""
    patience: int = Field(default=15, ge=1, le=10_000)
    """stall: so many trials of an arm without an improvement beyond the noise end its turn."""
    failures: int = Field(default=4, ge=1, le=10_000)
    """stall: so do so many in a row that failed, and of an arm that writes patches also ones that
    were not kept."""
    cost: Literal["trials", "seconds", "usd"] = "seconds"
    """bandit: what an arm's gains are divided by. seconds: what its trials take; usd: those at
    usd_per_hour, and what its language models charge."""
    usd_per_hour: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    """What an hour of one trial costs."""

    @field_validator("arms")
    @classmethod
    def _check_number(cls, arms: tuple[ArmSpec, ...] | None) -> tuple[ArmSpec, ...] | None:
        if arms is not None and not 2 <= len(arms) <= MOST_ARMS:
            raise ValueError(f"name two arms at least, and at most {MOST_ARMS}")
        return arms


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A proposer that a study asks: its own, or an arm of that one."""

    name: str
    options: Mapping[str, object]
    where: str = ""
    """Where its options stand, below proposer.options."""
