"""A conversion as a document and as a person sees it."""

import pytest

from controller.cli.show_conversion import print_conversion
from controller.documents.conversions import conversion_document
from ledger.conversion_records import Conversion
from ledger.records import Json
from ledger.states import ConversionState, Reason

MEASURED: Json = {
    "unconverted": {"token_s": 0.02, "size_bytes": 2048, "load_s": 0.0},
    "converted": {"token_s": 0.01, "size_bytes": 1024, "load_s": 1.0},
    "machine": {"device": "cpu"},
}


def conversion(**changes: object) -> Conversion:
    fields: dict[str, object] = {
        "id": "s1-v1",
        "study_id": "s1",
        "number": 1,
        "candidate_id": "s1-c1",
        "model": "toy",
        "method": "int8",
        "settings": {"method": "int8", "margin": 0.02},
        "sources": ("s1-7", "s1-8"),
        "digests": ("a" * 64, "b" * 64),
        "actor": "gate",
        "state": ConversionState.REFUSED,
        "reason": Reason.INFERIOR,
        "detail": "worse\x1b[31m",
        "artifact_digest": "c" * 64,
        "evidence": {"p": 0.4, "measured": [MEASURED, MEASURED]},
        "created_at": 1.0,
        "ended_at": 2.0,
        **changes,
    }
    return Conversion(**fields)  # type: ignore[arg-type]  # each of its own type


def test_a_refused_conversion_keeps_its_figures_and_is_not_servable() -> None:
    found = conversion_document(conversion())
    assert (found["servable"], found["state"], found["reason"]) == (False, "refused", "inferior")
    assert (found["unconverted"], found["converted"]) == ("a" * 64, "c" * 64)
    assert found["figures"] == [
        {"name": "token_s", "unconverted": 0.02, "converted": 0.01, "ratio": 0.5},
        {"name": "size_bytes", "unconverted": 2048, "converted": 1024, "ratio": 0.5},
        {"name": "load_s", "unconverted": 0.0, "converted": 1.0, "ratio": None},
    ]


def test_one_that_was_never_measured_has_no_figures() -> None:
    opened = conversion(
        state=ConversionState.OPEN, reason=None, artifact_digest=None, evidence={}, ended_at=None
    )
    found = conversion_document(opened)
    assert (found["figures"], found["converted"], found["reason"]) == ([], None, None)


def test_a_person_sees_the_reason_and_both_sides_and_nothing_that_the_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_conversion(conversion_document(conversion()))
    said = capsys.readouterr().out
    assert "conversion s1-v1, int8 of toy: refused (inferior)" in said
    assert "2.0 KiB" in said
    assert "0.50" in said
    assert "\x1b" not in said
