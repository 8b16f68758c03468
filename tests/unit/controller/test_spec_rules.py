"""Each rule of the study file: the field, the value, and what to write instead."""

import math

import pytest

from controller.decisions.profiles import PROFILES
from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from controller.spec.study import BASELINES_NEEDED
from proposers.registry import known
from tests.unit.controller.study_documents import COMMAND, REMOVE, SFT, changed, study


def problems(document: object) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    return [str(problem) for problem in refused.value.problems]


def only_problem(document: object) -> str:
    found = problems(document)
    assert len(found) == 1, found
    return found[0]


SECTIONS: list[tuple[dict[str, object], str]] = [
    (
        changed(COMMAND, constraints={"score": {"low": 0.9, "high": 0.1}}),
        "constraints.score.low: 0.9: low is above high (0.1), so no candidate could be kept; "
        "swap them, or leave one out",
    ),
    # proposer and pruning
    (
        changed(COMMAND, proposer__name="grid"),
        "space.x: a grid cannot walk a continuous range; "
        "add a step, or write its values as type: categorical with choices",
    ),
    (
        changed(COMMAND, proposer__name="randm"),
        'proposer.name: "randm": there is no such proposer; write random instead',
    ),
    (
        changed(COMMAND, proposer__name="zzz"),
        'proposer.name: "zzz": there is no such proposer; write one of ' + known(),
    ),
    (
        changed(COMMAND, proposer__name="tpee"),
        'proposer.name: "tpee": there is no such proposer; write tpe instead',
    ),
    (
        changed(
            COMMAND,
            proposer__name="cmaes",
            evaluator__metrics={"score": {}, "size": {}},
            objectives=[{"metric": "size", "direction": "minimize"}],
        ),
        "objectives: proposer cmaes looks for the best of one objective; "
        "remove them, or write proposer.name: nsga2, tpe or gp",
    ),
    (
        changed(COMMAND, proposer__name="cmaes", proposer__options={"population": 1}),
        "proposer.options.population: 1: Input should be greater than or equal to 2; "
        "correct or remove it",
    ),
    (
        changed(COMMAND, proposer__options={"depth": 3}),
        "proposer.options.depth: 3: random takes only release; correct or remove it",
    ),
    (
        changed(COMMAND, pruning__name="mediann"),
        'pruning.name: "mediann": no such value; write median instead',
    ),
    (
        changed(COMMAND, pruning__name="asha", pruning__patience=3),
        "pruning.patience: 3: pruner asha does not read it; "
        "remove it, or write pruning.name: patient",
    ),
    (
        changed(COMMAND, pruning__name="patient"),
        "pruning.patience: a patient pruner has to know for how long; write a number of steps",
    ),
    (
        changed(COMMAND, pruning__name="threshold"),
        "pruning: a threshold needs a bound; write pruning.lower, pruning.upper or both",
    ),
    (
        changed(COMMAND, pruning__name="threshold", pruning__lower=2.0, pruning__upper=1.0),
        "pruning.lower: 2.0: it is not below pruning.upper (1), so every value is out of bounds; "
        "write a lower number",
    ),
    (
        changed(COMMAND, pruning__name="hyperband", pruning__min_resource=9, pruning__horizon=9),
        "pruning.min_resource: 9: the first rung is not before pruning.horizon (9), "
        "where trials end; write a smaller number",
    ),
    # metrics
    (
        changed(COMMAND, objective__metric="scor"),
        'objective.metric: "scor": the evaluator declares no such metric; write score instead',
    ),
    (
        changed(COMMAND, objective__metric="loss"),
        'objective.metric: "loss": the evaluator declares no such metric; '
        "add it under evaluator.metrics: loss: {}",
    ),
    (
        changed(COMMAND, objective__direction="max"),
        'objective.direction: "max": no such value; write minimize or maximize',
    ),
    (
        changed(SFT, promotion__guard={"fluency": {"max_drop": 0.1}}),
        'promotion.guard.fluency: "fluency": the evaluator declares no such metric; '
        "add it under evaluator.metrics: fluency: {}",
    ),
    (
        changed(SFT, promotion__guard={"exact_match": {"max_drop": 0.1}}),
        'promotion.guard.exact_match: "exact_match": the objective guards itself; '
        "name another metric",
    ),
    (
        changed(COMMAND, evaluator__metrics__score={"low": 1, "high": 1}),
        "evaluator.metrics.score.low: 1.0: low must be below high (1.0); "
        "swap them, or leave one out",
    ),
    (
        changed(COMMAND, stop__goal=1.5),
        "stop.goal: 1.5: score is declared from 0 to 1; write a value in that range",
    ),
    # program and evaluator
    (
        changed(COMMAND, program={"kind": "command"}),
        "program.argv: kind command executes it; write [program, argument]",
    ),
    (
        changed(SFT, program__base=REMOVE),
        "program.base: kind sft trains a model; name its directory",
    ),
    (
        changed(SFT, program__data={"dev": "dev.jsonl"}),
        "program.data.train: kind sft trains on it; name its file",
    ),
    (
        changed(SFT, program__argv=["x"]),
        'program.argv: ["x"]: kind sft runs ARL\'s own program; remove it, or write kind: command',
    ),
    (
        changed(COMMAND, program__argv=["{python}", "{trian}/a.py"]),
        'program.argv[1]: "{trian}/a.py": {trian} is no input; write one of {python}',
    ),
    (
        changed(COMMAND, program__data={"source": "x"}),
        'program.data.source: "source": an input\'s name has letters, digits, _ and - only, and '
        "is none of artifact, base, bundle, code, python, resume, source, split; "
        "write another name",
    ),
    (
        changed(COMMAND, program__environment={"ARL_SPLIT": "x"}),
        'program.environment.ARL_SPLIT: "ARL_SPLIT": a variable\'s name has letters, digits and _ '
        "only, and ARL_ is ARL's own; write another name",
    ),
    (
        changed(SFT, evaluator__bundle="bundle"),
        "evaluator: bundle and program exclude each other; "
        "write only one of bundle (a directory) and program (a built-in evaluator)",
    ),
    (
        changed(SFT, evaluator__program=REMOVE),
        "evaluator: there is nothing that scores; "
        "write only one of bundle (a directory) and program (a built-in evaluator)",
    ),
    (
        changed(SFT, evaluator__argv=["x"]),
        'evaluator.argv: ["x"]: a built-in program has its own; remove it',
    ),
    (
        changed(COMMAND, evaluator__bundle="b"),
        'evaluator.bundle: "b": mode reported runs no evaluator; '
        "remove it, or write mode: weights",
    ),
    (
        changed(SFT, evaluator__splits={"holdout": "h.jsonl"}),
        "evaluator.splits.search: trials are chosen on it; name its file, beside holdout",
    ),
    (
        changed(SFT, evaluator__splits__holdout="search.jsonl"),
        'evaluator.splits.holdout: "search.jsonl": search and holdout are the same data; '
        "name data that no trial is chosen on",
    ),
    (
        changed(SFT, evaluator__splits__test="t.jsonl"),
        'evaluator.splits.test: "test": no such key; write search or holdout',
    ),
    (
        changed(SFT, evaluator__answer_argv=["x"]),
        'evaluator.answer_argv: ["x"]: mode weights asks for no answers; '
        "remove it, or write mode: answers",
    ),
    # noise, budgets, promotion
    (
        changed(COMMAND, noise__baseline_trials=1),
        "noise.baseline_trials: 1: it must be at least 2; write a larger number",
    ),
    (
        changed(SFT, noise__baseline_trials=9),
        "noise.baseline_trials: 9: the thorough profile compares with 10 baseline trials; "
        "write 10 or more, or leave it out",
    ),
    (
        changed(SFT, promotion__profile="quick", noise__baseline_trials=4),
        "noise.baseline_trials: 4: the quick profile compares with 5 baseline trials; "
        "write 5 or more, or leave it out",
    ),
    (
        changed(SFT, evaluator__splits={"search": "s.jsonl"}),
        "promotion: the gate needs data that no trial was chosen on; add evaluator.splits.holdout",
    ),
    (
        changed(COMMAND, promotion={"model": "m"}),
        "promotion: evaluator.mode is reported: a program that reports its own score proves "
        "nothing; use an evaluator, or write promotion.allow_reported: true",
    ),
    (
        changed(COMMAND, budget={}),
        "budget: nothing ends this study, so it would run for ever; "
        "write budget.trials, budget.wall_time or stop.no_improvement",
    ),
    (
        changed(COMMAND, budget__gpu_hours=3),
        "budget.gpu_hours: 3.0: it is never spent, since resources.gpus is 0; "
        "write budget.wall_time, or the GPUs a trial uses",
    ),
    (
        changed(COMMAND, budget__gpu_hours=1, resources={"gpus": 2}),
        "budget.gpu_hours: 1.0: one trial may take 2 GPU hours (GPUs times both wall_time "
        "limits); write more, or lower resources.wall_time and evaluator.wall_time",
    ),
    (
        changed(COMMAND, resources={"stall_time": "30m", "wall_time": "30m"}),
        "resources.stall_time: 1800 s: it never acts before resources.wall_time (1800 s); "
        "write a shorter time or leave it out",
    ),
    (
        changed(COMMAND, space={}),
        "space: there is nothing to try; "
        "add parameters, or files a patch may change under program.mutable",
    ),
]


@pytest.mark.parametrize(("document", "message"), SECTIONS)
def test_a_broken_rule_is_refused_with_what_to_write_instead(
    document: dict[str, object], message: str
) -> None:
    assert message in problems(document)


BOUNDS: list[tuple[str, object]] = [
    ("parallel", 0),
    ("parallel", -1),
    ("parallel", 1.5),
    ("seed", -1),
    ("budget__trials", 0),
    ("budget__trials", 10**20),
    ("budget__wall_time", 0),
    ("budget__wall_time", 1e300),
    ("budget__wall_time", "0s"),
    ("budget__gpu_hours", -2),
    ("budget__llm_tokens", 0),
    ("budget__llm_cost_usd", 0),
    ("stop__failure_rate", 0),
    ("stop__failure_rate", 1.01),
    ("stop__failure_window", 0),
    ("stop__consecutive_failures", 0),
    ("stop__no_improvement", 0),
    ("stop__no_improvement", 10**20),
    ("stop__failure_window", 10**20),
    ("stop__consecutive_failures", 10**20),
    ("stop__goal", math.nan),
    ("resources__cpus", 0),
    ("resources__gpus", -1),
    ("resources__gpus", 10**20),
    ("resources__memory", "0B"),
    ("resources__memory", "9" * 400 + "GB"),
    ("resources__memory", "lots"),
    ("resources__wall_time", "soon"),
    ("resources__wall_time", True),
    ("resources__logs", "16 parsecs"),
    ("retries__candidate", -1),
    ("pruning__horizon", 0),
    ("pruning__warmup_steps", -1),
    ("evaluator__holdout_budget", 0),
    ("evaluator__holdout_budget", 10**20),
    ("evaluator__metrics__score__resolution", -0.1),
    ("name", "a b"),
    ("name", ""),
    ("name", "x" * 101),
    ("program__argv", []),
    ("program__argv", "/bin/true"),
    ("program__options__depth", math.inf),
    ("duplicates", "maybe"),
]


@pytest.mark.parametrize(("place", "value"), BOUNDS)
def test_a_value_out_of_bounds_is_refused_at_its_field(place: str, value: object) -> None:
    message = only_problem(changed(COMMAND, **{place: value}))
    assert message.startswith(place.replace("__", ".") + ": ")
    assert "; write " in message or "; leave" in message


@pytest.mark.parametrize("alpha", [0, -0.1, 0.5, 1])
def test_alpha_is_a_small_share(alpha: float) -> None:
    assert "promotion.alpha" in only_problem(changed(SFT, promotion__alpha=alpha))


MUTABLE = changed(
    SFT,
    program={"kind": "command", "argv": ["{python}", "t.py"], "source": "s", "mutable": ["t.py"]},
)


def test_mutable_files_need_answers_mode_or_a_reason() -> None:
    assert "a study whose mutable files define the model must use answers" in only_problem(MUTABLE)
    reason = "train.py trains a stock GPT-2 and defines no layer"
    assert parse_study(changed(MUTABLE, program__mutable_reason=reason))
    answers = changed(MUTABLE, evaluator__mode="answers", evaluator__answer_argv=["{python}", "a"])
    assert parse_study(answers)


def test_mutable_files_cannot_report_their_own_score() -> None:
    reported = {"mode": "reported", "metrics": {"exact_match": {}}}
    document = changed(MUTABLE, promotion=None, program__mutable_reason="x", evaluator=reported)
    assert "could report any score it likes" in only_problem(document)


@pytest.mark.parametrize("name", ["/etc/passwd", "../t.py", "a/../t.py", "./t.py", "a//b", "."])
def test_a_mutable_file_is_a_plain_path_below_the_source(name: str) -> None:
    document = changed(MUTABLE, program__mutable_reason="x", program__mutable=[name])
    assert "program.mutable[0]" in only_problem(document)


def test_answers_mode_needs_something_that_answers() -> None:
    document = changed(SFT, evaluator__mode="answers")
    assert [p.split(":")[0] for p in problems(document)] == [
        "evaluator.answer_argv",
        "program.source",
    ]


def test_braces_of_a_shell_script_are_its_own() -> None:
    assert study(program__argv=["/bin/sh", "-c", "ls | awk '{print}'"])


def test_an_exhaustible_space_needs_no_budget() -> None:
    finite = {"type": "int", "low": 0, "high": 9}
    for name in ("grid", "random"):
        assert study(budget={}, space__x=finite, proposer__name=name)


def test_a_plateau_rule_ends_a_study_without_budget() -> None:
    assert study(budget={}, stop__no_improvement=10)


def test_a_goal_alone_may_never_be_reached() -> None:
    assert "would run for ever" in only_problem(changed(COMMAND, budget={}, stop__goal=0.9))


def test_the_baselines_a_profile_needs_are_those_its_gate_uses() -> None:
    assert {name: p.n0 for name, p in PROFILES.items()} == BASELINES_NEEDED


def test_baselines_default_to_what_the_profile_needs() -> None:
    assert study().baselines() == 3
    assert study(noise__baseline_trials=7).baselines() == 7
    assert study(SFT).baselines() == 10
    assert study(SFT, promotion__profile="quick").baselines() == 5
