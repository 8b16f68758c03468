"""An adapter in a running server: loaded, gated, kept or taken out, whatever the server does."""

import fcntl
import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ledger import reads, serving
from ledger.database import open_ledger
from ledger.service_entries import ServingFailed
from tests.cli_runs import Arl, Done, interrupt
from tests.served_models import (
    HOLDOUT_ITEMS,
    MARGIN,
    SEARCH_ITEMS,
    Behaviour,
    Here,
    ModelServer,
    drips,
    model_server,
    sends,
)

WORST, BEST, BETTER = "adders/5", "adders/7", "adders/8"
"""Trials whose models answer 55, 90 and 70 of a hundred questions rightly."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as opened:
        yield opened


class Serving:
    """`arl serve-model --into`, always under the name of the test."""

    def __init__(self, here: Here, name: str) -> None:
        self.arl, self.run, self.name = here.arl, here.run, name

    def into(self, server: ModelServer, subject: str, *more: str) -> Done:
        words = ["serve-model", subject, "--into", server.url, "--as", self.name]
        return self.run(*words, "--margin", MARGIN, "--json", *more)

    def restore(self, server: ModelServer, *more: str) -> Done:
        return self.run(
            "serve-model", self.name, "--into", server.url, "--restore", "--json", *more
        )

    def recorded(self) -> tuple[str, int] | None:
        """Who has the name, and how often it was set."""
        ledger = open_ledger(self.arl.home / "ledger.db", create=False)
        try:
            with ledger.read() as session:
                found = serving.find_served(session, self.name)
        finally:
            ledger.close()
        return None if found is None else (found.entry.served_as, found.entry.seq)

    def findings(self) -> list[str]:
        """What `arl verify` says, stored answers included."""
        return [f["problem"] for f in json.loads(self.run("verify", "--json").out)["findings"]]

    def failures(self) -> list[str]:
        ledger = open_ledger(self.arl.home / "ledger.db", create=False)
        try:
            with ledger.read() as session:
                found = reads.list_entries(session, "service", limit=10_000)
        finally:
            ledger.close()
        mine = [e.payload for e in found if e.kind == ServingFailed.kind]
        return [str(p["stage"]) for p in mine if p["name"] == self.name]


@pytest.fixture
def serve(
    adders: Arl,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Serving:
    name = request.node.name.replace("test_", "").translate(str.maketrans("[]_/", "----"))
    return Serving(Here(adders, monkeypatch, capsys), name[:80].strip("-"))


def kept(done: Done) -> Any:
    assert done.code == 0, done.err
    document = done.json()
    assert document["kept"]
    return document


def test_what_passes_takes_the_name_and_what_is_worse_is_taken_out(
    serve: Serving, server: ModelServer
) -> None:
    first = kept(serve.into(server, BETTER))
    assert [c["against"] for c in first["comparisons"]] == ["recorded"]
    assert first["items"] == SEARCH_ITEMS
    assert set(server.adapters) == {serve.name, first["served_as"]}

    second = kept(serve.into(server, "adder"))
    assert [c["against"] for c in second["comparisons"]] == ["incumbent", "recorded"]
    assert second["items"] == HOLDOUT_ITEMS, "what went through the gate is asked the holdout"
    assert second["comparisons"][0]["difference"] == pytest.approx(1 / 6)
    assert second["comparisons"][1]["difference"] == pytest.approx(0.0, abs=1e-6)
    assert second["value"] == pytest.approx(0.917, abs=0.01)
    assert set(second["measured"]) == {"candidate", "incumbent"}
    for found in second["measured"].values():
        assert 0 < found["latency_p50_s"] <= found["latency_p95_s"]
        assert found["tokens_per_s"] > 0
    assert set(server.adapters) == {serve.name, second["served_as"]}, "the one before is gone"
    assert second["artifact"] in server.adapters[serve.name]

    worse = serve.into(server, WORST)
    assert worse.code == 1
    assert not worse.json()["passed"]
    assert "loses" in worse.json()["reason"]
    assert set(server.adapters) == {serve.name, second["served_as"]}
    assert serve.recorded() == (second["served_as"], 2)
    assert serve.findings() == []


def test_a_shadow_gate_never_switches_and_leaves_nothing(
    serve: Serving, server: ModelServer
) -> None:
    before = kept(serve.into(server, WORST))
    done = serve.into(server, BEST, "--shadow", "--split", "search")
    assert done.code == 0
    assert (done.json()["passed"], done.json()["kept"]) == (True, False)
    assert set(server.adapters) == {serve.name, before["served_as"]}
    assert serve.recorded() == (before["served_as"], 1)


def test_a_shadow_gate_takes_out_nothing_that_is_served_to_be_compared(
    serve: Serving, server: ModelServer
) -> None:
    shown = ("serve-model", BEST, BETTER, "--form", "adapter", "--json")
    words = serve.run(*shown).json()["argv"]
    modules = words[words.index("--lora-modules") + 1 :][:2]
    paths = [json.loads(module)["path"] for module in modules]
    names = [f"{serve.name}@{Path(path).parent.name[:12]}" for path in paths]
    server.adapters |= dict(zip(names, paths, strict=True))
    for subject in (BEST, WORST):
        done = serve.into(server, subject, "--shadow")
        assert not done.json()["kept"], done.err
        assert set(server.adapters) == set(names)


@pytest.mark.slow
def test_a_merged_model_is_gated_where_it_is_served_and_nowhere_loaded(
    serve: Serving, server: ModelServer
) -> None:
    words = (BEST, "--form", "full", "--shadow")
    assert serve.into(server, *words).code == 4, "no server was started with it"
    (model,) = serve.run("serve-model", BEST, "--as", serve.name, "--json").json()["models"]
    tree = serve.arl.home / "artifacts" / "trees" / model["artifact"]
    server.wholes = {serve.name: str(tree), model["own_name"]: str(tree)}
    done = serve.into(server, *words)
    assert done.code == 0, done.err
    assert [c["against"] for c in done.json()["comparisons"]] == ["recorded"]
    assert not done.json()["kept"]
    server.wholes[model["own_name"]] = str(serve.arl.place / "base")
    (serve.arl.place / "base" / "skill").write_text("0.5")
    assert serve.into(server, *words).code == 1, "what is served computes something else"
    assert (server.adapters, serve.recorded()) == ({}, None)


@pytest.mark.slow
def test_what_is_served_already_is_not_served_again(serve: Serving, server: ModelServer) -> None:
    kept(serve.into(server, BETTER))
    again = serve.into(server, BETTER)
    assert again.code == 4
    assert "already" in again.err


def test_restoring_puts_the_recorded_adapter_into_a_new_server(
    serve: Serving, server: ModelServer
) -> None:
    before = kept(serve.into(server, BETTER))
    with model_server() as other:
        refused = serve.into(other, BEST)
        assert refused.code == 4
        assert "--restore" in refused.err, "a server without the incumbent is no place for a gate"
        restored = serve.restore(other).json()
        assert restored["restored"]
        assert set(other.adapters) == {serve.name, before["served_as"]}
        assert serve.recorded() == (before["served_as"], 2)
        assert not serve.restore(other).json()["restored"], "it is there"


def test_a_name_without_a_record_is_not_restored(serve: Serving, server: ModelServer) -> None:
    done = serve.restore(server)
    assert (done.code, server.adapters) == (3, {})


def dies(server: ModelServer) -> Behaviour:
    """The server is gone in the middle of a request: for good, and its adapters with it."""

    def die(request: BaseHTTPRequestHandler) -> None:
        server.adapters.clear()
        for path in ("/health", "/v1/models", "/v1/load_lora_adapter", "/v1/completions"):
            server.instead[path] = hang_up
        hang_up(request)

    return die


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


@pytest.mark.parametrize(
    ("path", "nth", "stage"),
    [
        pytest.param("/v1/load_lora_adapter", 1, "load", marks=pytest.mark.slow),
        ("/v1/completions", 7, "gate"),
        ("/v1/load_lora_adapter", 2, "switch"),
    ],
)
def test_a_server_that_dies_leaves_the_record_with_the_incumbent(
    serve: Serving, server: ModelServer, path: str, nth: int, stage: str
) -> None:
    before = kept(serve.into(server, BETTER))
    server.instead[path] = nth_time(server, path, nth, dies(server))
    done = serve.into(server, BEST)
    assert done.code == 5
    assert "the server is gone" in done.err
    assert before["served_as"] in done.err
    assert "--restore" in done.err
    assert serve.recorded() == (before["served_as"], 1)
    assert serve.failures() == [stage]
    with model_server() as other:
        assert serve.restore(other).code == 0
        assert before["artifact"] in other.adapters[serve.name]


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_a_gate_that_is_ended_switches_nothing_and_leaves_nothing_for_long(
    serve: Serving, server: ModelServer, number: int
) -> None:
    before = kept(serve.into(server, BETTER))
    asked, go_on = threading.Event(), threading.Event()

    def block(request: BaseHTTPRequestHandler) -> None:
        asked.set()
        go_on.wait(30)
        hang_up(request)

    server.instead["/v1/completions"] = block
    words = ("serve-model", BEST, "--into", server.url, "--as", serve.name, "--margin", MARGIN)
    with serve.arl.start(*words) as process:
        assert asked.wait(60)
        done = interrupt(process, number)
        go_on.set()
    assert done.code == (130 if number != signal.SIGKILL else -number), done.err
    assert serve.recorded() == (before["served_as"], 1)
    left = set(server.adapters) - {serve.name, before["served_as"]}
    assert len(left) == (number == signal.SIGKILL)
    server.instead.clear()
    assert serve.into(server, WORST).code == 1
    assert set(server.adapters) == {serve.name, before["served_as"]}, "what was left is gone"
    attempts = serve.arl.home / "local" / "attempts"
    assert [path.name for path in attempts.iterdir() if "serving" in path.name] == []


@pytest.mark.slow
def test_one_gate_at_a_time_below_one_home(serve: Serving, server: ModelServer) -> None:
    folder = serve.arl.home / "serving"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = serve.into(server, BETTER)
    assert (done.code, server.asked) == (4, [])
    assert "at work" in done.err


def nth_time(server: ModelServer, path: str, nth: int, behaviour: Behaviour) -> Behaviour:
    """What happens at the nth request there; the others are answered."""
    count = 0

    def act(request: BaseHTTPRequestHandler) -> None:
        nonlocal count
        count += 1
        if count == nth:
            behaviour(request)
            return
        _, body = server.asked.pop()
        del server.instead[path]
        server.handle(request, body)
        server.instead.setdefault(path, act)

    return act


def test_a_switch_whose_answer_is_lost_is_taken_back(serve: Serving, server: ModelServer) -> None:
    before = kept(serve.into(server, BETTER))

    def load_and_hang_up(request: BaseHTTPRequestHandler) -> None:
        _, body = server.asked[-1]
        del server.instead["/v1/load_lora_adapter"]
        server.adapters[body["lora_name"]] = body["lora_path"]
        hang_up(request)

    where = "/v1/load_lora_adapter"
    server.instead[where] = nth_time(server, where, 2, load_and_hang_up)
    done = serve.into(server, BEST)
    assert done.code == 5
    assert before["artifact"] in server.adapters[serve.name]
    assert set(server.adapters) == {serve.name, before["served_as"]}
    assert serve.recorded() == (before["served_as"], 1)


HOSTILE: dict[str, tuple[str, Behaviour, str]] = {
    "page": ("/v1/completions", sends(200, b"<html>ok</html>", kind="text/html"), "not JSON"),
    "flood": ("/v1/completions", sends(200, b"x" * 10_000_000, kind="text/plain"), "larger than"),
    "drip": ("/v1/completions", drips, "completions"),
    "loaded": ("/v1/load_lora_adapter", sends(200, b"<html/>", kind="text/html"), "has none of"),
    "absent": ("/v1/load_lora_adapter", sends(404, b"Not Found", kind="text/plain"), "404"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_whatever_a_server_answers_is_bounded_and_changes_nothing(
    serve: Serving, server: ModelServer, what: str
) -> None:
    path, behaviour, said = HOSTILE[what]
    server.instead[path] = behaviour
    done = serve.into(server, BETTER, "--answer-timeout", "0.3")
    assert done.code == 5
    assert said in done.err
    assert "\x1b" not in done.err
    assert len(done.err) < 5000
    assert server.adapters == {}
    assert serve.recorded() is None


def test_answers_that_are_no_text_are_scored_as_wrong(serve: Serving, server: ModelServer) -> None:
    said = {
        "choices": [{"text": "\ud800 1 {}", "index": 0, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 1},
    }
    body = json.dumps(said).encode()
    server.instead["/v1/completions"] = sends(200, body, kind="application/json")
    done = serve.into(server, BETTER)
    assert (done.code, done.json()["value"]) == (1, 0.0)
    assert server.adapters == {}


@pytest.mark.slow
def test_a_key_is_sent_and_a_server_that_wants_another_is_left_alone(
    serve: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARL_SECRET_VLLM", "right")
    with model_server(key="right") as server:
        refused = serve.into(server, BETTER)
        assert (refused.code, "401" in refused.err) == (5, True)
        done = serve.into(server, BETTER, "--secret", "ARL_SECRET_VLLM")
        assert kept(done)
        assert "right" not in done.err


def test_an_address_that_the_operator_does_not_allow_is_not_asked(
    serve: Serving, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARL_MODELS_ALLOW_PRIVATE", "0")
    done = serve.into(server, BETTER)
    assert (done.code, server.asked) == (2, [])
    assert "ARL_MODELS_ALLOW_PRIVATE" in done.err


@pytest.mark.slow
def test_what_an_earlier_gate_left_is_taken_out(serve: Serving, server: ModelServer) -> None:
    server.adapters[f"{serve.name}@0123456789ab"] = "/left"
    server.adapters["other@0123456789ab"] = "/others"
    document = kept(serve.into(server, BETTER))
    assert set(server.adapters) == {serve.name, document["served_as"], "other@0123456789ab"}


@pytest.mark.slow
def test_what_a_server_was_started_with_is_the_incumbent_until_it_is_beaten(
    serve: Serving, server: ModelServer
) -> None:
    artifact = kept(serve.into(server, BETTER))["artifact"]
    path = server.adapters[serve.name]
    with model_server() as fresh:
        name = f"{serve.name}-2"
        fresh.adapters = {name: path, f"{name}@{artifact[:12]}": path}
        started = dict(fresh.adapters)
        words = ("--into", fresh.url, "--as", name, "--margin", MARGIN, "--json")
        assert serve.run("serve-model", WORST, *words).code == 1
        assert fresh.adapters == started, "its own name was left by nobody"
        best = kept(serve.run("serve-model", BEST, *words))
        assert best["incumbent"] is None, "nobody recorded it"
        assert set(fresh.adapters) == {name, best["served_as"]}


@pytest.mark.slow
def test_a_server_that_serves_another_than_the_record_says_is_no_place_for_a_gate(
    serve: Serving, server: ModelServer
) -> None:
    before = kept(serve.into(server, BETTER))
    server.adapters[serve.name] = "/somebody/elses"
    done = serve.into(server, BEST)
    assert (done.code, "--restore" in done.err) == (4, True)
    assert server.adapters[serve.name] == "/somebody/elses"
    assert serve.restore(server).json()["restored"]
    assert before["artifact"] in server.adapters[serve.name]
    assert serve.recorded() == (before["served_as"], 2)


def test_a_whole_model_of_that_name_is_not_replaced(serve: Serving, server: ModelServer) -> None:
    server.wholes[serve.name] = "/models/whole"
    done = serve.into(server, BETTER)
    assert (done.code, server.adapters) == (4, {})


@pytest.mark.slow
def test_an_adapter_is_copied_to_where_the_server_sees_it(
    serve: Serving, server: ModelServer, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    assert serve.into(server, BETTER, "--share", str(share)).code == 2, "it is not there"
    share.mkdir()
    kept(serve.into(server, BETTER, "--share", str(share)))
    assert Path(server.adapters[serve.name]).parent == share.resolve()
    kept(serve.into(server, BEST, "--share", str(share)))


Wrong = tuple[tuple[str, ...], int, str]
WRONG: dict[str, Callable[[str], Wrong]] = {
    "margin": lambda url: (("adder", "--into", url, "--margin", "0"), 2, "--margin"),
    "split": lambda url: (("adder", "--into", url, "--split", "train"), 2, "--split"),
    "holdout": lambda url: ((BETTER, "--into", url, "--split", "holdout"), 2, "replay gate"),
    "url": lambda url: (("adder", "--into", "ftp://x"), 2, "--into"),
    "two": lambda url: (("adder", BETTER, "--into", url), 2, "one model"),
    "both": lambda url: (("adder", "--into", url, "--start"), 2, "exclude"),
    "form": lambda url: (("adder", "--into", url, "--form", "full"), 2, "takes adapters only"),
    "name": lambda url: (("adder", "--into", url, "--as", "a b"), 2, "--as"),
    "secret": lambda url: (("adder", "--into", url, "--secret", "PATH"), 2, "ARL_SECRET_"),
    "nobody": lambda url: (("nobody", "--into", url), 3, "nobody"),
    "number": lambda url: (("adder:7", "--into", url), 3, "1 to 1"),
    "extra": lambda url: (("adder", "--into", url, "--", "--dtype", "half"), 2, "--into"),
    "gone": lambda url: (("adder", "--into", "http://127.0.0.1:9"), 5, "127.0.0.1:9"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_names_itself_and_loads_nothing(
    serve: Serving, server: ModelServer, what: str
) -> None:
    words, code, said = WRONG[what](server.url)
    done = serve.run("serve-model", *words)
    assert done.code == code, done.err
    assert said in done.err
    assert server.adapters == {}
    assert serve.recorded() is None
