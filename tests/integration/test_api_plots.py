"""Plots of large, empty and awkward studies: small, honest about what they leave out, valid."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from benchmarks.bulk_ledger import Shape, fill
from benchmarks.service_reads import PLOTS
from controller.settings import read_settings
from controller.wiring import Service, build_service
from ledger.records import Verdict
from ledger.states import TrialState
from tests.api_runs import client_of
from tests.ledger_builders import Driven, driven

TRIALS = 5000


def plot(client: TestClient, study: str, name: str, **query: Any) -> Any:
    answer = client.get(f"/api/v1/studies/{study}/plots/{name}", params=query)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) <= 300_000

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(answer.content, parse_constant=refuse)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("large")
    service = build_service(read_settings({"ARL_HOME": str(home)}), create=True)
    fill(service.ledger, Shape(trials=TRIALS, steps=3))
    with client_of(service) as client:
        yield client
    service.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = build_service(read_settings({"ARL_HOME": str(tmp_path)}), create=True)
    yield made
    made.close()


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_of_many_trials_is_small_and_says_what_it_is_of(
    large: TestClient, name: str
) -> None:
    shown = plot(large, "bulk", name)
    metric = "m0" if name == "intermediate" else "score"
    assert (shown["study"], shown["metric"], shown["direction"]) == ("bulk", metric, "maximize")
    assert shown["of"] > 3500 or name == "intermediate"
    assert shown["sampled"] or name == "edf"


def test_history_keeps_every_improvement_the_worst_and_the_best(large: TestClient) -> None:
    shown = plot(large, "bulk", "history", points=300)
    points = shown["points"]
    assert len(points["number"]) <= 300
    listed = large.get(
        "/api/v1/studies/bulk/trials", params={"sort": "value", "order": "desc", "limit": 1}
    ).json()["items"][0]
    worst = large.get("/api/v1/studies/bulk/trials", params={"sort": "value", "limit": 1}).json()[
        "items"
    ][0]
    assert shown["best"]["number"][-1] == listed["number"]
    assert shown["best"]["value"][-1] == listed["value"]
    assert {listed["number"], worst["number"], *shown["best"]["number"]} <= set(points["number"])
    assert shown["best"]["value"] == sorted(shown["best"]["value"])
    marks = {shown["outcomes"][code] for code in shown["without_value"]["outcome"]}
    assert marks == {"pruned", "failed"}


def test_importances_find_what_the_value_depends_on(large: TestClient) -> None:
    shown = plot(large, "bulk", "importances")
    shares = {found["name"]: found["share"] for found in shown["importances"]}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    matters = ("p0", "p1", "optimizer", "layers")
    assert sum(shares[name] for name in matters) > 0.95
    assert max(shares, key=lambda name: shares[name]) in ("p0", "p1")


def test_a_front_is_of_trials_that_none_beats(large: TestClient) -> None:
    shown = plot(large, "bulk", "pareto")
    assert [axis["direction"] for axis in shown["objectives"]] == ["maximize", "minimize"]
    front = shown["front"]["scores"]
    everything = front + shown["others"]["scores"]
    for score, cost in front:
        assert not any(s > score and c < cost for s, c in everything)


def test_columns_are_as_long_as_their_trials(large: TestClient) -> None:
    shown = plot(large, "bulk", "parallel")
    count = len(shown["number"])
    assert {axis["name"] for axis in shown["axes"]} >= {"p0", "layers", "optimizer"}
    assert all(len(axis["values"]) == count for axis in shown["axes"])
    one = plot(large, "bulk", "slice", param="optimizer")
    assert [axis["categories"] for axis in one["axes"]] == [["adam", "sgd", "lion"]]
    assert set(one["axes"][0]["values"]) == {0, 1, 2}
    refused = large.get("/api/v1/studies/bulk/plots/contour", params={"x": "none"})
    assert refused.status_code == 422


def test_a_timeline_goes_back_page_by_page_and_no_slot_is_used_twice(large: TestClient) -> None:
    shown = plot(large, "bulk", "timeline")
    earlier = plot(large, "bulk", "timeline", before=shown["before"])
    seen = {row["trial"] for row in shown["rows"]}
    assert max(row["trial"] for row in earlier["rows"]) == min(seen) - 1
    ends: dict[int, str] = {}
    for row in shown["rows"]:
        assert ends.get(row["slot"], "") <= row["started_at"]
        ends[row["slot"]] = row["ended_at"]


def test_every_plot_of_no_trials_and_of_one_is_valid(service: Service, study: Driven) -> None:
    fill(service.ledger, Shape(study_id="one", trials=1))
    with client_of(service) as client:
        refused = client.get("/api/v1/studies/s1/plots/contour")
        assert refused.status_code == 422  # it has no two parameters
        for name in PLOTS:
            assert name == "contour" or plot(client, "s1", name)["of"] == 0
            plot(client, "one", name)


def test_every_plot_of_failed_and_unfinished_trials_is_valid(
    service: Service, study: Driven
) -> None:
    for number in range(3):
        study.record(study.proposed(number), study.launching(number))
        study.record(study.started(number))
    study.record(study.values(0, 0, [(1, "loss", float("nan")), (2, "loss", float("inf"))]))
    study.record(study.ended(0, TrialState.RUNNING))
    study.record(study.ended(1, TrialState.RUNNING, TrialState.PRUNED))
    with client_of(service) as client:
        shown = {name: plot(client, "s1", name) for name in PLOTS if name != "contour"}
    assert shown["history"]["without_value"]["number"] == [0, 1]
    assert shown["intermediate"]["curves"][0]["values"] == [None, None]
    assert shown["importances"]["why_empty"].startswith("trials with a value: 0;")


@pytest.fixture
def study(service: Service) -> Driven:
    made = driven(service.ledger)
    made.run_study()
    return made


def test_a_plot_sees_what_ended_since_it_was_last_drawn(service: Service, study: Driven) -> None:
    with client_of(service) as client:
        for number in range(4):
            study.whole_trial(number, 1.0 - number / 10, verdict=Verdict.KEEP)
            shown = plot(client, "s1", "history")
            assert shown["best"]["number"] == list(range(number + 1))
        arms = client.get("/api/v1/studies/s1/proposer").json()["arms"]
    assert [(arm["name"], arm["trials"], arm["share_of_wins"]) for arm in arms] == [
        ("random", 4, 1.0)
    ]


def test_reading_waits_for_no_writer(service: Service, study: Driven) -> None:
    study.whole_trial(0, 0.5)
    with client_of(service) as client, service.ledger.write():
        began = time.monotonic()
        for url in ("studies", "studies/s1", "studies/s1/trials", "studies/s1/plots/history"):
            assert client.get(f"/api/v1/{url}").status_code == 200
        assert time.monotonic() - began < 5  # the writer would be waited for thirty seconds
