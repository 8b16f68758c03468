"""The options that a study file may give each proposer, as strict models."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Unknown keys are refused, and no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    release: Literal["exact", "ladder"] | None = None
    """How it is told scores: exact, or ladder: rounded to the noise floor, with a best-so-far that
    moves only by a real step. Default: ladder for language models, exact for the others."""


class NoOptions(Options):
    """Of proposers that take none."""
