"""What the API shows of studies, trials, candidates, promotions and chains."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from controller.settings import read_settings
from controller.wiring import Service, build_service
from ledger import writes
from ledger.conversion_entries import ConversionEnded
from ledger.records import Json, Resource, TrialKind, Verdict
from ledger.states import ConversionState, Reason, StudyState, TrialState
from tests.api_runs import client_of, service_of
from tests.ledger_builders import Driven, driven, submit

API = "/api/v1"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = build_service(read_settings({"ARL_HOME": str(tmp_path)}), create=True)
    yield made
    made.close()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as made:
        yield made


@pytest.fixture
def study(service: Service) -> Driven:
    made = driven(service.ledger, budgets={Resource.TRIALS: 40.0})
    made.run_study()
    return made


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Over a study s1 without trials, to be read only."""
    home = tmp_path_factory.mktemp("quiet")
    made = build_service(read_settings({"ARL_HOME": str(home)}), create=True)
    driven(made.ledger).run_study()
    with client_of(made) as client:
        yield client
    made.close()


def strict(answer: Any) -> Any:
    """The document, which must be JSON as the standard means it."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert answer.status_code == 200, answer.text
    return json.loads(answer.content, parse_constant=refuse)


def numbers(page: Any) -> list[int]:
    return [item["number"] for item in page["items"]]


def every_page(client: TestClient, url: str, **query: Any) -> list[Any]:
    items: list[Any] = []
    while True:
        page = strict(client.get(url, params=query))
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        query["cursor"] = page["next_cursor"]


def test_the_list_of_studies_has_counts_budgets_and_the_last_event(
    client: TestClient, study: Driven
) -> None:
    for number in range(3):
        study.whole_trial(number, 0.5 - number / 10, verdict=Verdict.KEEP)
    study.record(study.proposed(3))
    listed = strict(client.get(f"{API}/studies"))["items"]
    assert len(listed) == 1
    row = listed[0]
    assert (row["trials"], row["total"]) == ({"complete": 3, "proposed": 1}, 4)
    assert row["best_value"] == pytest.approx(0.3)
    assert row["budgets"]["trials"]["limit"] == 40
    assert row["last_event"]["kind"] == "candidate_proposed"
    assert strict(client.get(f"{API}/studies"))["items"] == listed  # from what was counted
    study.whole_trial(4, 0.1)
    row = strict(client.get(f"{API}/studies"))["items"][0]
    assert (row["total"], row["best_value"]) == (5, 0.1)


def test_pages_of_studies_are_stable_while_others_are_submitted(
    client: TestClient, service: Service
) -> None:
    for n in range(5):
        submit(service.ledger, f"s{n}", name=f"study-{n}")
    first = strict(client.get(f"{API}/studies", params={"limit": 2}))
    submit(service.ledger, "s9", name="later")
    rest = every_page(client, f"{API}/studies", limit=2, cursor=first["next_cursor"])
    assert [row["study"] for row in [*first["items"], *rest]] == ["s4", "s3", "s2", "s1", "s0"]
    by_name = every_page(client, f"{API}/studies", limit=4, sort="name", order="asc")
    assert [row["name"] for row in by_name] == ["later", *(f"study-{n}" for n in range(5))]
    found = strict(client.get(f"{API}/studies", params={"text": "DY-3"}))["items"]
    assert [row["study"] for row in found] == ["s3"]
    assert strict(client.get(f"{API}/studies", params={"text": "%"}))["items"] == []
    assert strict(client.get(f"{API}/studies", params={"state": "running"}))["items"] == []


@pytest.mark.parametrize("cursor", ["x", "", "W10", "WyJuYW1lIiwxLDJd", "é", "WzEs", "A" * 3000])
def test_a_cursor_of_another_list_is_refused(quiet: TestClient, cursor: str) -> None:
    for url in ("studies", "studies/s1/trials", "promotions"):
        refused = quiet.get(f"{API}/{url}", params={"cursor": cursor})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


def test_trials_are_sorted_by_any_column_and_those_without_come_last(
    client: TestClient, study: Driven
) -> None:
    for number, value in enumerate([0.5, 0.1, 0.9, 0.3]):
        study.whole_trial(number, value)
    study.record(study.proposed(4, params={"lr": 0.5, "layers": 2}))
    url = f"{API}/studies/s1/trials"
    for sort, order, expected in (
        ("number", "desc", [4, 3, 2, 1, 0]),
        ("value", "asc", [1, 3, 0, 2, 4]),
        ("value", "desc", [2, 0, 3, 1, 4]),
        ("scores.loss", "desc", [2, 0, 3, 1, 4]),
        ("metrics.loss", "asc", [1, 3, 0, 2, 4]),
        ("params.lr", "desc", [4, 3, 2, 1, 0]),
    ):
        for limit in (1, 2, 5):
            listed = every_page(client, url, sort=sort, order=order, limit=limit)
            assert [item["number"] for item in listed] == expected, (sort, order, limit)
    row = strict(client.get(url, params={"limit": 1, "count": True}))
    assert row["total"] == 5
    assert row["items"][0]["scores"] == {"accuracy": 0.5, "loss": 0.5}
    assert row["items"][0]["metrics"] == {"loss": 0.5}
    assert row["items"][0]["attempts"] == 2


def test_trials_are_filtered_by_the_database(client: TestClient, study: Driven) -> None:
    for number, value in enumerate([0.5, 0.1, 0.9]):
        verdict = Verdict.KEEP if number == 1 else Verdict.DISCARD
        study.whole_trial(number, value, verdict=verdict)
    study.record(study.proposed(3, rationale="try 100% of A_B"), study.launching(3))
    study.record(study.started(3))
    study.record(study.ended(3, TrialState.RUNNING))

    def found(**query: Any) -> list[int]:
        return numbers(strict(client.get(f"{API}/studies/s1/trials", params=query)))

    assert found(outcome="kept") == [1]
    assert found(outcome=["kept", "failed"]) == [1, 3]
    assert found(state="failed") == found(reason="exit_nonzero") == [3]
    assert found(kind="baseline") == []
    assert found(where="value<0.6") == [0, 1]
    assert found(where=["value<0.6", "params.layers>=1"]) == [1]
    assert found(where="metrics.loss=0.9") == [2]
    assert found(where="scores.accuracy=0.5", state="complete") == [0, 1, 2]
    assert found(text="100% of a_b") == [3]
    assert found(text="0_0") == []
    assert found(proposer="random") == [0, 1, 2, 3]
    assert found(candidate="s1-c2") == [2]


@pytest.mark.parametrize(
    "query",
    [
        {"where": "value"},
        {"where": "value>nan"},
        {"where": "value>x"},
        {"where": "nothing=1"},
        {"where": ["value>1"] * 30},
        {"sort": "params.a b"},
        {"sort": "secret"},
        {"limit": 0},
        {"limit": 501},
        {"state": "sleeping"},
        {"unknown": 1},
        {"text": "\0"},
        {"candidate": "\0"},
    ],
)
def test_a_query_that_means_nothing_is_refused(quiet: TestClient, query: dict[str, Any]) -> None:
    refused = quiet.get(f"{API}/studies/s1/trials", params=query)
    assert (refused.status_code, refused.json()["status"]) == (422, 422)
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "url",
    [
        "studies/none",
        "studies/none/trials",
        "studies/none/plots/history",
        "studies/s1/trials/99",
        "trials/none",
        "trials/none/values",
        "trials/none/logs",
        "attempts/none/log",
        "candidates/none",
        "candidates/none/lineage",
        "candidates/none/patch",
        "promotions/none",
        "models/none/incumbents",
        "chains/none",
        "entries?chain=none",
        "studies/s1/model-calls/0",
        "artifacts/" + "0" * 64,
        "artifacts/" + "0" * 64 + "/../../x",
        "studies/%00",
        "trials/a%00b",
        "studies/..%2f..%2fetc%2fpasswd",
    ],
)
def test_what_is_not_there_is_not_found(quiet: TestClient, url: str) -> None:
    missing = quiet.get(f"{API}/{url}")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "/tmp" not in missing.text


def test_numbers_that_json_cannot_hold_are_null_and_named(
    client: TestClient, study: Driven
) -> None:
    study.record(study.proposed(0), study.launching(0))
    study.record(study.started(0))
    said = [(1, "loss", float("nan")), (2, "loss", 0.5), (2, "x", float("-inf"))]
    study.record(study.values(0, 0, [*said, (3, "loss", float("inf"))]))
    trial = strict(client.get(f"{API}/trials/s1-t0"))
    assert {v["metric"]: v["value"] for v in trial["latest"]} == {"loss": None, "x": None}
    assert trial["non_finite"] == [
        {"path": "latest/0/value", "value": "inf"},
        {"path": "latest/1/value", "value": "-inf"},
    ]
    row = strict(client.get(f"{API}/studies/s1/trials"))["items"][0]
    assert row["non_finite"] == [
        {"path": "metrics/loss", "value": "inf"},
        {"path": "metrics/x", "value": "-inf"},
    ]
    values = strict(client.get(f"{API}/trials/s1-t0/values", params={"metric": "loss"}))
    assert values["curves"][0]["values"] == [None, 0.5, None]
    assert values["curves"][0]["non_finite"] == {"0": "nan", "2": "inf"}
    assert values["metrics"] == ["loss", "x"]


def test_long_curves_are_sampled_and_keep_their_extremes(
    client: TestClient, study: Driven
) -> None:
    study.record(study.proposed(0), study.launching(0))
    study.record(study.started(0))
    said = [(n, "loss", 100.0 if n == 333 else (-100.0 if n == 777 else 1.0)) for n in range(1000)]
    study.record(study.values(0, 0, said))
    curve = strict(client.get(f"{API}/trials/s1-t0/values", params={"points": 20}))["curves"][0]
    assert (curve["sampled"], curve["of"]) == (True, 1000)
    assert len(curve["values"]) <= 20
    assert {100.0, -100.0} < set(curve["values"])
    assert curve["steps"] == sorted(curve["steps"])
    assert (curve["steps"][0], curve["steps"][-1]) == (0, 999)


def test_hostile_words_come_through_as_text(client: TestClient, study: Driven) -> None:
    words = "<script>alert(1)</script>\u202e\x1b[2J=HYPERLINK(1)"
    study.record(study.proposed(0, rationale=words, patch=words, params={"lr": "=1+1"}))
    shown = client.get(f"{API}/trials/s1-t0")
    assert strict(shown)["rationale"] == words
    assert shown.headers["content-type"] == "application/json"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert strict(client.get(f"{API}/candidates/s1-c0"))["patch"] == words
    assert strict(client.get(f"{API}/candidates/s1-c0/patch"))["files"] == []


def test_csv_has_every_trial_and_no_formula(client: TestClient, study: Driven) -> None:
    for number in range(3):
        study.whole_trial(number, number / 10)
    study.record(study.proposed(3), study.launching(3))
    study.record(study.started(3))
    study.record(study.values(3, 0, [(1, "=cmd", float("nan"))]))
    answer = client.get(f"{API}/studies/s1/trials.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["number"] for row in rows] == ["0", "1", "2", "3"]
    assert rows[3]["non_finite"] == "metrics.=cmd=nan"
    calculating = "=cmd|' /C calc'!A0"
    study.record(replace(study.ended(3, TrialState.RUNNING), detail=calculating))
    for path, end in (("trials.csv", ""), ("export", "?format=csv")):
        answer = client.get(f"{API}/studies/s1/{path}{end}")
        assert answer.headers["content-disposition"].startswith("attachment")
        rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
        assert rows[3]["detail"] == f"'{calculating}", path
    assert strict(client.get(f"{API}/studies/s1/export?format=json"))[3]["detail"] == calculating
    some = client.get(f"{API}/studies/s1/trials.csv", params={"where": "value>0.05"})
    assert len(some.text.splitlines()) == 3


def test_a_study_is_shown_whole_with_its_file_and_revisions(
    client: TestClient, study: Driven
) -> None:
    from ledger import entries as e

    study.whole_trial(0, 0.4, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    study.whole_trial(1, 0.3, verdict=Verdict.KEEP)
    with study.ledger.write() as session:
        from ledger import writes
        from ledger.records import CommandVerb

        asked = writes.insert_command(session, "s1", CommandVerb.EXTEND, {}, "someone")
    study.record(
        e.BudgetChanged(resource=Resource.TRIALS, limit=60.0),
        e.CommandApplied(
            command_id=asked,
            verb=CommandVerb.EXTEND,
            arguments={},
            actor="someone",
            refused=False,
            detail="",
        ),
    )
    shown = strict(client.get(f"{API}/studies/demo"))
    assert shown["study"] == "s1"
    assert shown["best"]["number"] == 1
    assert shown["counts"] == {"baseline": {"measured": 1}, "search": {"kept": 1}, "total": 2}
    assert shown["baseline"] == {"values": [0.4], "mean": 0.4}
    spec = strict(client.get(f"{API}/studies/s1/spec"))
    assert spec["spec"]["name"] == "demo"
    assert [(r["actor"], r["changes"]) for r in spec["revisions"]] == [
        ("someone", [{"field": "budget.trials", "before": 40.0, "after": 60.0}])
    ]


def test_promotions_show_their_runs_and_models_their_incumbents(
    client: TestClient, study: Driven
) -> None:
    study.whole_trial(0, 0.4, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    study.whole_trial(1, 0.3, verdict=Verdict.KEEP)
    study.record(study.family(candidates=("s1-c1",)))
    study.whole_trial(
        2,
        0.31,
        kind=TrialKind.REPLAY,
        verdict=Verdict.MEASURED,
        of_candidate=1,
        family_id="s1-f1",
    )
    listed = strict(client.get(f"{API}/promotions"))["items"]
    assert [(row["family"], row["study_name"]) for row in listed] == [("s1-f1", "demo")]
    assert strict(client.get(f"{API}/promotions?state=promoted"))["items"] == []
    shown = strict(client.get(f"{API}/promotions/s1-f1"))
    assert [(run["number"], run["values"]) for run in shown["runs"]] == [(2, {"search": 0.31})]
    assert set(shown["params"]) == {"s1-c1"}
    models = strict(client.get(f"{API}/models"))["items"]
    assert [(m["model"], m["incumbent"], m["families"]) for m in models] == [
        ("demo-model", None, 1)
    ]
    lineage = strict(client.get(f"{API}/candidates/s1-c1/lineage"))
    kinds = [node["kind"] for node in lineage["nodes"]]
    assert kinds[0] == "study"
    assert {"candidate", "trial", "artifact", "evaluation", "family"} <= set(kinds)


def test_a_candidate_shows_what_was_made_of_it_with_every_figure(
    client: TestClient, study: Driven
) -> None:
    study.whole_trial(1, 0.3, verdict=Verdict.KEEP)
    study.converted(2, of_candidate=1, source=1)
    report: dict[str, Json] = {"unconverted": {"token_s": 2.0}, "converted": {"token_s": 1.0}}
    study.record(
        ConversionEnded(
            conversion_id="s1-v1",
            new=ConversionState.REFUSED,
            reason=Reason.INFERIOR,
            detail="worse",
            artifact_digest="c" * 64,
            evidence={"measured": [report]},
        )
    )
    (made,) = strict(client.get(f"{API}/candidates/s1-c1"))["conversions"]
    assert (made["conversion"], made["state"], made["servable"]) == ("s1-v1", "refused", False)
    assert made["figures"] == [
        {"name": "token_s", "unconverted": 2.0, "converted": 1.0, "ratio": 0.5}
    ]
    nodes = strict(client.get(f"{API}/candidates/s1-c1/lineage"))["nodes"]
    assert nodes[-1]["kind"] == "conversion"
    kinds = [t["kind"] for t in strict(client.get(f"{API}/studies/s1/trials"))["items"]]
    assert "conversion" in kinds


def test_a_chain_is_recomputed_and_a_changed_entry_found(
    client: TestClient, study: Driven
) -> None:
    study.whole_trial(0, 0.4)
    whole = strict(client.get(f"{API}/chains/s1"))
    assert (whole["is_whole"], whole["verified_seq"]) == (True, whole["seq"])
    assert "trial_decided" in whole["kinds"]
    decided = strict(client.get(f"{API}/entries?chain=s1&kind=trial_decided"))["items"]
    before = strict(client.get(f"{API}/entries?chain=s1&after={decided[0]['seq'] - 2}&limit=1"))
    assert decided[0]["previous"] == before["items"][0]["digest"]
    down = strict(client.get(f"{API}/entries?chain=s1&order=desc&limit=2"))
    assert [entry["seq"] for entry in down["items"]] == [whole["seq"], whole["seq"] - 1]
    with service_of(client).ledger.write() as session:
        session.connection.execute(text("DROP TRIGGER IF EXISTS entries_refuse_update"))
        changed = session.connection.execute(
            text("UPDATE entries SET body = replace(body, '0.4', '0.9') WHERE chain = 's1'")
        )
        assert changed.rowcount
    with client_of(service_of(client)) as fresh:
        broken = strict(fresh.get(f"{API}/chains/s1"))
    assert broken["is_whole"] is False
    assert "digest" in broken["problem"]


def test_the_system_names_leases_and_no_path(client: TestClient, study: Driven) -> None:
    shown = strict(client.get(f"{API}/system"))
    assert shown["workers"][0]["leases"][0]["study"] == "s1"
    assert shown["studies"] == {"running": 1}
    assert "/tmp" not in json.dumps(shown)


def test_the_system_names_workers_that_wait_and_for_a_while_those_that_are_gone(
    client: TestClient, study: Driven
) -> None:
    def workers() -> dict[str, str]:
        return {w["owner"]: w["state"] for w in strict(client.get(f"{API}/system"))["workers"]}

    service = service_of(client)
    (drives,) = workers()
    lease_s = service.settings.lease_s
    with service.ledger.write() as session:
        for owner, ago_s in (("n/1/1", 0.0), ("n/2/2", 2 * lease_s), ("n/3/3", 11 * lease_s)):
            session.set_now(session.now() - ago_s)
            writes.see_worker(session, owner, "n", 1e9)
            session.set_now(session.now() + ago_s)
        writes.see_worker(session, drives, "n", 1e9)
    assert workers() == {drives: "driving", "n/1/1": "idle", "n/2/2": "gone"}
    with service.ledger.write() as session:
        session.connection.execute(text("UPDATE studies SET lease_expires_at = 1"))
        writes.forget_worker(session, "n/1/1")
        writes.forget_worker(session, drives)
    assert workers() == {drives: "gone", "n/2/2": "gone"}, "its study is still in its name"


def test_a_paused_study_says_by_whom(client: TestClient, study: Driven) -> None:
    study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.PAUSED_BY_OPERATOR)
    shown = strict(client.get(f"{API}/studies/s1"))
    assert (shown["state"], shown["paused_by"]) == ("paused", "operator")
