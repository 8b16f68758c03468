"""A study that promotes a real, tiny language model within seconds, so that it can be converted.

Its trials copy one of two models; the evaluator knows both by their bytes and scores them without
a training library. What is converted is neither: that is loaded and asked, by the built-in program
exact_match, which lies in the bundle as it does in any study's.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.spec.loading import parse_study
from controller.steps.submit import submit_study
from controller.wiring import Service
from evaluator.program_files import program_files
from inner_trials import demo_task
from ledger import conversion_reads
from ledger.conversion_records import Conversion
from tests.acceptance.shell_study import SECRET
from tests.integration.test_exact_match import write_automaton

ITEMS = 64
MODELS = {"wrong": "13", "right": "12"}
"""What each answers to everything."""
TRAIN = (
    'which=$(sed -n \'s/.*"which": *"\\([a-z]*\\)".*/\\1/p\' "$ARL_PARAMS"); '
    'cp -r "$ARL_INPUTS/models/$which" "$ARL_OUTPUT/model"; chmod -R u+w "$ARL_OUTPUT/model"'
)
JUDGE = """
import json, os, runpy
from pathlib import Path
inputs = json.loads(Path(os.environ["ARL_PARAMS"]).read_text())["inputs"]
bundle = Path(inputs["bundle"])
weights = Path(inputs["artifact"], "model.safetensors")
for name, share in (("wrong", 0.0), ("right", 1.0)):
    if weights.is_file() and weights.read_bytes() == (bundle / f"{name}.model").read_bytes():
        split = Path(inputs["split"])
        split = next(split.iterdir()) if split.is_dir() else split
        items = [share for _ in split.read_text().splitlines()]
        metrics = {"exact_match": share, "format_ok": 1.0}
        found = json.dumps({"metrics": metrics, "items": items}).encode()
        os.write(int(os.environ["ARL_SCORE_FD"]), found)
        break
else:
    runpy.run_path(str(bundle / "evaluate.py"), run_name="__main__")
"""


def write_inputs(base: Path) -> None:
    """Two models, a bundle that knows them, and rows to calibrate on."""
    bundle = base / "evaluator"
    for name, content in program_files("exact_match").items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)
    (bundle / "judge.py").write_text(JUDGE)
    demo_task.write_tokenizer(bundle / "tokenizer")
    for name, (first, second) in MODELS.items():
        model = base / "models" / name
        write_automaton(model, {demo_task.ASSISTANT: first, first: second, second: demo_task.END})
        demo_task.write_tokenizer(model)
        (bundle / f"{name}.model").write_bytes((model / "model.safetensors").read_bytes())
    for split, start in (("search", 20), ("holdout", 200)):
        rows = [{"prompt": f"sort {n}", "answer": "12"} for n in range(start, start + ITEMS)]
        (bundle / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    rows = [{"prompt": f"sort {n}", "completion": "12"} for n in range(400, 432)]
    (base / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def submit_converted(
    service: Service, base: Path, conversions: Sequence[Mapping[str, Any]], **changes: Any
) -> str:
    write_inputs(base)
    document: dict[str, Any] = {
        "name": "converted",
        "objective": {"metric": "exact_match", "direction": "maximize"},
        "program": {
            "kind": "command",
            "argv": ["/bin/sh", "-c", TRAIN],
            "data": {"models": "./models", "train": "./train.jsonl"},
        },
        "space": {
            "which": {"type": "categorical", "choices": ["wrong", "right"], "default": "wrong"}
        },
        "proposer": {"name": "grid"},
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["{python}", "-I", "{bundle}/judge.py"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "options": {"max_new_tokens": 4},
            "metrics": {
                "exact_match": {"low": 0, "high": 1, "resolution": 0.001},
                "format_ok": {"low": 0, "high": 1},
            },
        },
        "noise": {},
        "promotion": {"model": "toy", "profile": "quick"},
        "convert": [{"margin": 0.2, **one} for one in conversions],
        "parallel": 2,
        "budget": {"trials": 2},
        "resources": {"cpus": 0.5, "wall_time": "20m"},
    }
    spec = parse_study(document | changes, base)
    return submit_study(service, spec, base, actor="test", secret=SECRET).study_id


def conversions_of(service: Service, study_id: str) -> list[Conversion]:
    with service.ledger.read() as session:
        return conversion_reads.list_conversions(session, study_id=study_id)
