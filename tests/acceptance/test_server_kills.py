"""`arl serve` killed inside a request: who asks again with the same key gets one effect, and the
answer that the first one would have had."""

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.api.sweeping import UPLOADS_KEPT_S, sweep
from controller.worker.loop import Worker
from tests.acceptance import fault_study, figures, forked, promises
from tests.acceptance.fault_points import Point
from tests.acceptance.lab import GRID, evaluate, train
from tests.acceptance.served_lives import (
    Asked,
    LivesOfAServer,
    asked_again,
)
from tests.acceptance.shell_study import open_service, own_findings, submit, witness
from tests.acceptance.witness import Witness
from tests.api_runs import client_of
from tests.api_studies import remote_document, wait_for, working
from tests.integration.test_api_outside import ask, reported, serve_trials
from tests.integration.test_api_outside import submit as submit_reported
from tests.postgres_server import PostgresServer
from tests.target_runs import end_supervisor

ENQUEUED = 0.9
PROGRAMS: dict[str, Any] = {**GRID, "program": train(), "evaluator": evaluate()}


@dataclass
class World:
    """A ledger with something to be asked of, and every request that is made of it, in order."""

    base: Path
    environment: dict[str, str]
    requests: list[Asked] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.base / ".arl"

    def witness(self) -> Witness:
        return Witness(
            self.environment.get("ARL_LEDGER") or str(self.home / "ledger.db"), self.home
        )

    @contextmanager
    def server(self) -> Iterator[LivesOfAServer]:
        """Running; it is gone afterwards."""
        environment = {**self.environment, "ARL_HOME": str(self.home)}
        server = LivesOfAServer(self.base, environment)
        server.start()
        try:
            yield server
        finally:
            server.end()

    def run(self, work: Callable[[], None]) -> None:
        """In a process of its own, so that this one never has a ledger open when it forks."""
        code = forked.run(work, self.base / "output")
        assert code == 0, (self.base / "output").read_text()

    def work(self, *names: str) -> None:
        """Have a worker drive these studies until they have settled."""

        def working_on() -> None:
            fault_study.shorten()
            service = open_service(self.base, **self.environment)
            found = dict(self.witness().rows("SELECT name, id FROM studies"))
            Worker(service).run(only=[found[name] for name in names])
            service.close()

        self.run(working_on)


@pytest.fixture
def base() -> Iterator[Path]:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="arl-served-", dir=place))
    yield directory
    for home in directory.glob("**/.arl"):
        with suppress(OSError):
            end_supervisor(home / "local")
    shutil.rmtree(directory, ignore_errors=True)


def new_world(base: Path, **environment: str) -> World:
    """A study that waits to be begun, one that waits for an approval, and one of which an outside
    worker has a trial in hand."""
    base.mkdir()
    world = World(base, {"ARL_API_ALLOW_LOCAL": "1", **environment})
    world.run(lambda: _prepare(world))
    found = json.loads((base / "prepared.json").read_text())
    world.requests = [Asked(**one) for one in found]
    return world


def _prepare(world: World) -> None:
    fault_study.shorten()
    service = open_service(world.base, **world.environment)
    promotion = {"model": "toy", "profile": "quick", "alpha": 0.4, "approval": "required"}
    submit(
        service, world.base, **PROGRAMS, name="gated", noise={}, budget={"trials": 2},
        promotion=promotion,
    )  # fmt: skip
    world_ids = dict(witness(service).rows("SELECT name, id FROM studies"))
    Worker(service).run(only=[world_ids["gated"]])
    ((family,),) = witness(service).rows("SELECT id FROM families")
    with client_of(service) as client:
        outside = submit_reported(client, reported(name="outside", budget={"trials": 1}))
        with working(client):
            handed = ask(client, outside, "one")
        sent = remote_document(client, world.base / "sender", **{**PROGRAMS, "name": "sent"})
    small = {**PROGRAMS, "noise": {"baseline_trials": 2}, "budget": {"trials": 2}}
    submit(service, world.base, **small, name="asked")
    service.close()
    told = {"outcome": "complete", "metrics": {"score": 0.5}}
    requests = [
        _request("submit", "studies", {"study": {**sent, "budget": {"trials": 1}}}, status=201),
        _request("enqueue", "studies/asked/trials", {"params": {"x": ENQUEUED}}),
        _request("extend", "studies/asked/extend", {"trials": {"by": 1}}),
        _request("pause", "studies/asked/pause", {}),
        _request("resume", "studies/asked/resume", {}),
        _request("tell", f"trials/{handed['trial']}/tell", told, token=handed["token"]),
        _request("approve", f"promotions/{family}/approve", {}),
        _request("cancel", "studies/sent/cancel", {}),
    ]
    (world.base / "prepared.json").write_text(json.dumps(requests))


def _request(
    what: str, path: str, body: dict[str, Any], *, status: int = 202, token: str = ""
) -> dict[str, Any]:
    headers = {"Idempotency-Key": f"key-of-{what}"}
    if token:
        headers["Trial-Token"] = token
    kept = not token
    found = {"what": what, "path": path, "body": body, "headers": headers, "is_kept": kept}
    return {**found, "status": status if kept else 200}


AFTER_A_COMMIT = Point("after commit @ ", 0)


def live_through(
    world: World, chosen: Callable[[Asked], Point | None]
) -> tuple[Counter[str], list[float]]:
    """Make every request of a server that dies in it at the chosen point, and again of the next.
    How many died in each, and how long it took from the next one's start to its answer."""
    killed, times = Counter[str](), list[float]()
    with world.server() as server:
        for asked in world.requests:
            at = chosen(asked)
            if at is not None:
                killed[asked.what] += kill_in(server, asked, at)
                if asked.what == "approve":  # it is done before the client comes back
                    world.work("gated")
                started_at = time.monotonic()
                server.start()
            first = asked_again(server, asked)
            if at is not None:
                times.append(time.monotonic() - started_at)
            check_answers(asked, first, asked_again(server, asked))
    return killed, times


def kill_in(server: LivesOfAServer, asked: Asked, at: Point) -> bool:
    """Make the request of a server that dies in it; whether it came that far. It is gone."""
    server.arm(at)
    died = server.died(server.post(asked))
    server.end()
    return died


def check_answers(asked: Asked, first: httpx.Response, second: httpx.Response) -> None:
    assert (first.status_code, second.status_code) == (asked.status, asked.status), first.text
    if asked.is_kept:
        assert first.json() == second.json()
        assert second.headers["idempotency-replayed"] == "true"
    else:
        assert second.json()["repeated"] is True


def check_effects(world: World) -> None:
    """Each request came to its effect, once."""
    found = world.witness()
    names = Counter(name for (name,) in found.rows("SELECT name FROM studies"))
    assert names == Counter(("gated", "outside", "asked", "sent"))
    verbs = Counter(verb for (verb,) in found.rows("SELECT verb FROM commands"))
    assert verbs == Counter(("enqueue", "extend", "pause", "resume", "approve", "cancel"))
    routes = Counter(
        f.payload["route"] for f in found.facts("service") if f.kind == "request_made"
    )
    assert routes.pop("/studies") == 2, "one of them was sent beforehand"
    assert set(routes.values()) == {1}
    assert len(routes) == len([asked for asked in world.requests if asked.is_kept]) - 1


def check_ends(world: World) -> list[str]:
    """Have everything come to its end; what is wrong then."""
    world.run(lambda: _finish(world))
    found = world.witness()
    told = dict(found.rows("SELECT name, state FROM studies"))
    assert told == {
        "gated": "completed", "asked": "completed", "outside": "completed", "sent": "cancelled",
    }  # fmt: skip
    tried = "SELECT c.params FROM trials t JOIN candidates c ON c.id = t.candidate_id"
    searched = found.rows(
        f"{tried} JOIN studies s ON s.id = t.study_id WHERE s.name = 'asked' AND kind = 'search'"
    )
    xs = [json.loads(params)["x"] for (params,) in searched]
    assert (len(xs), xs.count(ENQUEUED)) == (3, 1)
    measured = "SELECT t.value FROM trials t JOIN studies s ON s.id = t.study_id"
    assert found.rows(f"{measured} WHERE s.name = 'outside' AND t.number = 0") == [(0.5,)]
    assert len(found.rows("SELECT candidate_id FROM incumbents")) == 1
    world.run(lambda: _judge(world))
    broken: list[str] = json.loads((world.base / "judged.json").read_text())
    return broken


def _finish(world: World) -> None:
    """With a worker, and the outside one, who goes on with the next trial."""
    fault_study.shorten()
    service = open_service(world.base, **world.environment)
    with client_of(service) as client, working(client):
        serve_trials(client, "outside", "one")
        for (study_id,) in witness(service).rows("SELECT id FROM studies WHERE name = 'asked'"):
            wait_for(client, study_id, "completed")
        for (study_id,) in witness(service).rows("SELECT id FROM studies WHERE name = 'sent'"):
            wait_for(client, study_id, "cancelled")
    service.close()


def _judge(world: World) -> None:
    service = open_service(world.base, **world.environment)
    ran = (world.base / "ran").read_text().split()
    sweep(service, now=time.time() + 2 * UPLOADS_KEPT_S)
    broken = [*promises.broken(witness(service), ran), *own_findings(service)]
    broken += [f"O: {left} is left" for left in (world.home / "uploads").glob("staged-*")]
    service.close()
    end_supervisor(world.home / "local")
    (world.base / "judged.json").write_text(json.dumps(broken))


def publish(where: str, points: int, killed: Counter[str], times: list[float]) -> None:
    figures.publish(
        f"server killed in a request: {where}",
        points=points,
        injected=killed.total(),
        requests=dict(killed),
        lost=0,
        duplicated=0,
        overrun=0,
        broken=0,
        **figures.spread(times),
    )


def test_a_server_killed_between_a_commit_and_its_answer_gives_that_answer_later(
    base: Path,
) -> None:
    world = new_world(base / "world")
    killed, _ = live_through(world, lambda _: AFTER_A_COMMIT)
    assert killed == Counter(asked.what for asked in world.requests)
    check_effects(world)
    assert check_ends(world) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_server_killed_at_any_point_of_a_request_is_asked_again(base: Path) -> None:
    points = points_of_each(new_world(base / "reference"))
    assert all(len(found) >= 2 for found in points.values()), "a commit is two"
    killed, times = Counter[str](), list[float]()
    for number in range(max(map(len, points.values()))):
        world = new_world(base / f"world-{number}")
        chosen = {what: found[number] for what, found in points.items() if number < len(found)}
        died, took = live_through(world, lambda asked, at=chosen: at.get(asked.what))  # type: ignore[misc]
        killed, times = killed + died, times + took
        check_effects(world)
        assert check_ends(world) == []
        shutil.rmtree(world.base)
    existing = {what: len(found) for what, found in points.items()}
    publish("every point", sum(existing.values()), killed, times)
    assert killed == Counter(existing), "some points were skipped"


def points_of_each(world: World) -> dict[str, list[Point]]:
    """The points of each request as an undisturbed server comes by them."""
    found: dict[str, list[Point]] = {}
    known = 0
    with world.server() as server:
        for asked in world.requests:
            assert server.post(asked) is not None
            if asked.what == "approve":
                world.work("gated")
            passed = [point.identity for point in server.points_of_requests()]
            seen = Counter[str]()
            for identity in passed[known:]:
                found.setdefault(asked.what, []).append(Point(identity, seen[identity]))
                seen[identity] += 1
            known = len(passed)
    return found


@pytest.mark.slow
@pytest.mark.postgres
def test_a_server_over_postgresql_killed_after_a_commit_gives_its_answer_later(
    base: Path, postgres_server: PostgresServer
) -> None:
    killed, times = Counter[str](), list[float]()
    for moment in (AFTER_A_COMMIT, Point("before commit @ ", 0)):
        address = postgres_server.new_ledger_url()
        world = new_world(base / moment.identity.partition(" ")[0], ARL_LEDGER=address)
        died, took = live_through(world, lambda _, at=moment: at)  # type: ignore[misc]
        assert died == Counter(asked.what for asked in world.requests)
        killed, times = killed + died, times + took
        check_effects(world)
        assert check_ends(world) == []
    publish("ledger on PostgreSQL, before and after the commit", killed.total(), killed, times)
