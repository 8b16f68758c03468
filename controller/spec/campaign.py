"""The campaign file as strict models: what is served, gathered, tried, watched and taken back."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from controller.spec.quantities import ByteCount, Seconds
from controller.spec.strict import SAFE_INTEGER, Strict
from controller.spec.target import NonEmpty

LONGEST_NAME: Final = 80
"""Its studies are called after it, with a number behind."""


class Action(StrEnum):
    """What an alarm does."""

    ROLL_BACK = "roll_back"
    TELL = "tell"


class ServerSpec(Strict):
    """The running vLLM server that serves the model."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=2000)]
    """Like http://127.0.0.1:8000; it was started with --enable-lora."""
    secret: Annotated[str, Field(pattern=r"^ARL_SECRET_[A-Z0-9_]{1,80}$")] | None = None
    """The variable with the server's API key."""
    share: NonEmpty | None = None
    """A directory that the server sees under the same path; default: it reads ARL's store."""
    margin: float = Field(default=0.02, gt=0)
    """How much worse, in the objective's unit, what is put in may be than what is served."""
    split: Literal["search", "holdout"] | None = None
    """Which items the gate asks; default: the holdout where the artifact was scored on it."""
    parallel: int = Field(default=16, ge=1, le=32)
    """How many items are asked at once."""
    answer_timeout_s: Seconds = Field(
        default=60.0, validation_alias="answer_timeout", serialization_alias="answer_timeout"
    )
    """How long one answer may take."""


class ExperienceSpec(Strict):
    """Where consented records come from, and what becomes of them."""

    inbox: NonEmpty
    """Directory; whole *.jsonl files in it are taken in, and moved to `taken` below it."""
    input: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] = "train"
    """The data input of the study that the records become."""
    with_template: bool = True
    """Whether what the study file names as that input is trained on as well."""
    holdout: float = Field(default=0.1, gt=0, lt=1)
    """The share of prompts whose records are kept out of training for ever."""
    newest: int = Field(default=10_000, ge=1, le=10_000_000)
    """At most so many records are trained on, the newest."""
    min_reward: float | None = None
    """Records with a smaller reward, or none, are kept and not trained on."""
    file_bytes: ByteCount = Field(
        default=256 * 1024**2, validation_alias="file_size", serialization_alias="file_size"
    )
    """A larger file in the inbox is left where it is, and told of."""


class ScheduleSpec(Strict):
    """When a study starts. Every condition that is written must hold; one runs at a time."""

    every_s: Seconds | None = Field(
        default=None, validation_alias="every", serialization_alias="every"
    )
    """Like 6h: at least so long after the last one was submitted."""
    min_new: int = Field(default=1, ge=1, le=SAFE_INTEGER)
    """At least so many new records to train on since the last one."""
    studies: int = Field(ge=1, le=10_000)
    """How many studies the campaign may start in all."""


class SliceSpec(Strict):
    """Fixed items that the served model is asked after every switch."""

    file: NonEmpty
    """JSON Lines, as the study's evaluator reads them. Its prompts never enter training."""
    max_drop: float = Field(ge=0)
    """How far the mean may fall, against the incumbent before, until the alarm rings."""


class ShiftSpec(Strict):
    """Whether incoming prompts are still those that the model was made for."""

    reference: NonEmpty
    """JSON Lines with the prompts to compare with."""
    max_psi: float = Field(default=0.2, gt=0)
    """The population stability index beyond which the alarm may ring."""
    alpha: float = Field(default=0.01, ge=0.005, lt=0.5)
    """And by chance alone it would be as large in no more than this share of cases."""
    window: int = Field(default=200, ge=20, le=2000)
    """The newest different prompts are compared, at most so many."""
    least: int = Field(default=50, ge=20, le=2000)
    """Nothing is said of fewer."""


class RollbackSpec(Strict):
    """What each alarm does: roll_back, or tell, which only records it."""

    gate: Action = Action.ROLL_BACK
    """The server does not show what the evaluator saw, or serves something better."""
    forgetting: Action = Action.ROLL_BACK
    """A slice fell by more than its max_drop."""
    shift: Action = Action.TELL
    """Incoming prompts are others than the reference."""


class CampaignSpec(Strict):
    """One campaign. Needed are name, model, study, server, experience and schedule."""

    name: Annotated[str, Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}$")]
    """Letters, digits and . _ - only, at most 80."""
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """The registry's name whose incumbent is served, under this name."""
    study: NonEmpty
    """The study file that each study is made from; its promotion.model is `model`."""
    server: ServerSpec
    experience: ExperienceSpec
    schedule: ScheduleSpec
    slices: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")], SliceSpec
    ] = Field(default_factory=dict)
    """What must not be forgotten: slices by name."""
    shift: ShiftSpec | None = None
    rollback: RollbackSpec = RollbackSpec()
