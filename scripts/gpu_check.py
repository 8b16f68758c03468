"""Trains on a GPU with the SFT program and with a real GRPO study, and compares each with a plain
TRL script.

SFT: a model of 200 million parameters, the same rows and settings, bf16. GRPO: a study of two
trials, whose completions a colocated vLLM samples (scripts/gpu_grpo.py). Reported: tokens per
second in the steady state, wall time of the whole process, last loss or reward. All of it ends
within DEADLINE_S, whatever happens.
Exit status: 0 fine; 1 a run failed, a program is more than 5 % slower, or learns otherwise;
2 no GPU was found, or no vLLM.
`--cpu` runs the same comparisons in small on the CPU, without vLLM, to try the script itself.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.demo_inputs import write_evaluator
from inner_trials import demo_task
from scripts import gpu_grpo

ROOT = Path(__file__).resolve().parent.parent
SLOWER_AT_MOST = 1.05
SAME_LOSS = 0.02
DEADLINE_S = 460.0
"""Of everything: under eight minutes."""
TEACH_STEPS = 150
"""Of SFT before GRPO, so that there is something to reward."""

PLAIN = """
import json, sys, time
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

settings = json.loads(sys.argv[1])
rates, losses = [], []

class Meter(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        self.then, self.tokens = time.monotonic(), 0.0
    def on_log(self, args, state, control, logs=None, **_):
        if "num_tokens" in logs and "loss" in logs:
            now = time.monotonic()
            rates.append((logs["num_tokens"] - self.tokens) / (now - self.then))
            losses.append(float(logs["loss"]))
            self.then, self.tokens = now, logs["num_tokens"]

def as_chat(row):
    return {"prompt": [{"role": "user", "content": row["prompt"]}],
            "completion": [{"role": "assistant", "content": row["completion"]}]}

rows = load_dataset("json", data_files=settings["train"], split="train").map(as_chat)
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"),
    SFTConfig(output_dir=settings["output"], max_steps=settings["steps"],
              per_device_train_batch_size=settings["batch"], learning_rate=1e-4,
              lr_scheduler_type="constant_with_warmup", warmup_steps=0, max_length=1024,
              bf16=settings["gpu"], use_cpu=not settings["gpu"],
              dataloader_pin_memory=settings["gpu"], gradient_checkpointing=False,
              activation_checkpointing=False, completion_only_loss=True, seed=0,
              logging_steps=settings["every"], save_strategy="no", report_to=[],
              disable_tqdm=True),
    train_dataset=rows,
    processing_class=AutoTokenizer.from_pretrained(settings["base"]),
    callbacks=[Meter()],
)
trainer.train()
trainer.save_model(settings["output"])
json.dump({"rates": rates, "losses": losses}, open(settings["result"], "w"))
"""


@dataclass(frozen=True)
class Size:
    hidden: int
    layers: int
    batch: int
    steps: int
    every: int
    learning_rate: float = 1e-4


ON_GPU = Size(hidden=1024, layers=12, batch=256, steps=150, every=15)
ON_CPU = Size(hidden=128, layers=2, batch=16, steps=40, every=10)
GRPO_MODEL = Size(hidden=512, layers=8, batch=0, steps=0, every=1)
TAUGHT = Size(hidden=0, layers=0, batch=64, steps=TEACH_STEPS, every=20, learning_rate=1e-3)
GRPO_ON_GPU = gpu_grpo.Size(steps=40, batch=256)
GRPO_ON_CPU = gpu_grpo.Size(steps=12, batch=32)


@dataclass(frozen=True)
class Measured:
    tokens_per_s: float
    wall_s: float
    last_loss: float


class Clock:
    """Gives each process what is left of the time."""

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s

    def measure(self, argv: Sequence[str], environment: Mapping[str, str]) -> float:
        """Wall seconds of a process. Raises RuntimeError with its output when it fails, or when
        there is no time left for it."""
        started = time.monotonic()
        try:
            done = subprocess.run(
                argv,
                cwd=ROOT,
                env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=max(0.1, self._until - started),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no time is left for {shown(argv)}") from None
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {shown(argv)}\n{done.stdout[-3000:]}")
        return time.monotonic() - started


def shown(argv: Sequence[str]) -> str:
    return " ".join(" ".join(argv).split())[:80]


def steady(rates: list[float]) -> float:
    """The first window holds warm-up (compilation, allocation); leave it out."""
    return statistics.median(rates[1:] or rates)


def run_program(folder: Path, size: Size, clock: Clock, *, gpu: bool) -> Measured:
    """`inner_trials.sft`, started as a target starts it."""
    (folder / "output").mkdir(parents=True)
    document = {
        "format": 1,
        "trial": "gpu-check",
        "kind": "train",
        "seed": 0,
        "inputs": {
            "base": str(folder.parent / "base"),
            "train": str(folder.parent / "data/train.jsonl"),
        },
        "workspace": str(folder),
        "output": str(folder / "output"),
        "resume": None,
        "options": {
            "max_steps": size.steps,
            "per_device_train_batch_size": size.batch,
            "learning_rate": size.learning_rate,
            "report_every": size.every,
            "precision": "bf16" if gpu else "fp32",
        },
        "parameters": {},
    }
    (folder / "params.json").write_text(json.dumps(document))
    reports = folder / "reports.jsonl"
    environment = {
        "ARL_PARAMS": str(folder / "params.json"),
        "ARL_REPORTS": str(reports),
        "ARL_OUTPUT": str(folder / "output"),
    }
    wall_s = clock.measure([sys.executable, "-P", "-m", "inner_trials.sft"], environment)
    values = [json.loads(line) for line in reports.read_text().splitlines()]
    rates = [v["value"] for v in values if v["metric"] == "train/tokens_per_s"]
    losses = [v["value"] for v in values if v["metric"] == "train/loss"]
    return Measured(steady(rates), wall_s, losses[-1])


def run_plain(folder: Path, size: Size, clock: Clock, *, gpu: bool) -> Measured:
    """The script a person would write with TRL alone."""
    folder.mkdir(parents=True)
    result = folder / "result.json"
    settings = {
        "base": str(folder.parent / "base"),
        "train": str(folder.parent / "data/train.jsonl"),
        "output": str(folder / "output"),
        "result": str(result),
        "steps": size.steps,
        "batch": size.batch,
        "every": size.every,
        "gpu": gpu,
    }
    wall_s = clock.measure([sys.executable, "-c", PLAIN, json.dumps(settings)], {})
    found = json.loads(result.read_text())
    return Measured(steady(found["rates"]), wall_s, found["losses"][-1])


def write_base(place: Path, size: Size, clock: Clock) -> None:
    """The demo's task with an untrained model of that size."""
    demo_task.write_task(place)
    base = str(place / "base")
    clock.measure(
        [sys.executable, "-c", gpu_grpo.BUILD, base, str(size.hidden), str(size.layers)], {}
    )


def compare_sft(work: Path, size: Size, clock: Clock, *, gpu: bool) -> list[str]:
    write_base(work, size, clock)
    plain = run_plain(work / "plain", size, clock, gpu=gpu)
    ours = run_program(work / "program", size, clock, gpu=gpu)
    table("last loss", ("inner_trials.sft", ours), ("plain TRL script", plain))
    found = []
    if (rate := plain.tokens_per_s / ours.tokens_per_s) > SLOWER_AT_MOST:
        found.append(f"SFT: a token takes {rate:.3f} x the plain script's time")
    if (wall := ours.wall_s / plain.wall_s) > SLOWER_AT_MOST:
        found.append(f"SFT: the process takes {wall:.3f} x the plain script's time")
    if (apart := abs(ours.last_loss - plain.last_loss) / plain.last_loss) > SAME_LOSS:
        found.append(f"SFT: the last losses are {apart:.2%} apart")
    return found


def compare_grpo(work: Path, size: gpu_grpo.Size, clock: Clock, *, gpu: bool) -> list[str]:
    write_base(work, GRPO_MODEL if gpu else ON_CPU, clock)
    write_evaluator(work / "evaluator", "exact_match")
    taught = run_program(work / "taught", TAUGHT, clock, gpu=gpu)
    print(f"base for GRPO: loss {taught.last_loss:.3f} after {TEACH_STEPS} steps of SFT")
    shutil.rmtree(work / "base")
    shutil.copytree(work / "taught" / "output" / "model", work / "base")
    spec = gpu_grpo.study(size, gpu=gpu)
    ours, mismatch, scores, seed = gpu_grpo.run_study(spec, work, clock.measure)
    plain = gpu_grpo.run_plain(spec, work, clock.measure, sys.executable, seed=seed)
    rows = [("its baseline, by arl", ours), ("plain TRL script", plain)]
    table("reward", *((n, Measured(m.tokens_per_s, m.wall_s, m.reward)) for n, m in rows))
    print(f"scores of the study's trials: {scores}; mismatch {max(mismatch, default=0.0):.2g}")
    return [f"GRPO: {text}" for text in gpu_grpo.problems(ours, plain, mismatch, scores)]


def table(last: str, *rows: tuple[str, Measured]) -> None:
    print(f"{'':24}{'tokens/s':>10}{'process s':>11}{last:>11}")
    for label, run in rows:
        print(f"{label:24}{run.tokens_per_s:10.0f}{run.wall_s:11.1f}{run.last_loss:11.4f}")


def check(*, gpu: bool) -> int:
    clock, found = Clock(DEADLINE_S), []
    with tempfile.TemporaryDirectory(prefix="arl-gpu-check-") as name:
        work = Path(name)
        size = ON_GPU if gpu else ON_CPU
        found += compare_sft(work / "sft", size, clock, gpu=gpu)
        grpo = GRPO_ON_GPU if gpu else GRPO_ON_CPU
        found += compare_grpo(work / "grpo", grpo, clock, gpu=gpu)
    for text in found:
        print(f"gpu-check: {text}", file=sys.stderr)
    return 1 if found else 0


def gpu_name() -> str:
    code = (
        "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="SFT and GRPO on a GPU against plain TRL.")
    parser.add_argument("--cpu", action="store_true", help="in small, without a GPU and vLLM")
    arguments = parser.parse_args()
    if arguments.cpu:
        return check(gpu=False)
    name = gpu_name()
    if not name:
        print(
            "gpu-check: no GPU was found (torch.cuda.is_available() is false). On a machine with "
            "one, install a CUDA build first: rm -rf .venv; make setup ARL_TORCH=cuda",
            file=sys.stderr,
        )
        return 2
    if importlib.util.find_spec("vllm") is None:
        print("gpu-check: no vLLM: .venv/bin/pip install 'arl[vllm]'", file=sys.stderr)
        return 2
    print(f"on {name}, bf16")
    return check(gpu=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        sys.exit(1)
