"""Facts about conversions of a promoted model: opened, measured, and how each was judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ledger.records import Json
from ledger.states import ConversionState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOpened:
    """A promoted model is to be converted, and the result to be judged against it."""

    kind: ClassVar[str] = "conversion_opened"
    conversion_id: str
    number: int
    """Within the study, from 1."""
    candidate_id: str
    model: str
    method: str
    settings: Mapping[str, Json]
    """The study file's section with every default."""
    sources: tuple[str, ...]
    """Confirmation runs whose models are converted; the first one's is the promoted model."""
    digests: tuple[str, ...]
    """Tree digest of each of those models."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionMeasured:
    """Speed and memory of a converted model beside the unconverted one, by our own program."""

    kind: ClassVar[str] = "conversion_measured"
    attempt_id: str
    trial_id: str
    report: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionEnded:
    """How a conversion was judged. Refused ones keep their numbers as much as servable ones."""

    kind: ClassVar[str] = "conversion_ended"
    conversion_id: str
    new: ConversionState
    reason: Reason
    detail: str
    artifact_digest: str | None
    """Of the converted promoted model; None where there is none."""
    evidence: Mapping[str, Json]


ConversionEntry: TypeAlias = ConversionOpened | ConversionMeasured | ConversionEnded
