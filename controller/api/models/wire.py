"""What the models of the API share: strictness, pages, and numbers that JSON cannot hold."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

T = TypeVar("T")

Number = float | None
"""A number; null where there is none, or where it is named in the document's `non_finite`."""
Scalar = bool | int | float | str
Cell = bool | int | float | str | None
Iso = str
"""ISO 8601 in UTC with its offset."""

ISO = "2026-05-04T09:30:00.000+00:00"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def example(value: JsonValue) -> ConfigDict:
    """A model's configuration with one example of it."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [value]})


class Out(BaseModel):
    """Base of what the API answers: no field that is not declared."""

    model_config = ConfigDict(extra="forbid")


class NonFinite(Out):
    """A number that JSON has no word for; null stands in its place."""

    model_config = example({"path": "latest/3/value", "value": "nan"})
    path: str = Field(description="Where it is in this document: keys and positions, by `/`.")
    value: str = Field(description='"nan", "inf" or "-inf".')


class Flagged(Out):
    """A document that may hold numbers which are not finite."""

    non_finite: list[NonFinite] = Field(
        default=[], description="Numbers of this document that are null because JSON has none."
    )


class Page(Out, Generic[T]):
    """One page of a list; the cursor leads to the next, however many are added meanwhile."""

    items: list[T]
    next_cursor: str | None = Field(description="Give it back as `cursor`; null on the last page.")
