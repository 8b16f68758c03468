"""What is known of a conversion of a promoted model."""

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.records import Json
from ledger.states import ConversionState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    id: str
    study_id: str
    number: int
    candidate_id: str
    model: str
    """The name that the candidate was promoted under."""
    method: str
    settings: Mapping[str, Json]
    sources: tuple[str, ...]
    """Trial ids whose models are converted; the first one's is the promoted model."""
    digests: tuple[str, ...]
    """Of those models."""
    actor: str
    state: ConversionState
    reason: Reason | None
    detail: str
    artifact_digest: str | None
    """Of the converted promoted model."""
    evidence: Mapping[str, Json]
    """What the gate computed, once it ended."""
    created_at: float
    ended_at: float | None

    def stage(self, index: int) -> str:
        """`Trial.stage` of the trial that converts the model of `sources[index]`."""
        return f"convert:{self.number}:{index}"
