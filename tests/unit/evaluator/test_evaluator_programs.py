"""The evaluator programs' own pieces, without torch: estimators, intervals, options, commands."""

import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.program_files import program_files
from evaluator.programs import (
    command,
    lm_eval_tasks,
    pair_accuracy,
    pass_at_k,
    perplexity,
    scoring,
)
from evaluator.programs.exact_match import Item, RefusedError, SetupError
from evaluator.programs.scoring import Estimate
from inner_trials.contract import EXIT_BAD_INPUT
from ledger.errors import UnknownName


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 6, 6), (6, 5, 2)])
def test_pass_at_k_is_the_share_of_all_choices_of_k_that_hold_a_right_one(
    n: int, c: int, k: int
) -> None:
    answers = [True] * c + [False] * (n - c)
    choices = list(itertools.combinations(answers, k))
    share = sum(any(choice) for choice in choices) / len(choices)
    assert pass_at_k.pass_at(n, c, k) == pytest.approx(share)


def test_pass_at_k_is_unbiased_where_the_naive_estimate_is_not() -> None:
    p, n, k = 0.2, 6, 3
    chance = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    expected = math.fsum(w * pass_at_k.pass_at(n, c, k) for c, w in enumerate(chance))
    naive = math.fsum(w * (1 - (1 - c / n) ** k) for c, w in enumerate(chance))
    truth = 1 - (1 - p) ** k
    assert expected == pytest.approx(truth)
    assert abs(naive - truth) > 0.02


def test_the_last_match_of_the_answer_pattern_is_what_counts() -> None:
    item = Item("2+2?", ("4",))
    pattern = pass_at_k.re.compile(r"answer: (\d+)")
    assert pass_at_k.is_right("answer: 5, no, answer: 4", item, pattern)
    assert not pass_at_k.is_right("answer: 4, no, answer: 5", item, pattern)
    assert not pass_at_k.is_right("4", item, pattern)
    assert pass_at_k.is_right("4", item, None)


def test_an_interval_holds_the_point_and_is_always_the_same() -> None:
    values = [float(i % 5 == 0) for i in range(200)]
    estimate = Estimate(values)
    low, high = estimate.interval()
    assert low < estimate.point() == 0.2 < high
    assert (low, high) == Estimate(list(values)).interval()
    # Near the normal approximation, sd / sqrt(n) either way.
    assert high - low == pytest.approx(2 * 1.96 * statistics.pstdev(values) / 200**0.5, rel=0.15)


def test_a_ratio_is_of_sums_and_its_interval_moves_items_whole() -> None:
    losses, tokens = [2.0, 30.0], [2.0, 10.0]
    assert Estimate(losses, tokens).point() == pytest.approx(32 / 12)
    assert Estimate(losses, tokens, math.exp).point() == pytest.approx(math.exp(32 / 12))
    low, high = Estimate(losses, tokens).interval()
    assert (low, high) == (1.0, 3.0)


@pytest.mark.parametrize(
    "estimate",
    [
        Estimate([1e4], [1.0], math.exp),
        Estimate([math.inf, -math.inf]),
        Estimate([1e308, 1e308]),
        Estimate([math.nan]),
    ],
    ids=["exponential", "infinities", "sum", "nan"],
)
def test_numbers_that_have_no_mean_are_refused_as_the_artifacts(estimate: Estimate) -> None:
    with pytest.raises(RefusedError, match="the artifact computes no usable numbers"):
        scoring.write(scoring.Result({"loss": estimate}, []))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"batch": 1}, "options.batch: unknown; known options: max_length, batch_size, dtype"),
        ({"batch_size": "1"}, "options.batch_size: '1' is not allowed"),
        ({"batch_size": -1}, "-1 must be a number that is not negative"),
        ({"batch_size": 0}, "options.batch_size: 0 is not allowed"),
        ({"batch_size": True}, "is not allowed"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, object], reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        scoring.read_options(perplexity.Options, given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"temperature": 0}, "options.temperature: 0 is not allowed"),
        ({"temperature": math.inf}, "options.temperature: inf must be a number"),
        ({"answer_pattern": "("}, r"options.answer_pattern: '\(' is no expression: missing"),
    ],
)
def test_an_option_that_sampling_could_not_take_is_named(
    given: dict[str, object], reason: str, tmp_path: Path
) -> None:
    inputs = scoring.Inputs(tmp_path, tmp_path, tmp_path, None)
    with pytest.raises(SetupError, match=reason):
        pass_at_k.evaluate(scoring.read_options(pass_at_k.Options, given), inputs)


def test_options_are_read_with_whole_numbers_for_floats_and_lists() -> None:
    temperature = scoring.read_options(pass_at_k.Options, {"temperature": 2}).temperature
    assert temperature == 2.0
    assert isinstance(temperature, float), "transformers takes no other"
    assert scoring.read_options(pass_at_k.Options, {"seed": 0}).seed == 0
    assert scoring.read_options(command.Options, {"argv": ["a"]}).argv == ["a"]


def test_a_tie_is_half_a_win_and_no_number_is_none() -> None:
    assert [pair_accuracy.outcome(m) for m in (0.1, 0.0, -0.1, math.nan)] == [1, 0.5, 0, 0]


def test_a_commands_items_become_scores_and_its_single_numbers_too() -> None:
    line = json.dumps({"items": {"right": [1, 0, 1]}, "metrics": {"size": 7}})
    result = command.read_result(line, ["right", "size"])
    assert {n: e.point() for n, e in result.metrics.items()} == {"right": 2 / 3, "size": 7.0}
    assert result.items == [1.0, 0.0, 1.0]
    assert command.read_result(line, ["size"]).items == []


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"items": {"a": []}}', '{"items": {"a": ["x"]}}', '{"items": 3}']
)
def test_what_a_command_must_not_print_is_an_error_of_the_evaluator(line: str) -> None:
    with pytest.raises(RuntimeError, match=r"the command gave no numbers for a|not JSON"):
        command.read_result(line, ["a"])


def test_a_command_sees_where_everything_is_and_its_last_line_counts(tmp_path: Path) -> None:
    options = command.Options(argv=["/bin/sh", "-c", 'echo noise; echo "$0"', "{artifact}"])
    inputs = scoring.Inputs(tmp_path / "artifact", tmp_path, tmp_path, tmp_path)
    assert command.printed(options, inputs) == str(tmp_path / "artifact")
    for script in ("exit 3", ""):
        with pytest.raises(RuntimeError, match=r"exit status 3|printed nothing"):
            command.printed(command.Options(argv=["/bin/sh", "-c", script]), inputs)


@pytest.mark.parametrize(
    "name", ["command", "exact_match", "pair_accuracy", "pass_at_k", "perplexity", "win_rate"]
)
def test_every_built_in_program_brings_what_it_imports(name: str, tmp_path: Path) -> None:
    contents = program_files(name)
    assert "evaluate.py" in contents
    own = {path for path in contents if path.startswith("evaluator/programs/")}
    assert own == set() if name == "exact_match" else f"evaluator/programs/{name}.py" in own


@pytest.mark.parametrize("name", ["scoring", "answers", "nothing", "../x", "__init__"])
def test_what_is_no_program_is_refused_with_the_ones_there_are(name: str) -> None:
    with pytest.raises(UnknownName, match=r"command, exact_match, .*pair_accuracy"):
        program_files(name)


PROGRAMS = ("exact_match", "pass_at_k", "perplexity", "pair_accuracy", "win_rate", "lm_eval_tasks")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("line", [b'{"prompt": "a", "answer": ', b'{"prompt": "\xff"}', b"[]"])
def test_a_line_of_a_split_that_is_no_object_is_told_in_one_line_and_is_nobodys_artifact(
    program: str, line: bytes, tmp_path: Path
) -> None:
    split = tmp_path / "split.jsonl"
    row = {"prompt": "a", "answer": "b", "chosen": "b", "rejected": "c", "reference": "b"}
    split.write_bytes(json.dumps(row).encode() + b"\n" + line + b"\n")
    inputs = dict.fromkeys(("artifact", "bundle"), str(tmp_path)) | {"split": str(split)}
    options = {"tasks": ["a"]} if program == "lm_eval_tasks" else {}
    (tmp_path / "params.json").write_text(json.dumps({"inputs": inputs, "options": options}))
    ended = subprocess.run(
        [sys.executable, "-m", f"evaluator.programs.{program}"],
        env={**os.environ, "ARL_PARAMS": str(tmp_path / "params.json")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == EXIT_BAD_INPUT
    assert re.fullmatch(rf"{program}: split.jsonl, line 2: .*(JSON|object).*\n", ended.stderr)


def test_a_harness_answer_that_holds_other_line_ends_is_still_one_line(tmp_path: Path) -> None:
    rows = [
        {"doc_id": 1, "filter": "none", "exact_match": 0.0, "resps": ["a\u2028b\x85c"]},
        {"doc_id": 0, "filter": "none", "exact_match": 1.0, "resps": ["d"]},
    ]
    write_samples(tmp_path, "sort", rows)
    options = lm_eval_tasks.Options(tasks=["sort"])
    assert lm_eval_tasks.read_items(tmp_path, "sort", options) == [1.0, 0.0]


def test_a_task_is_not_taken_for_one_whose_name_begins_with_its_own(tmp_path: Path) -> None:
    write_samples(tmp_path, "sort", [{"doc_id": 0, "exact_match": 1.0}])
    write_samples(tmp_path, "sort_hard", [{"doc_id": 0, "exact_match": 0.0}])
    options = lm_eval_tasks.Options(tasks=["sort", "sort_hard"])
    found = {task: lm_eval_tasks.read_items(tmp_path, task, options) for task in options.tasks}
    assert found == {"sort": [1.0], "sort_hard": [0.0]}


def write_samples(results: Path, task: str, rows: list[dict[str, object]]) -> None:
    path = results / "model" / f"samples_{task}_2026-01-02T03-04-05.678901.jsonl"
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def test_a_harness_task_has_one_file_of_items(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("{}\n")
    with pytest.raises(SetupError, match=r"2 .jsonl files, but a task's \{split\} is one"):
        lm_eval_tasks.split_file(tmp_path)
    (tmp_path / "b.jsonl").unlink()
    assert lm_eval_tasks.split_file(tmp_path) == tmp_path / "a.jsonl"
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(SetupError, match="no items in it"):
        lm_eval_tasks.split_file(tmp_path)
