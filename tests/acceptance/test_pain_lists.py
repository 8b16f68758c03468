"""Lists and plots of 20,000 trials over the API: what others' users reported about theirs (T24,
T28 to T32).

Work is counted in instructions of SQLite's machine, which no other load on the computer changes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from benchmarks.bulk_ledger import Shape, fill
from benchmarks.service_reads import PLOTS
from controller.settings import read_settings
from controller.wiring import Service, build_service
from tests.api_runs import client_of, service_of

FEW, MANY = 2000, 20_000
EACH = 100
GROWTH = 1.3
"""By which a page's work may grow while trials grow tenfold: an index gets a level deeper."""


class Work:
    """What SQLite did meanwhile."""

    def __init__(self) -> None:
        self.steps = 0
        self.statements: list[str] = []

    def step(self) -> int:
        self.steps += EACH
        return 0


@contextmanager
def counted(service: Service) -> Iterator[Work]:
    engine, work = service.ledger._engine, Work()

    def lent(connection: Any, *_: Any) -> None:
        connection.set_progress_handler(work.step, EACH)

    def returned(connection: Any, *_: Any) -> None:
        if connection is not None:
            connection.set_progress_handler(None, 0)

    def executed(*arguments: Any) -> None:
        work.statements.append(arguments[2])

    hooks = (("checkout", lent), ("checkin", returned), ("before_cursor_execute", executed))
    for name, hook in hooks:
        event.listen(engine, name, hook)
    try:
        yield work
    finally:
        for name, hook in hooks:
            event.remove(engine, name, hook)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home: Path = tmp_path_factory.mktemp("lists")
    service = build_service(read_settings({"ARL_HOME": str(home)}), create=True)
    for name, trials in (("few", FEW), ("many", MANY)):
        shape = Shape(study_id=name, name=name, trials=trials, metrics=3, steps=10, words=200)
        fill(service.ledger, shape)
    with client_of(service) as made:
        yield made
    service.close()


def read(client: TestClient, address: str) -> tuple[Any, Work]:
    """The second answer, when what is remembered is: a page is looked at again and again."""
    client.get(f"/api/v1/{address}")
    with counted(service_of(client)) as work:
        answer = client.get(f"/api/v1/{address}")
    assert answer.status_code == 200, answer.text
    return answer, work


def second_page(client: TestClient, address: str) -> str:
    cursor = client.get(f"/api/v1/{address}").json()["next_cursor"]
    return f"{address}&cursor={cursor}"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "&order=desc",
        "&sort=value&order=desc",
        "&sort=params.p3",
        "&sort=params.optimizer&order=desc",
        "&sort=metrics.m1&order=desc",
        "&sort=scores.cost",
        "&where=params.p0>0.2",
    ],
)
def test_a_page_of_20000_trials_takes_no_more_than_one_of_2000_and_reads_no_history(
    client: TestClient, query: str
) -> None:
    for turn in (str, second_page):
        steps: dict[str, int] = {}
        for study in ("few", "many"):
            address = f"studies/{study}/trials?limit=50{query}"
            address = address if turn is str else second_page(client, address)
            answer, work = read(client, address)
            steps[study] = work.steps
            assert len(answer.json()["items"]) == 50
            assert len(answer.content) < 100_000
            assert not [text for text in work.statements if "value_batches" in text]
            assert len(work.statements) < 20
        assert steps["many"] < GROWTH * steps["few"] + 20 * EACH, steps


def test_news_of_20000_trials_take_no_more_than_of_2000(client: TestClient) -> None:
    steps = []
    for study in ("few", "many"):
        head = client.get(f"/api/v1/studies/{study}/events?limit=1").json()["head_seq"]
        answer, work = read(client, f"studies/{study}/events?since={head - 5}")
        assert [entry["seq"] for entry in answer.json()["items"]] == list(
            range(head - 4, head + 1)
        )
        steps.append(work.steps)
    assert steps[1] < GROWTH * steps[0] + 20 * EACH


def test_studies_are_listed_with_their_counts_without_reading_their_trials(
    client: TestClient,
) -> None:
    answer, work = read(client, "studies")
    assert {study["name"]: study["total"] for study in answer.json()["items"]} == {
        "few": FEW,
        "many": MANY,
    }
    assert work.steps < 100 * EACH
    with counted(service_of(client)) as first:
        with client_of(service_of(client)) as fresh:
            assert fresh.get("/api/v1/studies").status_code == 200
    assert not [t for t in first.statements if "params" in t or "latest_values" in t]


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_of_20000_trials_is_small_and_says_what_it_left_out(
    client: TestClient, name: str
) -> None:
    answer, _ = read(client, f"studies/many/plots/{name}")
    shown = answer.json()
    assert len(answer.content) <= 300_000
    assert shown["sampled"] or name == "edf"
    assert shown["of"] > 0.7 * MANY


def test_what_is_looked_at_again_is_not_read_again(client: TestClient) -> None:
    for name in ("", "/plots/history", "/plots/parallel", "/plots/importances", "/plots/edf"):
        _, work = read(client, f"studies/many{name}")
        assert work.steps < 100 * EACH, name


def test_looking_at_everything_holds_up_no_writer(client: TestClient) -> None:
    service = service_of(client)
    with service.ledger.write() as session:
        assert session.now() > 0
        for address in ("studies", "studies/many", "studies/many/trials", "studies/many/events"):
            assert client.get(f"/api/v1/{address}").status_code == 200
