"""Conversions of a promoted model as documents: what was made, how it was judged, its figures."""

from collections.abc import Mapping, Sequence

from controller.documents.times import iso
from ledger.conversion_records import Conversion
from ledger.records import Json
from ledger.states import ConversionState


def conversion_document(conversion: Conversion) -> dict[str, Json]:
    return {
        "conversion": conversion.id,
        "study": conversion.study_id,
        "number": conversion.number,
        "candidate": conversion.candidate_id,
        "model": conversion.model,
        "method": conversion.method,
        "settings": dict(conversion.settings),
        "state": str(conversion.state),
        "servable": conversion.state is ConversionState.SERVABLE,
        "reason": None if conversion.reason is None else str(conversion.reason),
        "detail": conversion.detail,
        "unconverted": conversion.digests[0],
        "converted": conversion.artifact_digest,
        "figures": figures(conversion.evidence),
        "evidence": dict(conversion.evidence),
        "actor": conversion.actor,
        "created_at": iso(conversion.created_at),
        "ended_at": iso(conversion.ended_at),
    }


def figures(evidence: Mapping[str, Json]) -> list[Json]:
    """What was measured of the promoted model itself: each figure before, after, and as a ratio
    of the two."""
    rounds = evidence.get("measured")
    first = rounds[0] if isinstance(rounds, Sequence) and rounds else None
    if not isinstance(first, Mapping):
        return []
    old, new = first.get("unconverted"), first.get("converted")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return []
    return [
        {
            "name": name,
            "unconverted": old[name],
            "converted": new[name],
            "ratio": _ratio(new[name], old[name]),
        }
        for name in old
        if name in new
    ]


def _ratio(new: Json, old: Json) -> float | None:
    if not isinstance(new, int | float) or not isinstance(old, int | float) or not old:
        return None
    return new / old
