"""The options that a study file may give each proposer, as strict models."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

OPTION_FAULTS: Final[Mapping[str, str]] = {
    "missing": "it is needed",
    "extra_forbidden": "there is no such key",
    "tuple_type": "it must be a list",
    "model_type": "it must be a mapping",
    "dict_type": "it must be a mapping",
}
"""What pydantic finds wrong, by its name for it, in our words."""


class Options(BaseModel):
    """Unknown keys are refused, and no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    FILES: ClassVar[tuple[str, ...]] = ()
    """Options that may be the absolute path of a file, which has to be there at submit."""

    release: Literal["exact", "ladder"] | None = None
    """How it is told scores: exact, or ladder: rounded to the noise floor, with a best-so-far that
    moves only by a real step. Default: ladder for language models, exact for the others."""


class HostedOptions(Options):
    """Of proposers that run in a process of their own."""

    call_s: float = Field(default=600.0, gt=0, le=86_400, strict=False)
    """Seconds that one call may take, with the start of its process: a process that takes longer
    is ended, and the call is made again with a fresh one, three times at most."""


class NoOptions(Options):
    """Of proposers that take none."""


def faults_of(
    name: str, model: type[Options], error: ValidationError
) -> Iterator[tuple[str, str]]:
    """What the model says is wrong with a proposer's options: which one, and why."""
    for details in error.errors(include_url=False):
        where = ".".join(str(part) for part in details["loc"])
        why = OPTION_FAULTS.get(details["type"], details["msg"].removeprefix("Value error, "))
        if details["type"] == "extra_forbidden" and len(details["loc"]) == 1:
            why = f"{name} takes only {', '.join(model.model_fields)}"
        yield where, why
