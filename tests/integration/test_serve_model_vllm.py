"""Trained adapters served by a real vLLM on a CPU: started, gated, switched, killed, put back.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from examples import demo_inputs
from inner_trials import demo_task
from tests.cli_runs import Arl, Done, arl_in, interrupt
from tests.vllm_server import NEEDS_VLLM, interpreter

pytestmark = [*NEEDS_VLLM, pytest.mark.train, pytest.mark.timeout(1800)]

NAME = "sorter"
WORST, GOOD, BEST = "sort/1", "sort/2", "sort/3"
START_S = 600.0
ON_A_CPU = ("--enforce-eager", "--dtype", "float32", "--max-model-len", "128")
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
STUDY = {
    "name": "sort",
    "objective": {"metric": "exact_match", "direction": "maximize"},
    "program": {
        "kind": "sft",
        "base": "base",
        "data": {"train": "data/train.jsonl"},
        "options": {
            "parameterization": "lora",
            "keep_adapter": True,
            "max_steps": 60,
            "per_device_train_batch_size": 32,
            "max_length": 64,
            "warmup_steps": 5,
        },
    },
    "space": {
        "learning_rate": {
            "type": "categorical",
            "choices": [1e-4, 1e-3, 1e-5],
            "default": 1e-5,
        }
    },
    "proposer": {"name": "grid"},
    "evaluator": {
        "bundle": "evaluator",
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "options": {"max_new_tokens": 8},
        "metrics": {"exact_match": {"low": 0, "high": 1}, "format_ok": {"low": 0, "high": 1}},
    },
    "noise": {"baseline_trials": 2},
    "resources": {"cpus": 1, "wall_time": "10m"},
    "budget": {"trials": 2},
}


@pytest.fixture(scope="module")
def arl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arl]:
    """A study of LoRA adapters that is over: the worst one, a good one, and the best."""
    with arl_in(tmp_path_factory.mktemp("sort")) as opened:
        demo_task.write_task(opened.place)
        demo_inputs.write_evaluator(opened.place / "evaluator", "exact_match")
        demo_inputs.teach(opened.place)
        (opened.place / "study.yaml").write_text(json.dumps(STUDY))
        with opened.start("run", "study.yaml") as process:
            out, err = process.communicate(timeout=1500)
        assert process.returncode == 0, f"{out}\n{err}"
        print(out[-2000:])
        yield opened


class Started:
    """A server that `arl serve-model --start` started and stands beside."""

    def __init__(
        self, arl: Arl, *words: str, options: Sequence[str] = ON_A_CPU, python: str = ""
    ) -> None:
        """`options` are vLLM's; `python` is the interpreter that has it, if not the usual one."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        began = time.monotonic()
        by = ("--start", "--python", python or str(interpreter()), "--port", str(self.port))
        self.process = arl.start(
            "serve-model", *words, *by, "--json", "--", *options, **ENVIRONMENT
        )
        self.document = self._read()
        print(f"{words}: well after {time.monotonic() - began:.0f} s")

    def _read(self) -> Any:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line == "}\n":
                break
        text = "".join(lines)
        assert self.process.poll() is None, f"{text}\n{self.process.communicate()}"
        return json.loads(text)

    def ask(self, model: str, digits: Sequence[str]) -> list[str]:
        """Through the chat endpoint, as a client does."""
        answers = []
        for number in digits:
            body = {
                "model": model,
                "messages": [{"role": "user", "content": f"sort {number}"}],
                "temperature": 0,
                "max_tokens": 8,
            }
            answer = self.request("/v1/chat/completions", body)
            answers.append(answer["choices"][0]["message"]["content"])
        return answers

    def models(self) -> dict[str, str]:
        return {card["id"]: card["root"] for card in self.request("/v1/models")["data"]}

    def request(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        asked = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    def vllm(self) -> int:
        """The process group of the server and all that it started."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        (guard,) = Path(children).read_text().split()
        return int(guard)

    def is_gone(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0

    def close(self) -> Done:
        return interrupt(self.process)


@contextmanager
def started(arl: Arl, *words: str, **more: Any) -> Iterator[Started]:
    server = Started(arl, *words, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.close()
        for pipe in (server.process.stdout, server.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def server(arl: Arl) -> Iterator[Started]:
    """With the good adapter as what is served at first."""
    with started(arl, GOOD, "--as", NAME, "--form", "adapter") as opened:
        yield opened


def into(arl: Arl, server: Started, subject: str, *more: str) -> Done:
    words = ("serve-model", subject, "--into", server.url, "--as", NAME, "--json", *more)
    with arl.start(*words) as process:
        out, err = process.communicate(timeout=600)
    done = Done(process.returncode, out, err)
    if done.out.startswith("{") and "passed" in done.out:
        found = done.json()
        print(subject, more, {k: found[k] for k in ("passed", "kept", "value", "measured")})
        print(json.dumps(found["comparisons"]))
    return done


DIGITS = ("31524", "90817", "55210")


def test_an_adapter_that_is_better_takes_the_name_and_a_worse_one_does_not(
    arl: Arl, server: Started
) -> None:
    first = server.models()
    assert server.document["names"][1:] == [
        NAME,
        f"{NAME}@{server.document['models'][0]['artifact'][:12]}",
    ]
    worse = into(arl, server, WORST)
    assert worse.code == 1, worse.err
    assert not worse.json()["passed"]
    assert server.models() == first

    shadow = into(arl, server, BEST, "--shadow").json()
    assert (shadow["passed"], shadow["kept"]) == (True, False)
    assert server.models() == first

    better = into(arl, server, BEST)
    assert better.code == 0, better.err
    document = better.json()
    assert document["kept"]
    against = {c["against"]: c for c in document["comparisons"]}
    assert against["incumbent"]["difference"] > 0.05
    assert abs(against["recorded"]["difference"]) < 0.01, "the evaluator and vLLM agree"
    assert document["artifact"] in server.models()[NAME]
    assert server.ask(NAME, DIGITS) == server.ask(document["served_as"], DIGITS)
    assert into(arl, server, WORST).code == 1, "the new incumbent is what is to be beaten"
    arl.ok("verify")


def test_a_server_that_is_killed_in_the_middle_leaves_the_record_and_is_restored(
    arl: Arl,
) -> None:
    with started(arl, GOOD, "--as", "other", "--form", "adapter") as first:
        words = ("serve-model", "--as", "other", "--json", "--margin", "0.05")
        kept = arl.ok(*words, BEST, "--into", first.url).json()
        assert len(first.models()) == 3, "the base, the name, and its own"
        process = arl.start(*words, WORST, "--into", first.url)
        wait_for(lambda: len(first.models()) == 4, "the candidate is loaded")
        os.killpg(first.vllm(), signal.SIGKILL)
        killed = time.monotonic()
        out, err = process.communicate(timeout=120)
        print(f"noticed after {time.monotonic() - killed:.1f} s: {err[-400:]}")
        assert process.returncode == 5, f"{out}\n{err}"
        assert "the server is gone" in err
        assert kept["served_as"] in err
        first.process.communicate(timeout=60)
        assert first.process.returncode == 5, "who started it says that it is gone"
    with started(arl, GOOD, "--as", "somebody", "--form", "adapter") as second:
        done = arl.ok("serve-model", "other", "--into", second.url, "--restore", "--json")
        assert done.json()["served_as"] == kept["served_as"]
        assert kept["artifact"] in second.models()["other"]
        assert second.ask("other", DIGITS) == second.ask(kept["served_as"], DIGITS)
    arl.ok("verify")


def wait_for(is_so: Any, what: str) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(urllib.error.URLError):
            if is_so():
                return
        time.sleep(0.02)
    raise AssertionError(f"not within 120 s: {what}")


def test_several_adapters_and_a_merged_model_are_served_and_all_ends_with_the_command(
    arl: Arl,
) -> None:
    with started(arl, GOOD, BEST) as both:
        names = [model["own_name"] for model in both.document["models"]]
        assert set(names) < set(both.models())
        assert both.document["configuration"]["max-loras"] == 3
        answers = {name: both.ask(name, DIGITS) for name in names}
        ended = both.close()
        assert ended.code == 0, ended.err
        assert both.is_gone()
    with started(arl, BEST, "--as", "whole") as merged:
        assert merged.document["models"][0]["form"] == "full"
        assert merged.ask("whole", DIGITS) == answers[names[1]]
        words = ("--into", merged.url, "--as", "whole", "--form", "full", "--shadow", "--json")
        judged = arl.ok("serve-model", BEST, *words).json()
        print(json.dumps(judged["comparisons"]), judged["measured"])
        assert judged["passed"]
        assert [c["against"] for c in judged["comparisons"]] == ["recorded"]
        group = merged.vllm()
        merged.process.kill()
        merged.process.communicate()
        wait_for(merged.is_gone, "vLLM is ended when the command is killed")
        wait_for(lambda: not alive(group), "nothing of it runs")


def alive(group: int) -> bool:
    """Whether anything of a process group runs that is not only waiting to be reaped."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                return True
    return False


def test_a_server_that_cannot_start_is_told_with_its_last_words(arl: Arl) -> None:
    python = ("--start", "--python", str(interpreter()))
    with arl.start("serve-model", BEST, *python, "--", "--no-such-option", **ENVIRONMENT) as run:
        out, err = run.communicate(timeout=START_S)
    assert run.returncode == 5, f"{out}\n{err}"
    assert "no-such-option" in err.splitlines()[-1]
