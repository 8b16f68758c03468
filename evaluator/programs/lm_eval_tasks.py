"""Tasks of the lm-evaluation-harness from local YAML and JSON Lines.

Run as `python -I {bundle}/evaluate.py`. Inputs: `artifact` (a model's directory), `split` and
`bundle`, with `tokenizer/` and `tasks/`, the harness's YAML files, in which {split} is replaced by
the split's file. The harness runs in `python` (default: this one), offline. Scores: for each of
`tasks`, under its name, the mean of `metric`. Items: those of the first task.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evaluator.programs import exact_match, scoring
from evaluator.programs.scoring import Estimate, Inputs, Result

TAIL_CHARS: Final = 1500
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class Options:
    tasks: list[str] = field(default_factory=list)
    metric: str = "exact_match"
    filter: str = "none"
    """Of the task's filters, the one whose metric counts."""
    python: str = ""
    """An interpreter with lm-eval and transformers; empty: this one."""
    few_shot: int = 0
    batch_size: int = 64
    chat: bool = True
    """Ask through the frozen chat template."""
    dtype: str = "float32"
    timeout_s: float = 3600.0


def evaluate(options: Options, inputs: Inputs) -> Result:
    """Raises RuntimeError when the harness itself fails: that is no fault of the artifact's."""
    if not options.tasks:
        raise RuntimeError("options.tasks: name one or more tasks of the bundle's tasks/")
    if inputs.converted.get("method") == "keep":
        raise exact_match.RefusedError("lm-evaluation-harness loads no adapter; write merge: true")
    split = split_file(inputs.split)
    _, config = exact_match.check_artifact(inputs.artifact, converted=inputs.converted)
    with tempfile.TemporaryDirectory(dir=inputs.workspace) as scratch:
        root = Path(scratch)
        for name in ("model", "tasks", "results"):
            (root / name).mkdir()
        exact_match.stage_weights(inputs.artifact, config, root / "model")
        stage_tokenizer(inputs.bundle / "tokenizer", root / "model")
        stage_tasks(inputs, split, root / "tasks")
        run_harness(options, root)
        items = {task: read_items(root / "results", task, options) for task in options.tasks}
    return Result({task: Estimate(items[task]) for task in items}, items[options.tasks[0]])


def stage_tokenizer(frozen: Path, staged: Path) -> None:
    """Only the bundle's: what an artifact says about reading prompts is not trusted."""
    if not (frozen / "tokenizer.json").is_file():
        raise RuntimeError("the bundle has no tokenizer/ with a tokenizer.json")
    for name in TOKENIZER_FILES:
        if (frozen / name).is_file():
            shutil.copyfile(frozen / name, staged / name)


def split_file(split: Path) -> Path:
    """The one file of the split, once each of its lines is a JSON object: the harness would say
    where one is not in pages, and nothing of a second file.

    Raises:
        SetupError: it is not so.
    """
    scoring.read_rows(split)
    files = sorted(split.rglob("*.jsonl")) if split.is_dir() else [split]
    if len(files) > 1:
        raise exact_match.SetupError(
            f"{split.name}: {len(files)} .jsonl files, but a task's {{split}} is one; put the"
            " items into one file"
        )
    return files[0]


def stage_tasks(inputs: Inputs, split: Path, staged: Path) -> None:
    for path in sorted((inputs.bundle / "tasks").glob("*.yaml")):
        text = path.read_text(encoding="utf-8").replace("{split}", str(split))
        (staged / path.name).write_text(text, encoding="utf-8")


def run_harness(options: Options, root: Path) -> None:
    argv = [options.python or sys.executable, "-m", "lm_eval", "--model", "hf"]
    argv += ["--model_args", f"pretrained={root / 'model'},dtype={options.dtype}"]
    argv += ["--tasks", ",".join(options.tasks), "--include_path", str(root / "tasks")]
    argv += ["--num_fewshot", str(options.few_shot), "--batch_size", str(options.batch_size)]
    argv += ["--output_path", str(root / "results"), "--log_samples"]
    argv += ["--apply_chat_template"] if options.chat else []
    hidden = ("ARL_SCORE_FD", "ARL_PARAMS")
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    done = subprocess.run(
        argv,
        cwd=root,
        env={k: v for k, v in os.environ.items() if k not in hidden}
        | {**offline, "HF_HOME": str(root / "cache"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=options.timeout_s,
        check=False,
    )
    if done.returncode != 0:
        tail = done.stdout[-TAIL_CHARS:]
        raise RuntimeError(f"lm_eval left with exit status {done.returncode}: {tail}")


def read_items(results: Path, task: str, options: Options) -> list[float]:
    """The metric of each of the task's documents, in their order.

    Raises:
        RuntimeError: there is no such task or metric in what the harness wrote.
    """
    # Behind the task's name is the time; another task's may begin with this one's.
    named = re.compile(rf"samples_{re.escape(task)}_\d{{4}}-\d\d-\d\d\D.*\.jsonl")
    found = sorted(p for p in results.rglob("samples_*.jsonl") if named.fullmatch(p.name))
    if not found:
        raise RuntimeError(f"the harness wrote no samples of {task}")
    # Not splitlines: an answer may hold what else ends a line in Unicode.
    rows = [json.loads(line) for line in found[-1].read_text("utf-8").split("\n") if line]
    kept = [row for row in rows if row.get("filter", "none") == options.filter]
    return metric_of(sorted(kept, key=lambda row: int(row["doc_id"])), task, options)


def metric_of(rows: Sequence[dict[str, Any]], task: str, options: Options) -> list[float]:
    values = [row.get(options.metric) for row in rows]
    if not values or not all(isinstance(value, int | float) for value in values):
        known = sorted({name for row in rows[:1] for name in row.get("metrics", [])})
        raise RuntimeError(
            f"{task} has no metric {options.metric} for each item under filter {options.filter}"
            f" (its metrics: {', '.join(known) or 'none'})"
        )
    return [float(value) for value in values if value is not None]


if __name__ == "__main__":
    scoring.run("lm_eval_tasks", Options, evaluate)
