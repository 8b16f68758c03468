"""`arl plan` on the post-training system: verdict, implications, memory, sizing, exit codes."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli_runs import Arl

GRPO: dict[str, Any] = {
    "kind": "command",
    "argv": ["train"],
    "plan": {
        "stage": "online_rl",
        "trainer": "fsdp2",
        "parameterization": "lora",
        "rollout": "disaggregated",
        "train_precision": "bf16",
        "rollout_precision": "fp8",
        "correction": "tis",
        "deployment_quant": "awq_int4",
    },
}
SIZING = ("--prompts", "64", "--average-tokens", "2048", "--tokens-per-second", "10000")


@pytest.fixture
def arl(tmp_path: Path) -> Arl:
    return Arl(tmp_path)


def test_a_plan_is_judged_sized_and_explained(arl: Arl) -> None:
    file = arl.study(program=GRPO)
    found = arl.ok("plan", file, *SIZING, "--window", "20", "--json").json()
    assert (found["plan"]["optimizer"], found["plan"]["sync"]) == ("grpo", "full")
    assert "RLVR" in found["implies"]["called"]
    assert found["rollouts"]["gpus"] == 6
    assert found["rollouts"]["tokens"] == 64 * 8 * 2048
    assert found["memory"] is None
    made = found["configurations"]
    assert made["accelerate"]["distributed_type"] == "FSDP"
    assert made["trl"]["vllm_mode"] == "server"
    assert made["vllm"]["argv"][:3] == ["vllm", "serve", "MODEL"]
    words = " ".join(arl.ok("plan", file, *SIZING, "--window", "20").out.split())
    assert "64 prompts x 8 x 2048 tokens at 10000 tokens/s in 20 s need at least 6" in words
    assert "the exact verifier's version" in words
    assert "unknown: the study names no program.base" in words
    assert not arl.home.exists()


def test_a_wrong_plan_is_refused_like_any_key(arl: Arl) -> None:
    program = {**GRPO, "plan": {**GRPO["plan"], "correction": "none"}}
    file = arl.study(program=program)
    for verb in ("plan", "submit"):
        done = arl.run(verb, file, "--json")
        assert done.code == 2
        (problem,) = done.json()["error"]["problems"]
        assert problem["field"] == "program.plan.correction"
        assert problem["value"] == '"none"'
        rule = "BF16 trainer with FP8/INT8 rollouts needs an importance correction"
        assert problem["rule"] == rule
        assert problem["remedy"].startswith("write correction: tis")


def test_rollout_sizing_takes_four_positive_numbers_of_a_plan_with_rollouts(arl: Arl) -> None:
    file = arl.study(program=GRPO)
    done = arl.run("plan", file, *SIZING)
    assert (done.code, "--window" in done.err) == (2, True)
    done = arl.run("plan", file, *SIZING, "--window", "0")
    assert (done.code, "rate-model inputs must all be positive" in done.err) == (2, True)
    bare = arl.study("bare", file="bare.yaml")
    done = arl.run("plan", bare, *SIZING, "--window", "20")
    assert (done.code, "states no program.plan" in done.err) == (2, True)
    assert arl.ok("plan", bare, "--json").json()["plan"] is None


def test_the_sort_example_has_a_plan_without_saying_so(arl: Arl) -> None:
    arl.ok("init", "sort", "--example", "sort")
    found = arl.ok("plan", "sort/study.yaml", "--json").json()
    assert (found["plan"]["stage"], found["plan"]["trainer"]) == ("sft", "single")
    memory = found["memory"]
    assert memory["trained_parameters"] == 133_824
    state = memory["weights"] + memory["gradients"] + memory["optimizer"]
    assert state == 16 * memory["trained_parameters"]
    done = arl.run("plan", "sort/study.yaml", *SIZING, "--window", "20")
    assert (done.code, "stage sft has no rollouts" in done.err) == (2, True)


def test_a_budget_that_ends_before_the_search_is_no_success(arl: Arl) -> None:
    file = arl.study(budget={"trials": 3, "wall_time": "60s"})
    assert arl.ok("plan", file, "--trial-time", "10s", "--json").json()["search_trials"] == 3
    for more in ((), ("--json",)):
        done = arl.run("plan", file, "--trial-time", "50s", *more)
        assert done.code == 2
        assert "before the first search trial; write more" in done.err
