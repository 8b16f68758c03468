"""A frozen evaluator's program says what to ask a served model, and scores what it answered."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evaluator.program_files import program_files
from inner_trials import demo_task

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "evaluator" / "programs" / "by_endpoint.py"
ROWS = [{"prompt": f"sort {n}", "answer": "".join(sorted(str(n)))} for n in (312, 21, 90)]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path, "exact_match")


def write_bundle(place: Path, program: str) -> Path:
    bundle = place / "bundle"
    for name, content in program_files(program).items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)
    (place / "split").mkdir()
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    (place / "split" / "split.jsonl").write_text(rows)
    return bundle


def run(bundle: Path, stage: str, answers: Any = None, **options: Any) -> tuple[int, Any, str]:
    """Exit status, what came on the score channel, and what was said."""
    place = bundle.parent
    inputs = {"bundle": str(bundle), "split": str(place / "split")}
    if answers is not None:
        (place / "answers").mkdir(exist_ok=True)
        (place / "answers" / "answers.json").write_text(json.dumps(answers))
        inputs["answers"] = str(place / "answers")
    document = {"inputs": inputs, "options": {"stage": stage, "options": options}}
    (place / "params.json").write_text(json.dumps(document))
    score = os.open(place / "score", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(DRIVER)],
            env={"ARL_PARAMS": str(place / "params.json"), "ARL_SCORE_FD": str(score)},
            pass_fds=[score],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        os.close(score)
    raw = (place / "score").read_text()
    return done.returncode, json.loads(raw) if raw else None, done.stdout + done.stderr


def test_exact_match_asks_once_and_greedily(bundle: Path) -> None:
    status, document, said = run(bundle, "prompts", max_new_tokens=9)
    assert status == 0, said
    assert document["prompts"] == [row["prompt"] for row in ROWS]
    asked = document["settings"]
    assert (asked["n"], asked["temperature"], asked["max_tokens"]) == (1, 0.0, 9)
    assert asked["add_special_tokens"], "without a frozen template a text is read as a text"
    assert "stop_token_ids" not in asked
    assert "seed" not in asked


def test_prompts_are_rendered_by_the_frozen_template(bundle: Path) -> None:
    demo_task.write_tokenizer(bundle / "tokenizer")
    status, document, said = run(bundle, "prompts")
    assert status == 0, said
    assert document["prompts"][0] == "<|user|>sort 312<|end|><|assistant|>"
    assert document["settings"]["stop_token_ids"] == [demo_task.SPECIAL.index(demo_task.END)]
    assert not document["settings"]["add_special_tokens"], "the template wrote them"


def test_answers_are_scored_as_the_program_scores_its_own(bundle: Path) -> None:
    answers = [[[" 123\n", True]], [["12", False]], [["90", True]]]
    status, document, said = run(bundle, "score", answers)
    assert status == 0, said
    assert document["items"] == [1.0, 0.0, 0.0], "an answer that was cut off is none"
    assert document["metrics"] == {"exact_match": 1 / 3, "format_ok": 2 / 3}


def test_pass_at_k_asks_for_samples_and_counts_the_right_ones(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, "pass_at_k")
    options = {"k": 2, "samples": 4, "temperature": 0.7, "top_p": 0.9}
    status, document, said = run(bundle, "prompts", **options)
    assert status == 0, said
    asked = document["settings"]
    assert (asked["n"], asked["temperature"], asked["top_p"]) == (4, 0.7, 0.9)
    right, wrong, cut = ["123", True], ["321", True], ["123", False]
    answers = [[right, wrong, cut, wrong], [["12", True]] * 4, [wrong] * 4]
    status, document, said = run(bundle, "score", answers, **options)
    assert status == 0, said
    assert document["items"] == pytest.approx([0.5, 1.0, 0.0])
    assert document["metrics"]["pass_at_1"] == pytest.approx((0.25 + 1.0) / 3)


def refused(outcome: tuple[int, Any, str]) -> str:
    status, document, said = outcome
    assert (status, document) == (43, None), said
    assert len(said.splitlines()) == 1, said
    return said


def test_programs_that_judge_more_than_answers_are_refused_by_name(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, "perplexity")
    assert "perplexity" in refused(run(bundle, "prompts"))


def test_a_program_of_ones_own_needs_the_functions(bundle: Path) -> None:
    (bundle / "evaluate.py").write_text("def score(items, answers, options): ...\n")
    assert "read_items" in refused(run(bundle, "prompts"))
    (bundle / "evaluate.py").unlink()
    assert "evaluate.py" in refused(run(bundle, "prompts"))


def test_answers_of_another_number_are_no_score(bundle: Path) -> None:
    assert "2 answers to 3 items" in refused(run(bundle, "score", [[["1", True]]] * 2))


def test_a_wrong_option_is_the_bundles_own_error(bundle: Path) -> None:
    status, document, said = run(bundle, "prompts", max_new_tokens=0)
    assert status != 0
    assert document is None
    assert "max_new_tokens" in said


def test_the_driver_is_no_program_of_a_study() -> None:
    from evaluator.program_files import program_names

    assert "by_endpoint" not in program_names()
    for name in program_names():
        assert "by_endpoint.py" not in " ".join(program_files(name))


def test_the_driver_needs_nothing_of_arl_but_the_bundle(bundle: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copyfile(DRIVER, alone / "by_endpoint.py")
    text = (alone / "by_endpoint.py").read_text()
    imported = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    roots = {line.split()[1].partition(".")[0] for line in imported}
    assert roots <= sys.stdlib_module_names
