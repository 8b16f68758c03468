"""Exports are strict, lineage is in order."""

import csv
import io
import json
import sys
from datetime import datetime
from typing import Any

import pytest

from ledger import reads
from ledger.database import Ledger
from ledger.entries import InputsFrozen
from ledger.errors import InvalidInput, NotFound
from ledger.export import ExportFormat, export_trials
from ledger.lineage import LineageNode, NodeKind, lineage
from ledger.records import TrialKind, Verdict
from ledger.states import TrialState
from tests.ledger_builders import Driven, driven


def exported(ledger: Ledger, form: ExportFormat) -> bytes:
    destination = io.BytesIO()
    with ledger.read() as session:
        count = export_trials(session, "s1", form, destination)
    assert count == 3
    return destination.getvalue()


def three_trials(ledger: Ledger) -> Driven:
    study = driven(ledger)
    study.whole_trial(0, 1.5)
    study.record(study.proposed(1, params={"lr": 1, "name": 'a,b\n"c"'}), study.launching(1))
    study.record(study.started(1), study.values(1, 0, [(1, "loss", float("inf"))]))
    study.record(study.proposed(2, params={"lr": "auto"}), study.ended(2, TrialState.PROPOSED))
    return study


def strict(text: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_flags_what_is_not_finite(ledger: Ledger) -> None:
    three_trials(ledger)
    trials = strict(exported(ledger, ExportFormat.JSON))
    assert [trial["number"] for trial in trials] == [0, 1, 2]
    assert trials[0]["scores"] == {"search.accuracy": 0.5, "search.loss": 1.5}
    assert trials[0]["metrics"] == {"loss": 1.5}
    assert trials[0]["value"] == 1.5
    assert trials[1]["metrics"] == {"loss": None}
    assert trials[1]["non_finite"] == {"metrics.loss": "inf"}
    assert trials[2]["reason"] == "exit_nonzero"


def test_times_are_written_in_utc_with_their_offset(ledger: Ledger) -> None:
    three_trials(ledger)
    trial = strict(exported(ledger, ExportFormat.JSON))[0]
    assert trial["created_at"].endswith("+00:00")
    with ledger.read() as session:
        stored = reads.get_trial(session, "s1-t0").trial.created_at
    assert datetime.fromisoformat(trial["created_at"]).timestamp() == pytest.approx(stored)


def test_csv_has_a_column_for_everything_any_trial_has(ledger: Ledger) -> None:
    three_trials(ledger)
    rows = list(csv.DictReader(io.StringIO(exported(ledger, ExportFormat.CSV).decode())))
    assert [row["params.lr"] for row in rows] == ["0.001", "1", "auto"]
    assert rows[1]["params.name"] == 'a,b\n"c"'
    assert [row["scores.search.loss"] for row in rows] == ["1.5", "", ""]
    assert [row["non_finite"] for row in rows] == ["", "metrics.loss=inf", ""]


def test_parquet_has_types(ledger: Ledger) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    three_trials(ledger)
    table = parquet.read_table(io.BytesIO(exported(ledger, ExportFormat.PARQUET)))
    columns = table.to_pydict()
    assert columns["number"] == [0, 1, 2]
    assert columns["value"] == [1.5, None, None]
    assert columns["params.lr"] == ["0.001", "1", "auto"], "mixed types are text"
    assert columns["params.layers"] == [0, None, None]
    assert str(table.schema.field("value").type) == "double"


def test_parquet_takes_whole_numbers_of_any_size(sqlite_ledger: Ledger) -> None:
    """An import may bring what has more than 64 bits, or more digits than a float holds."""
    parquet = pytest.importorskip("pyarrow.parquet")
    study = driven(sqlite_ledger)
    study.record(study.proposed(0, params={"long": 2**70, "wide": 2**60 + 1}))
    study.record(study.proposed(1, params={"long": 1, "wide": 0.5}))
    study.record(study.proposed(2))
    table = parquet.read_table(io.BytesIO(exported(sqlite_ledger, ExportFormat.PARQUET)))
    assert table["params.long"].to_pylist() == [str(2**70), "1", None]
    assert table["params.wide"].to_pylist() == [float(2**60 + 1), 0.5, None]


def test_parquet_without_pyarrow_says_what_to_install(
    sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven(sqlite_ledger)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with sqlite_ledger.read() as session, pytest.raises(InvalidInput, match=r"arl\[parquet\]"):
        export_trials(session, "s1", ExportFormat.PARQUET, io.BytesIO())


def test_a_study_without_trials_exports_nothing(sqlite_ledger: Ledger) -> None:
    pytest.importorskip("pyarrow")
    driven(sqlite_ledger)
    with sqlite_ledger.read() as session:
        for form in ExportFormat:
            assert export_trials(session, "s1", form, io.BytesIO()) == 0
        destination = io.BytesIO()
        export_trials(session, "s1", ExportFormat.JSON, destination)
        assert json.loads(destination.getvalue()) == []
        with pytest.raises(NotFound):
            export_trials(session, "nobody", ExportFormat.CSV, io.BytesIO())


def test_a_lineage_names_everything_a_candidate_was_made_of(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(InputsFrozen(inputs={"base": "a" * 64, "train": "e" * 64}, report={}))
    study.whole_trial(0, 3.0)
    study.record(study.proposed(1, parent_id="s1-c0", rationale="lower rate"))
    study.record(study.ended(1, TrialState.PROPOSED))
    study.record(study.family(1, candidates=("s1-c0",)))
    study.whole_trial(
        2,
        2.5,
        kind=TrialKind.REPLAY,
        verdict=Verdict.MEASURED,
        of_candidate=0,
        family_id="s1-f1",
    )
    study.record(study.promotion(0))
    with ledger.read() as session:
        parent = lineage(session, "s1-c0")
        child = lineage(session, "s1-c1")
        with pytest.raises(NotFound):
            lineage(session, "nobody")
    assert [(node.kind, node.id) for node in parent if node.kind is not NodeKind.ARTIFACT] == [
        (NodeKind.STUDY, "s1"),
        (NodeKind.INPUT, f"base:{'a' * 64}"),
        (NodeKind.INPUT, f"train:{'e' * 64}"),
        (NodeKind.CANDIDATE, "s1-c0"),
        (NodeKind.TRIAL, "s1-t0"),
        (NodeKind.EVALUATION, "s1-t0:search"),
        (NodeKind.TRIAL, "s1-t2"),
        (NodeKind.EVALUATION, "s1-t2:search"),
        (NodeKind.FAMILY, "s1-f1"),
        (NodeKind.PROMOTION, "demo-model:1"),
    ]
    assert [n.id for n in child if n.kind is NodeKind.CANDIDATE] == ["s1-c0", "s1-c1"]
    for nodes in (parent, child):
        assert_ordered(nodes)


def assert_ordered(nodes: list[LineageNode]) -> None:
    seen: set[str] = set()
    for node in nodes:
        assert set(node.came_from) <= seen, f"{node.id} comes before what it was made of"
        seen.add(node.id)
