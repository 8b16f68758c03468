"""The options that a study file may give each proposer, as strict models."""

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Unknown keys are refused, and no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NoOptions(Options):
    """Of proposers that take none."""
