"""A rollout server that dies, freezes or refuses is noticed within seconds and named."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from inner_trials import contract
from inner_trials.actors import AdapterActors
from inner_trials.failures import ActorsLost
from inner_trials.rollout_server import Server
from inner_trials.settings import SettingsError
from tests.integration.fake_rollouts import Answer, Fake


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    yield made
    made.close()


def actors(fake: Fake, folder: Path, *, row_tokens: int = 64) -> AdapterActors:
    server = Server(f"{fake.url}/v1", patience_s=1.0)
    return AdapterActors(server, folder, {"max_tokens": 4}, row_tokens=row_tokens)


def test_a_server_that_nobody_started_is_lost_after_its_patience() -> None:
    fake = Fake()
    fake.close()
    since = time.monotonic()
    with pytest.raises(ActorsLost, match=r"the rollout server http://127\.0\.0\.1:\d+ is lost"):
        Server(fake.url, patience_s=0.5).wait_until_well()
    assert 0.5 <= time.monotonic() - since < 5.0


@pytest.mark.parametrize("said", [b"<html>", b"\xff", {"data": []}, {"models": 1}, [1]], ids=str)
def test_a_server_that_is_no_vllm_is_named(fake: Fake, tmp_path: Path, said: object) -> None:
    fake.answers["/v1/models"] = lambda _: (200, said)
    with pytest.raises(SettingsError, match=r"^options\.vllm_server: http://127.*/v1/models"):
        actors(fake, tmp_path)


@pytest.mark.parametrize(
    ("said", "version"),
    [({"version": "0.32.0"}, "0.32.0"), ([], None), (b"<html>", None)],
    ids=str,
)
def test_a_server_says_which_vllm_it_is_or_nothing(
    fake: Fake, said: object, version: str | None
) -> None:
    fake.answers["/version"] = lambda _: (200, said)
    assert Server(fake.url, patience_s=1.0).version() == version
    fake.answers["/version"] = lambda _: (404, "")
    assert Server(fake.url, patience_s=1.0).version() is None


def test_slow_work_is_waited_for_while_the_server_is_well(fake: Fake) -> None:
    def slowly(_: Any) -> Answer:
        time.sleep(3.0)
        return 200, "done"

    fake.answers["/v1/completions"] = slowly
    assert Server(fake.url, patience_s=1.0).ask("/v1/completions", {}) == '"done"'


def test_a_server_that_stands_still_in_the_middle_is_given_up(fake: Fake) -> None:
    still = threading.Event()

    def never(_: Any) -> Answer:
        still.wait(30.0)
        return 200, ""

    fake.answers["/v1/completions"] = fake.answers["/health"] = never
    since = time.monotonic()
    with pytest.raises(ActorsLost, match=r"for 1 s: "):
        Server(fake.url, patience_s=1.0).ask("/v1/completions", {})
    assert time.monotonic() - since < 8.0
    still.set()


def test_a_refusal_by_a_server_that_is_well_says_how_to_start_it(fake: Fake) -> None:
    fake.answers["/v1/load_lora_adapter"] = lambda _: (404, {"detail": "Not Found"})
    with pytest.raises(SettingsError, match=r"answers 404 .*VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
        Server(fake.url, patience_s=1.0).ask("/v1/load_lora_adapter", {})


def test_an_error_by_a_server_that_is_not_well_is_its_loss(fake: Fake) -> None:
    fake.answers["/v1/completions"] = fake.answers["/health"] = lambda _: (503, "dead")
    with pytest.raises(ActorsLost, match="503"):
        Server(fake.url, patience_s=1.0).ask("/v1/completions", {})


def test_a_server_for_shorter_rows_is_refused_at_the_start(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--max-model-len 65"):
        actors(fake, tmp_path, row_tokens=65)


def test_completions_come_back_in_the_order_of_their_prompts(fake: Fake, tmp_path: Path) -> None:
    asked = []

    def complete(body: Any) -> Answer:
        asked.append(body)
        choices = [
            {"index": n, "token_ids": [n], "logprobs": {"token_logprobs": [-0.5 * n]}}
            for n in (3, 0, 2, 1)
        ]
        return 200, {"model": body["model"], "choices": choices}

    fake.answers["/v1/completions"] = complete
    found = actors(fake, tmp_path).generate([[1], [1], [2], [2]], None, 2, nullcontext())
    assert found == (None, [[0], [1], [2], [3]], [[[0.0]], [[-0.5]], [[-1.0]], [[-1.5]]], None)
    assert (asked[0]["prompt"], asked[0]["n"], asked[0]["max_tokens"]) == ([[1], [2]], 2, 4)


def test_completions_of_another_model_are_not_learned_from(fake: Fake, tmp_path: Path) -> None:
    choice = {"index": 0, "token_ids": [1], "logprobs": {"token_logprobs": [0.0]}}
    answer = {"model": "another", "choices": [choice]}
    fake.answers["/v1/completions"] = lambda _: (200, answer)
    with pytest.raises(ActorsLost, match="gave 1 of another"):
        actors(fake, tmp_path).generate([[1]], None, 1, nullcontext())


def test_a_process_leaves_once_what_samples_for_it_is_dead() -> None:
    code = (
        "import subprocess, time; from inner_trials.actors import exit_once_gone;"
        " worker = subprocess.Popen(['sleep', '0.2']);"
        " exit_once_gone(lambda: worker.poll() is None, 'p'); time.sleep(60)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == contract.EXIT_ACTORS_LOST
    assert done.stderr == "p: the rollout worker is lost: its process ended\n"
