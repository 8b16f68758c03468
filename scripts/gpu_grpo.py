"""The GRPO part of the GPU check: a real study with vLLM beside a plain TRL script.

`study`, `plain_settings` and `problems` are pure; `run_study` and `run_plain` start processes.
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
SLOWER_AT_MOST: Final = 1.05
SAME_REWARD: Final = 0.08
"""Both sample: rewards of as many completions differ so much by chance alone."""
LAST: Final = 10
"""Rewards of so many last updates are compared."""
MISMATCH_AT_MOST: Final = 0.1
NAME: Final = "gpu-check"
TRIALS: Final = 3
"""Of the study: its baseline is run twice."""

Run = Callable[[Sequence[str], Mapping[str, str]], float]
"""Starts a process with more environment; returns its wall seconds, or raises RuntimeError."""

PLAIN: Final = """
import json, sys, time
settings = json.loads(sys.argv[1])
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

rates, rewards = [], []

class Meter(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        self.then, self.tokens = time.monotonic(), 0.0
    def on_log(self, args, state, control, logs=None, **_):
        if "num_tokens" in logs and "reward" in logs:
            now = time.monotonic()
            rates.append((logs["num_tokens"] - self.tokens) / (now - self.then))
            rewards.append(float(logs["reward"]))
            self.then, self.tokens = now, logs["num_tokens"]

tokenizer = AutoTokenizer.from_pretrained(settings["base"])
end = tokenizer.eos_token_id
rows = load_dataset("json", data_files=settings["train"], split="train").map(
    lambda r: {"prompt": [{"role": "user", "content": r["prompt"]}], "answer": r["completion"]},
    remove_columns=["completion"])

def exact(completions, completion_ids, answer, **_):
    return [float(ids[-1] == end and said[0]["content"].strip() == wanted)
            for said, ids, wanted in zip(completions, completion_ids, answer)]

set_seed(settings["seed"])
trainer = GRPOTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"), exact,
    args=GRPOConfig(output_dir=settings["output"], save_strategy="no", report_to=[],
                    disable_tqdm=True, gradient_checkpointing=False, seed=settings["seed"],
                    data_seed=settings["seed"],
                    logging_steps=1, **settings["config"]),
    train_dataset=rows, processing_class=tokenizer, callbacks=[Meter()],
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear",
                           task_type="CAUSAL_LM"))
trainer.train()
trainer.model.merge_and_unload().save_pretrained(settings["output"])
json.dump({"rates": rates, "rewards": rewards}, open(settings["result"], "w"))
"""

BUILD = """
import sys
from transformers import LlamaConfig, LlamaForCausalLM
path, hidden, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = LlamaConfig.from_pretrained(path)
config.update(dict(hidden_size=hidden, intermediate_size=4 * hidden, head_dim=64,
                   num_attention_heads=hidden // 64, num_key_value_heads=hidden // 64,
                   num_hidden_layers=layers))
LlamaForCausalLM(config).save_pretrained(path)
"""


@dataclass(frozen=True)
class Size:
    steps: int
    batch: int
    """Completions of an update."""
    group: int = 8
    learning_rate: float = 5e-4


@dataclass(frozen=True)
class Measured:
    tokens_per_s: float
    reward: float
    """Of the last updates."""
    wall_s: float


def study(size: Size, *, gpu: bool) -> dict[str, Any]:
    """The study file: a baseline of two runs and a proposal, each with a colocated vLLM."""
    sampling: dict[str, Any] = {"generation": "transformers"}
    if gpu:
        sampling = {"generation": "vllm_colocated", "vllm_memory_share": 0.2, "correction": "tis"}
    rate = size.learning_rate
    return {
        "name": NAME,
        "objective": {"metric": "exact_match", "direction": "maximize"},
        "program": {
            "kind": "grpo",
            "base": "base",
            "data": {"train": "data/train.jsonl"},
            "options": {
                "verifier": "exact",
                "parameterization": "lora",
                "precision": "bf16" if gpu else "fp32",
                "max_steps": size.steps,
                "per_device_train_batch_size": size.batch,
                "num_generations": size.group,
                "max_completion_length": 8,
                "max_length": 64,
                "rollout_mib": 0,
                **sampling,
            },
        },
        "space": {
            "learning_rate": {
                **{"type": "float", "low": rate / 2, "high": rate * 2, "log": True},
                "default": rate,
            }
        },
        "proposer": {"name": "random"},
        "evaluator": {
            "bundle": "evaluator",
            "splits": {"search": "search.jsonl"},
            "options": {"max_new_tokens": 8},
            "metrics": {"exact_match": {"low": 0, "high": 1}, "format_ok": {"low": 0, "high": 1}},
        },
        "noise": {"baseline_trials": 2},
        "resources": {"gpus": int(gpu), "cpus": 1, "wall_time": "5m"},
        "budget": {"trials": 1},
    }


def plain_settings(spec: Mapping[str, Any], work: Path, seed: int = 0) -> dict[str, Any]:
    """What the plain script is given: the baseline of the study in TRL's own words."""
    options = spec["program"]["options"]
    gpu = options["precision"] == "bf16"
    config: dict[str, Any] = {
        "max_steps": options["max_steps"],
        "per_device_train_batch_size": options["per_device_train_batch_size"],
        "num_generations": options["num_generations"],
        "max_completion_length": options["max_completion_length"],
        "learning_rate": spec["space"]["learning_rate"]["default"],
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 0,
        "beta": 0.0,
        "loss_type": "dapo",
        "bf16": gpu,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
    }
    if options["generation"] == "vllm_colocated":
        config |= {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": options["vllm_memory_share"],
            "vllm_max_model_length": options["max_length"],
            "vllm_importance_sampling_mode": "token_truncate",
            "vllm_importance_sampling_clip_max": 2.0,
        }
    return {
        "base": str(work / "base"),
        "train": str(work / "data" / "train.jsonl"),
        "output": str(work / "plain"),
        "result": str(work / "plain.json"),
        "seed": seed,
        "config": config,
    }


def measured(rates: Sequence[float], rewards: Sequence[float], wall_s: float) -> Measured:
    """Raises RuntimeError: nothing was reported."""
    if not rates or not rewards:
        raise RuntimeError("a run reported no tokens per second or no reward")
    # The first update holds compilation and allocation.
    return Measured(
        statistics.median(rates[1:] or rates), statistics.fmean(rewards[-LAST:]), wall_s
    )


def problems(
    ours: Measured, plain: Measured, mismatch: Sequence[float], scores: Sequence[float | None]
) -> list[str]:
    """What is not as it should be; nothing when all is well."""
    found = []
    slower = plain.tokens_per_s / ours.tokens_per_s
    if slower > SLOWER_AT_MOST:
        found.append(f"a token takes {slower:.3f} x the plain script's time")
    apart = abs(ours.reward - plain.reward)
    if apart > SAME_REWARD:
        found.append(f"the rewards of the last {LAST} updates are {apart:.3f} apart")
    if ours.reward == plain.reward == 0.0:
        found.append("nothing was rewarded, so there is nothing to compare")
    if mismatch and max(mismatch) > MISMATCH_AT_MOST:
        found.append(f"actor and trainer are {max(mismatch):.3f} apart (health/actor_mismatch)")
    if len(scores) < TRIALS or None in scores:
        found.append(f"the study scored {sum(s is not None for s in scores)} of {TRIALS} trials")
    return found


def run_study(
    spec: Mapping[str, Any], work: Path, run: Run
) -> tuple[Measured, list[float], list[float | None], int]:
    """`arl run` of the study: what its baseline reported, the mismatch of its actors, the score
    of each trial, and the baseline's seed."""
    from controller.settings import read_settings
    from controller.wiring import build_service
    from ledger.curves import read_values
    from ledger.study_reads import find_study
    from ledger.trial_pages import list_trials

    (work / "study.yaml").write_text(yaml.safe_dump(dict(spec)))
    home = {"ARL_HOME": str(work / ".arl"), "ARL_TARGET": "local"}
    arl = str(Path(sys.prefix) / "bin" / "arl")
    wall_s = run([arl, "run", str(work / "study.yaml")], home)
    service = build_service(read_settings(home), create=False)
    with service.ledger.read() as session:
        page = list_trials(session, find_study(session, NAME).id)
        trials = [item.trial for item in page.items]
        values = list(read_values(session, trials[0].id))
    by = {
        name: [v.value for v in values if v.metric == name]
        for name in ("train/tokens_per_s", "train/reward", "health/actor_mismatch")
    }
    ours = measured(by["train/tokens_per_s"], by["train/reward"], wall_s)
    return ours, by["health/actor_mismatch"], [trial.value for trial in trials], trials[0].seed


def run_plain(
    spec: Mapping[str, Any], work: Path, run: Run, python: str, *, seed: int
) -> Measured:
    settings = plain_settings(spec, work, seed)
    wall_s = run([python, "-c", PLAIN, json.dumps(settings)], {})
    found = json.loads(Path(settings["result"]).read_text())
    return measured(found["rates"], found["rewards"], wall_s)
