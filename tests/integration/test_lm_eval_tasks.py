"""lm-evaluation-harness tasks from local files, in an interpreter of their own.

`ARL_LM_EVAL_PYTHON` names one that has lm-eval; without it one is made, which takes a minute.
"""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from inner_trials import demo_task
from tests.integration import sft_runs
from tests.integration.sft_runs import ROOT
from tests.integration.test_exact_match import write_automaton

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]

TASK = """\
task: sort
dataset_path: json
dataset_kwargs:
  data_files:
    test: "{split}"
test_split: test
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{answer}}"
generation_kwargs:
  until: []
  max_gen_toks: 8
  do_sample: false
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("ARL_LM_EVAL_PYTHON"):
        return given
    place = tmp_path_factory.mktemp("lm_eval")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=120)
    made = place / "bin" / "python"
    libraries = subprocess.run(
        [str(made), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    ours = sysconfig.get_path("purelib")
    Path(libraries.stdout.strip(), "ours.pth").write_text(f"{ours}\n")
    argv = [str(made), "-m", "pip", "install", "--quiet"]
    argv += ["-c", str(ROOT / "constraints" / "cpu.txt"), "lm-eval>=0.4.13,<0.5"]
    subprocess.run(argv, check=True, timeout=600)
    return str(made)


def test_a_local_task_gives_the_scores_that_exact_match_gives(python: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_automaton(model, {demo_task.ASSISTANT: "1", "1": "2", "2": demo_task.END})
    demo_task.write_tokenizer(tmp_path / "frozen")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "sort.yaml").write_text(TASK)
    rows = [("sort 21", "12"), ("sort 3", "3"), ("sort 12", "12"), ("sort 5", "5")]
    split = tmp_path / "split.jsonl"
    split.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in rows))
    brings = {"tokenizer": tmp_path / "frozen", "tasks": tmp_path / "tasks"}
    status, document, log = sft_runs.score(
        tmp_path / "b", "lm_eval_tasks", model, split, brings, tasks=["sort"], python=python
    )
    assert status == 0, log
    assert document == {"metrics": {"sort": 0.5}, "items": [1.0, 0.0, 1.0, 0.0]}
    assert "sort 0.5000  95% interval" in log
