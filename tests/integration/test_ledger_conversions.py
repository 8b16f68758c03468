"""Conversions in the ledger: rows from entries, judged once, rebuilt, and part of the lineage."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from ledger import reads
from ledger.conversion_entries import ConversionEnded
from ledger.conversion_reads import load_converting, load_measurements
from ledger.database import Ledger
from ledger.errors import IllegalTransition, InvalidInput
from ledger.lineage import NodeKind, lineage
from ledger.records import Verdict
from ledger.states import ConversionState, Reason
from ledger.verify import verify_ledger
from tests.ledger_builders import MODEL, Driven, driven

MADE = "c" * 64


def ended(study: Driven, new: ConversionState = ConversionState.SERVABLE) -> ConversionEnded:
    return ConversionEnded(
        conversion_id=f"{study.study_id}-v1",
        new=new,
        reason=Reason.NOT_INFERIOR,
        detail="no worse",
        artifact_digest=MADE,
        evidence={"difference": 0.0, "measured": [{"converted": {"token_s": 1.0}}]},
    )


def converting(ledger: Ledger) -> Driven:
    study = driven(ledger)
    study.run_study()
    study.whole_trial(1, 1.0, verdict=Verdict.KEEP)
    study.converted(2, of_candidate=1, source=1)
    return study


def test_a_conversion_is_opened_measured_and_judged_once(ledger: Ledger) -> None:
    study = converting(ledger)
    with ledger.read() as session:
        (opened,) = reads.list_conversions(session, candidate_id="s1-c1")
        assert (opened.state, opened.reason, opened.ended_at) == (ConversionState.OPEN, None, None)
        measured = load_measurements(session, ["s1-t1", "s1-t2"])
        live = reads.load_live(session, "s1")
    assert measured["s1-t2"]["converted"] == {"token_s": 1.0}
    assert [trial.id for trial in live.converting.trials] == ["s1-t2"]
    assert (list(live.replays), live.converting.measurements) == ([], measured)
    study.record(ended(study))
    with ledger.read() as session:
        (judged,) = reads.list_conversions(session, study_id="s1")
        assert load_converting(session, "s1", ()).conversions == [judged]
    assert (judged.state, judged.artifact_digest) == (ConversionState.SERVABLE, MADE)
    assert judged.evidence["difference"] == 0.0
    for again in (ConversionState.REFUSED, ConversionState.SERVABLE):
        with pytest.raises(IllegalTransition):
            study.record(ended(study, again))


def test_what_contradicts_itself_is_refused_and_leaves_no_row(ledger: Ledger) -> None:
    study = converting(ledger)
    with pytest.raises(InvalidInput, match="a servable conversion has an artifact"):
        study.record(replace(ended(study), artifact_digest=None))
    unpaired = replace(study.conversion(of_candidate=1, source=1, number=2), digests=())
    with pytest.raises(InvalidInput, match="every source has one digest"):
        study.record(unpaired)
    with ledger.read() as session:
        assert len(reads.list_conversions(session, study_id="s1")) == 1


def test_the_rows_are_rebuilt_from_the_chain_and_a_changed_one_is_found(ledger: Ledger) -> None:
    study = converting(ledger)
    study.record(ended(study))
    assert verify_ledger(ledger, None) == []
    for change, found in (
        ("UPDATE conversions SET state = 'refused'", "conversions s1-v1"),
        ("UPDATE measurements SET report = '{}'", "measurements s1-t2"),
        ("DELETE FROM measurements", "measurements s1-t2"),
    ):
        with ledger.write() as session:
            session.connection.execute(text(change))
        assert any(f.where.startswith(found) for f in verify_ledger(ledger, None)), change


def test_the_lineage_leads_from_the_promoted_model_to_what_was_made_of_it(ledger: Ledger) -> None:
    study = converting(ledger)
    study.record(ended(study))
    with ledger.read() as session:
        nodes = lineage(session, "s1-c1")
    assert nodes[-1].kind is NodeKind.CONVERSION
    assert nodes[-1].came_from == (f"s1-t1:{MODEL}",)
    assert nodes[-1].facts["artifact"] == MADE
    assert nodes[-1].facts["method"] == "int8"
