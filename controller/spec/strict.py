"""The base of every model in a study file, and how a validator says what to write instead."""

from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from controller.spec.errors import Problem

SAFE_INTEGER: Final = 2**53 - 1
"""Larger integers change in programs that read JSON numbers as floats, and some databases and
loops take none much larger."""


class Strict(BaseModel):
    """Unknown keys, silent conversions, NaN and infinities are refused; nothing changes later.

    Field names carry units (`wall_time_s`); a study file writes them without (`wall_time`).
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )


def refusal(problems: list[Problem]) -> PydanticCustomError:
    """An error that carries problems whose fields are relative to where it is raised."""
    return PydanticCustomError(
        "arl_problems",
        "{text}",
        {"text": "; ".join(str(problem) for problem in problems), "problems": problems},
    )
