"""A study of tiny real models, scored by the evaluator exact_match itself."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from inner_trials import demo_task
from tests.hostile.corpus.entry import Attack
from tests.integration.sft_runs import EVALUATOR
from tests.integration.test_exact_match import write_automaton

ACCEPTED: Final = (*(["12", "13"],) * 3, ["13"], *(["99"],) * 2)
"""What is right for each item: a model that says 12 is worth a half, one that says 13 more."""
COPYING: Final = """
import shutil
shutil.copytree(os.environ["ARL_INPUTS"] + "/{name}", MODEL)
"""
PROGRAMS: Final = {
    "baseline": COPYING.format(name="start"),
    "honest": COPYING.format(name="better"),
}


def write_models(base: Path, attacks: Collection[Attack], prelude: str) -> None:
    """The directories `start`, `better`, `evaluator` and the programs."""
    for name, last in (("start", "2"), ("better", "3")):
        following = {demo_task.ASSISTANT: "1", "1": last, last: demo_task.END}
        write_automaton(base / name, following)
    directory = base / "evaluator"
    directory.mkdir()
    shutil.copyfile(EVALUATOR, directory / "evaluate.py")
    demo_task.write_tokenizer(directory / "tokenizer")
    rows = [
        {"prompt": f"sort {number}", "answer": answers} for number, answers in enumerate(ACCEPTED)
    ]
    (directory / "search.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, code in PROGRAMS.items():
        (base / "source" / f"{name}.py").write_text(prelude + code)
    for attack in attacks:
        (base / "source" / f"{attack.name}.py").write_text(prelude + attack.code + "\n")


def model_sections() -> dict[str, Any]:
    """What the study file says instead of the other shapes' words."""
    return {
        "objective": {"metric": "exact_match", "direction": "maximize"},
        "evaluator": {
            "bundle": "./evaluator",
            "splits": {"search": "search.jsonl"},
            "options": {"max_new_tokens": 4},
            "metrics": {
                "exact_match": {"low": 0, "high": 1, "resolution": 0.001},
                "format_ok": {"low": 0, "high": 1},
            },
            "wall_time": "90s",
        },
        "resources": {"cpus": 1, "memory": "3GiB", "wall_time": "60s"},
        "parallel": 2,
    }
