"""Every secret that ARL knows of, a canary each, through studies of every kind: afterwards none is
anywhere but where it belongs."""

import io
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from controller.api.tokens import Scope, give_token_of
from controller.client import Client
from ledger.database import open_ledger
from ledger.errors import Conflict
from tests import model_endpoint as m
from tests.acceptance.llm_study import changes_rate, proposer
from tests.acceptance.shell_study import document, write_evaluator
from tests.acceptance.test_patched_trials import EVALUATE, RATE
from tests.acceptance.test_patched_trials import TRAIN as TRAIN_PATCHED
from tests.api_crawl import Crawl
from tests.canaries import Canaries, ProcessWatch, escaped, files_below, tables_of
from tests.cli_runs import Arl, Done
from tests.http_runs import job_server
from tests.postgres_server import PostgresServer
from tests.serve_runs import Served, served
from tests.target_runs import end_supervisor, require_bubblewrap
from tests.webhook_receiver import Receiver, answers, receiving

WIDE = "for p in /proc/[0-9]*; do cat $p/environ $p/cmdline 2>/dev/null; done | tr '\\0' '\\n'"
"""What a program in a sandbox may see of others: everything that is there."""
UPWARDS = (
    "p=$$; while [ ${p:-0} -gt 1 ]; do cat /proc/$p/environ /proc/$p/cmdline | tr '\\0' '\\n'; "
    "p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$p/status); done"
)
"""Without one it may read the controller itself: it is looked at what it was given."""
NOTHING_OF = {"/api/v1/studies/{study}/plots/contour"}
"""Operations that none of these studies has something for: one with two parameters."""


@dataclass
class World:
    """A served ledger, whoever it speaks to, and all that is said."""

    base: Path
    server: Served
    ledger: str
    token: str
    canaries: Canaries
    endpoint: m.ModelEndpoint
    hooks: Receiver
    processes: ProcessWatch
    target: str
    commands: list[Done] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.base / ".arl"

    @property
    def has_promoted(self) -> bool:
        """And signed what it promoted."""
        return (self.home / "keys").exists()

    def http(self) -> httpx.Client:
        bearer = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.server.url, headers=bearer, timeout=30)

    def arl(self, *words: str, **more: str) -> None:
        own = {"ARL_LEDGER": self.ledger, "ARL_HOME": str(self.home), "ARL_SIGN": "1"}
        environment = {**self.canaries.environment, **own, **more}
        self.commands.append(Arl(self.base).run(*words, **environment))


def say(asked: m.Asked) -> m.Behaviour:
    """A model that repeats its key, in an error and in what it proposes."""
    key = asked.headers["authorization"]
    if asked.number == 0:
        return m.sends(500, json.dumps({"error": f"bad key {key}"}))
    return changes_rate(asked)


@pytest.fixture(
    scope="module",
    params=[
        "small",
        pytest.param("local", marks=[pytest.mark.slow]),
        pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap, pytest.mark.slow]),
        pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow]),
    ],
)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Everything has happened in it; in the small one nothing was promoted or sent elsewhere."""
    base = tmp_path_factory.mktemp("canaries")
    canaries = Canaries()
    ledger = f"sqlite:///{base / '.arl' / 'ledger.db'}"
    if request.param == "postgres":
        found: PostgresServer = request.getfixturevalue("postgres_server")
        ledger = with_password(found, canaries)
    if request.param == "bubblewrap":
        require_bubblewrap()
    is_small = request.param == "small"
    target = "bubblewrap" if request.param == "bubblewrap" else "local"
    token = new_token(ledger, canaries)
    with (
        m.model_endpoint(say) as endpoint,
        receiving(*([] if is_small else [answers(500)]), answers(204)) as hooks,
        served(base / ".arl", **environment(ledger, canaries)) as server,
        ProcessWatch(canaries) as processes,
    ):
        made = World(base, server, ledger, token, canaries, endpoint, hooks, processes, target)
        run_studies(made, is_small=is_small)
        yield made
    for name in ("local", "bubblewrap"):
        end_supervisor(base / ".arl" / name)


def with_password(server: PostgresServer, canaries: Canaries) -> str:
    """A ledger's address with one password where it usually is and one where libpq reads it."""
    url = server.new_ledger_url()
    user, query = ('pa"ss/1e7c9b2a4d6f+word', 'qu"ery/8a3f5c7d9e1b+word')
    canaries.add("password", user)
    canaries.add("password in the query", query)
    url = url.replace("arl@", f"arl:{quote(user, safe='')}@")
    return f"{url}&password={quote(query, safe='')}"


def new_token(ledger: str, canaries: Canaries) -> str:
    opened = open_ledger_at(ledger)
    _, token = give_token_of(
        opened, name="canary", scopes=[Scope.ADMIN], expires_in_s=None, actor="test"
    )
    opened.close()
    canaries.add("token", token)
    return token


def open_ledger_at(ledger: str) -> Any:
    if ledger.startswith("sqlite"):
        Path(ledger.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return open_ledger(ledger, create=True)


def environment(ledger: str, canaries: Canaries) -> dict[str, str]:
    here = ",".join(f"ARL_SECRET_{n}@127.0.0.1" for n in ("LLM", "HOOKS", "JOBS"))
    return {
        **canaries.environment,
        "ARL_LEDGER": ledger,
        "ARL_API_SECRETS": here,
        "ARL_ALLOW_UNSANDBOXED_PATCHES": "1",
        "ARL_MODELS_ALLOW_PRIVATE": "1",
        "ARL_NOTIFY_ALLOW_PRIVATE": "1",
        "ARL_HTTP_ALLOW_PRIVATE": "1",
        "ARL_LOG_LEVEL": "debug",
        "ARL_LOG_FORMAT": "json",
    }


def run_studies(world: World, *, is_small: bool) -> None:
    with Client(world.server.url, token=world.token) as client:
        asked = client.submit(outside(world)).study
        names = [asked, client.submit(asking(world, promotes=not is_small)).study]
        if not is_small:
            secret = world.canaries.environment["ARL_SECRET_JOBS"]
            with job_server(world.base / "jobs", secret=secret) as jobs:
                names.append(client.submit(on_a_job_service(world, jobs.url)).study)
                wait_for(client, names[-1:])
        serve_one_trial(client, asked, world.canaries)
        wait_for(client, names)
    world.hooks.wait_for(1 if is_small else 2)
    remember_own(world)


def wait_for(client: Client, studies: Sequence[str]) -> None:
    for study in studies:
        found = client.wait(study, timeout_s=120, every_s=0.1)
        assert str(found.state) == "completed", found.detail


def asking(world: World, *, promotes: bool) -> Path:
    """A model writes its patches, a webhook is told, the best is promoted and signed."""
    promotion = {"promotion": {"model": "toy", "profile": "quick"}} if promotes else {}
    base = world.base / "asking"
    (base / "program").mkdir(parents=True)
    (base / "program" / "rate.sh").write_text(RATE)
    (base / "brief.md").write_text("Raise RATE step by step.\n")
    chosen = proposer("llm_diff", world.endpoint.url)
    chosen["options"]["endpoints"][0]["secret"] = "ARL_SECRET_LLM"
    look = WIDE if world.target == "bubblewrap" else UPWARDS
    said = f'({look}) | tee /dev/stderr; {TRAIN_PATCHED}; ({look}) > "$ARL_OUTPUT/model/seen"'
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", said],
        "source": "./program",
        "mutable": ["rate.sh"],
        "mutable_reason": "rate.sh sets a number",
        "brief": "./brief.md",
    }
    evaluator = {
        "bundle": "./evaluator",
        "argv": ["/bin/sh", "-c", f"({look}); {EVALUATE}"],
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}, "cost": {}},
    }
    notify = [
        {"webhook": world.hooks.url + "/", "secret": "ARL_SECRET_HOOKS", "on": ["study_completed"]}
    ]
    return written(
        base,
        name="asking",
        target={"name": world.target},
        program=program,
        evaluator=evaluator,
        space={},
        proposer=chosen,
        notify=notify,
        budget={"trials": 2},
        noise={},
        **promotion,
    )


def on_a_job_service(world: World, url: str) -> Path:
    target = {"name": "http", "url": url, "secret": "ARL_SECRET_JOBS"}
    train = document()["program"]["argv"][2]
    program = {"kind": "command", "argv": ["/bin/sh", "-c", f"({UPWARDS}); {train}"]}
    return written(
        world.base / "remote",
        name="remote",
        target=target,
        program=program,
        noise={},
        budget={"trials": 1},
    )


def outside(world: World) -> Path:
    evaluator = {"mode": "reported", "metrics": {"score": {}}}
    return written(
        world.base / "outside",
        name="outside",
        target={"name": "outside"},
        evaluator=evaluator,
        noise={},
        budget={"trials": 1},
    )


def written(base: Path, **changes: Any) -> Path:
    base.mkdir(exist_ok=True)
    write_evaluator(base)
    file = base / "study.json"
    file.write_text(json.dumps(document(**changes)), encoding="utf-8")
    return file


def serve_one_trial(client: Client, study: str, canaries: Canaries) -> None:
    """Every trial there is, as an outside worker; their tokens are secrets, too."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            trial = client.ask(study, "one")
        except Conflict:  # it has ended
            return
        if trial is None:
            time.sleep(0.05)
            continue
        canaries.add("trial token", trial.handed.token)
        trial.report(1, {"score": 0.5}, log="working")
        trial.tell({"score": 0.5})
        time.sleep(0.1)


def remember_own(world: World) -> None:
    """What ARL drew itself: the key that signed the promotion, and the studies' own secrets."""
    for file in (world.home / "keys").glob("*"):
        lines = file.read_text().splitlines()
        if "PRIVATE" in lines[0]:
            world.canaries.add("signing key", lines[2])
    for place, value in tables_of(world.ledger):
        if place == "studies.secret":
            world.canaries.add("study secret", value.decode())


def test_no_secret_is_in_a_table_but_what_seeds_derive_from(world: World) -> None:
    found = escaped(tables_of(world.ledger), world.canaries)
    assert found == {"studies.secret": {"study secret"}}


def test_no_secret_is_in_a_file_but_the_key_that_signs(world: World) -> None:
    found = escaped(files_below(world.base), world.canaries)
    database = {place for place in found if place.startswith(".arl/ledger.db")}
    keys = {place for place in found if place.startswith(".arl/keys/")}
    assert {place: found[place] for place in found.keys() - database - keys} == {}
    assert all(found[place] == {"study secret"} for place in database)
    assert bool(keys) == world.has_promoted, "the scan finds what is there"


def test_no_answer_of_any_operation_holds_a_secret(world: World) -> None:
    with world.http() as client:
        crawl = Crawl(client, each=4 if world.has_promoted else 1)
        answers = crawl.run()
        told = [(a.address, _unpacked(a)) for a in answers]
        told += [(path, client.get(path).content) for path in ("/metrics", "/", "/studies/none")]
        told.append(("events", _some_of(client, "/api/v1/events?since=0")))
    assert escaped(iter(told), world.canaries) == {}
    assert {a.status for a in answers} <= {200, 404, 422}
    if world.has_promoted:
        assert crawl.unanswered() == NOTHING_OF


def test_nobody_who_is_told_or_asked_is_told_a_secret(world: World) -> None:
    asked = [(f"prompt {a.number}", json.dumps(a.body).encode()) for a in world.endpoint.asked]
    told = [(got.id, got.body + repr(got.headers).encode()) for got in world.hooks.got]
    assert asked
    assert told
    assert escaped(iter([*asked, *told]), world.canaries) == {}
    key = world.canaries.environment["ARL_SECRET_LLM"]
    assert {a.headers["authorization"] for a in world.endpoint.asked} == {f"Bearer {key}"}


def test_only_the_controller_was_started_with_secrets(world: World) -> None:
    own = (" -m controller.cli ", " -m examples.job_server ")  # each its own
    wrong = {
        (command, what): names
        for (_, what, command), names in world.processes.seen.items()
        if what == "cmdline" or not any(word in command for word in own)
    }
    assert wrong == {}
    assert world.processes.seen, "the watch sees what is there"


def test_a_secret_in_the_wrong_place_is_not_repeated(world: World) -> None:
    """Whoever writes one where its name belongs, or into an address, is told, not echoed."""
    key = world.canaries.environment["ARL_SECRET_UNUSED"]
    quoted = quote(key, safe="")
    said = []
    with world.http() as client:
        for number, study in enumerate(misplaced(key, quoted)):
            refused = client.post("/api/v1/studies", json={"study": study})
            checked = client.post("/api/v1/plans/validate", json={"study": study})
            said += [(f"{number} sent", refused.content), (f"{number} checked", checked.content)]
            assert refused.status_code == 422, (number, refused.text)
        for bearer in (key, f"arl_{key}"):
            answer = client.get("/api/v1/studies", headers={"Authorization": f"Bearer {bearer}"})
            said.append((f"bearer {bearer[:3]}", answer.content))
        said.append(("query", client.get(f"/api/v1/studies?token={quoted}").content))
        for token in (key, key * 9):
            said.append(("session", client.post("/api/v1/session", json={"token": token}).content))
        told = client.post("/api/v1/trials/t/tell", json={}, headers={"Trial-Token": key * 9})
        said.append(("trial token", told.content))
        said.append(("key", client.post("/api/v1/tokens", json={"name": 1, "token": key}).content))
    assert escaped(iter(said), world.canaries) == {}
    test_no_secret_is_in_a_table_but_what_seeds_derive_from(world)
    assert world.canaries.found_in(world.server.log().encode()) == set()


def misplaced(key: str, quoted: str) -> Iterator[dict[str, Any]]:
    """Studies with a key in each place that takes the name of one, or an address."""
    model: dict[str, Any] = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    places: list[dict[str, Any]] = [{**model, "secret": key}]
    for url in (f"http://u:{quoted}@h/v1", f"http://h/v1?api_key={quoted}", f"http://h:{quoted}"):
        places.append({**model, "url": url})
        yield document(target={"name": "http", "url": url, "secret": "ARL_SECRET_JOBS"})
        yield document(notify=[{"webhook": url}])
    for place in places:
        yield document(proposer={"name": "llm", "options": {"endpoints": [place]}})
    yield document(target={"name": "http", "url": "http://127.0.0.1:9", "secret": key})
    yield document(notify=[{"webhook": "http://127.0.0.1:9", "secret": key}])
    for storage in (f"s3://id:{quoted}@bucket/arl", f"s3://bucket/arl?secret_key={quoted}"):
        yield document(target={"name": "ray", "address": "auto", "storage": storage})
    address = f"ray://u:{quoted}@head:10001"
    yield document(target={"name": "ray", "address": address, "storage": "file:///mnt/x"})


@pytest.mark.slow
def test_no_command_says_a_secret(world: World) -> None:
    for words in (["doctor"], ["db", "check"], ["show", "last"], ["logs", "1"], ["models"]):
        world.arl(*words)
    world.arl("evidence", "toy", "--out", str(world.base / "evidence"))
    unreachable = "postgresql://arl:{0}@127.0.0.1:9/arl?password={0}".format(
        quote(world.canaries.environment["ARL_SECRET_UNUSED"], safe="")
    )
    for words in (["doctor"], ["db", "check"], ["db", "upgrade"], ["show", "last"]):
        world.arl(*words, ARL_LEDGER=unreachable, ARL_DEBUG="1")
    said = [
        (str(number), f"{done.out}{done.err}".encode())
        for number, done in enumerate(world.commands)
    ]
    assert escaped(iter(said), world.canaries) == {}


def _unpacked(answer: Any) -> bytes:
    """An answer's content with its headers; columns of a Parquet file as text."""
    content: bytes = answer.content
    if content[:4] == b"PAR1":
        import pyarrow.parquet

        content = str(pyarrow.parquet.read_table(io.BytesIO(content)).to_pydict()).encode()
    return content + repr(sorted(answer.headers.items())).encode()


def _some_of(client: httpx.Client, address: str) -> bytes:
    """What a stream says until it is silent."""
    found = b""
    try:
        with client.stream("GET", address, timeout=1.0) as stream:
            for piece in stream.iter_bytes():
                found += piece
    except httpx.ReadTimeout:
        pass
    return found
