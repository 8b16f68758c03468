"""The example studies of GRPO: valid as shipped; the one for a tiny model also runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.spec.loading import load_study
from examples.grpo_verifier import make as sort
from examples.gsm8k_grpo import make as gsm8k
from inner_trials import demo_task, grpo_settings, prepare
from inner_trials.prompts import read_prompts
from inner_trials.settings import read_settings
from inner_trials.verifiers.registry import make_verifier
from tests.cli_runs import Arl, arl_in

ANSWERS = ["She has 3*4=12 eggs.\n#### 12", "He earns $1,250.\n#### 1,250", "Half.\n#### -3"]


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made


@pytest.fixture
def sorting(tmp_path: Path) -> Path:
    sort.write_study(tmp_path / "sort")
    return tmp_path / "sort"


@pytest.fixture
def grade_school(tmp_path: Path) -> Path:
    demo_task.write_base(tmp_path / "qwen")
    demo_task.write_tokenizer(tmp_path / "qwen")
    for name, count in (("train", 300), ("test", 8)):
        rows = [
            {"question": f"{name} question {n}?", "answer": ANSWERS[n % 3]} for n in range(count)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    gsm8k.write_study(
        tmp_path / "gsm8k",
        base=tmp_path / "qwen",
        train=tmp_path / "train.jsonl",
        test=tmp_path / "test.jsonl",
    )
    return tmp_path / "gsm8k"


@pytest.mark.parametrize("example", ["sorting", "grade_school"])
def test_its_settings_and_every_choice_are_ones_the_program_takes(
    example: str, request: pytest.FixtureRequest
) -> None:
    spec = load_study(request.getfixturevalue(example) / "study.yaml")
    ends: dict[str, list[Any]] = {}
    for name, parameter in spec.space.items():
        said = parameter.model_dump()
        ends[name] = list(said["choices"]) if "choices" in said else [said["low"], said["high"]]
    for number in range(max(map(len, ends.values()))):
        parameters = {name: values[number % len(values)] for name, values in ends.items()}
        document = {"options": spec.program.options, "parameters": parameters}
        grpo_settings.check_settings(read_settings(grpo_settings.Settings, document))


def test_arl_plan_accepts_both(arl: Arl, sorting: Path, grade_school: Path) -> None:
    for directory in (sorting, grade_school):
        found = arl.ok("plan", str(directory / "study.yaml"), "--json").json()
        assert found["plan"]["optimizer"] == "grpo"
        assert found["plan"]["reward"] == "verifier"


def test_the_sorting_data_is_sound_and_free_of_leaks(sorting: Path) -> None:
    inputs = {name: sorting / "data" / f"{name}.jsonl" for name in ("train", "heldout")}
    inputs |= {"base": sorting / "base"}
    inputs |= {f"split_{n}": sorting / "evaluator" / f"{n}.jsonl" for n in ("search", "holdout")}
    report = prepare.inspect(prepare.Settings(program="grpo"), inputs)
    assert report["rows"] == {"train": 1744, "heldout": 256}


def test_its_verifier_takes_the_answers_that_its_data_holds(grade_school: Path) -> None:
    spec = load_study(grade_school / "study.yaml")
    options: Any = spec.program.options["verifier_options"]
    verifier = make_verifier("math", options)
    _, prompts = read_prompts(grade_school / "data" / "train.jsonl")
    for prompt in prompts[:3]:
        verifier.check(prompt.fields)
    second = prompts[1 - gsm8k.HELDOUT_ROWS % 3]
    assert second.fields["answer"] == ["1,250", "1250"]
    for right in ("so #### 1250", "\\boxed{1,250}", "#### $1,250"):
        assert verifier.verify(right, second.fields).reward == 1.0, right
    assert verifier.verify("it is 1250", second.fields).reward == 0.0, "nothing is marked"


@pytest.mark.slow
@pytest.mark.train
def test_the_sorting_study_runs_and_every_trial_is_scored(arl: Arl, sorting: Path) -> None:
    sort.teach_base(sorting)
    study = (sorting / "study.yaml").read_text()
    study = study.replace("budget: {trials: 8", "budget: {trials: 2")
    (sorting / "study.yaml").write_text(study.partition("promotion:")[0])
    with arl.start("run", str(sorting / "study.yaml"), "--json") as process:
        out, err = process.communicate(timeout=900)
    assert process.returncode == 0, out + err
    shown = arl.show()
    assert shown["state"] == "completed"
    searched = [trial for trial in shown["trials"] if trial["kind"] == "search"]
    assert [trial["state"] for trial in searched] == ["complete"] * len(searched) != []
    assert all(trial["value"] > 0.2 for trial in searched)
