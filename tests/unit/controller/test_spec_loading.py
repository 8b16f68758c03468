"""Reading study files: every way one can be wrong, and what is said of it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.spec import translation
from controller.spec.documents import FILE_BYTES, read_document
from controller.spec.errors import Problem, StudyRefused, shown
from controller.spec.loading import load_study, parse_study, resolved
from controller.spec.study import ResourcesSpec
from ledger.errors import InvalidInput
from tests.unit.controller.study_documents import COMMAND, REMOVE, SFT, changed, study

YAML = """
name: plain
objective: {metric: score, direction: maximize}
program: {kind: command, argv: [/bin/true]}
space:
  x: {type: float, low: 1e-6, high: 1E-4, log: true}
evaluator: {mode: reported, metrics: {score: {}}}
budget: {trials: 1_000, wall_time: 8h}
resources: {memory: 4GiB, wall_time: 1h30m, logs: 512kB}
"""


def write(folder: Path, text: str | bytes, name: str = "study.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def problems(document: object) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    return [str(problem) for problem in refused.value.problems]


def refusal_of(file: Path) -> str:
    with pytest.raises(StudyRefused) as refused:
        load_study(file)
    return str(refused.value)


# --- what is read -------------------------------------------------------------------------------


def test_a_yaml_file_is_read_with_units_and_bare_exponents(tmp_path: Path) -> None:
    spec = load_study(write(tmp_path, YAML))
    assert spec.resources.wall_time_s == 5400.0
    assert spec.resources.memory_bytes == 4 * 1024**3
    assert spec.resources.log_bytes == 512_000
    assert spec.budget.wall_time_s == 8 * 3600
    assert spec.budget.trials == 1000
    parameter = spec.space["x"]
    assert parameter.type == "float"
    assert (parameter.low, parameter.high) == (1e-6, 1e-4)


def test_the_same_study_as_json_is_equal(tmp_path: Path) -> None:
    spec = load_study(write(tmp_path, YAML))
    file = write(tmp_path, json.dumps(resolved(spec), indent="\t"), "study.json")
    assert load_study(file) == spec


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    assert load_study(write(tmp_path, b"\xef\xbb\xbf" + YAML.encode())).name == "plain"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("-1E+3", -1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("0x10", 16),
        ("0o17", 15),
        ("1_000", 1000),
        ("007", "007"),
        ("on", "on"),
        ("no", "no"),
        ("True", True),
        ("12:30", "12:30"),
        ("2024-01-02", "2024-01-02"),
        ("~", None),
        ("1e", "1e"),
        ("<<", "<<"),
    ],
)
def test_yaml_means_what_people_expect_today(tmp_path: Path, text: str, value: object) -> None:
    document, _ = read_document(write(tmp_path, f"a: {text}"))
    assert document == {"a": value}
    assert isinstance(document, dict)
    assert type(document["a"]) is type(value)


# --- what cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; write name, objective"),
        (b"- a\n- b\n", "this is not|a study is a mapping"),
        (b"name: [a", "this is not YAML: line 1, column 9"),
        (b"name: \xff", "byte 6 is not UTF-8; save the file as UTF-8"),
        (b"a: 1\n---\nb: 2\n", "this is not YAML: line 2"),
        (b"a: !!python/object/apply:os.system [x]", "this is not YAML: line 1, column 4"),
        (b"a: &x [*x]", "at most 40 levels deep"),
        (b"[" * 5000, "this is not YAML"),
        (b"? {a: b}\n: c", "this is not YAML: line 1"),
        (b"a: " + b"9" * 5000, "this is not YAML"),
        (b"a: \x00", "this is not YAML"),
        (b"#" * (FILE_BYTES + 1), f"a study file has at most {FILE_BYTES} bytes"),
    ],
)
def test_an_unreadable_file_is_one_clear_sentence(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        load_study(write(tmp_path, content))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ['!!int ""', "!!bool foo", '!!float ""', "!!timestamp foo", "!!int 1:x"]
)
def test_a_value_that_is_not_what_its_tag_says_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal_of(write(tmp_path, f"seed: {text}\n")).startswith("this is not YAML: ")


@pytest.mark.parametrize("content", ['{"a": 1', "[" * 100_000, '{"a": 1e', "nope"])
def test_a_file_that_is_not_json_says_so(tmp_path: Path, content: str) -> None:
    assert "this is not JSON" in refusal_of(write(tmp_path, content, "study.json"))


def test_a_small_file_that_unfolds_to_billions_of_values_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "at most 100000 values" in refusal_of(write(tmp_path, "\n".join(lines)))


def test_merge_keys_are_ordinary_unknown_keys(tmp_path: Path) -> None:
    text = YAML.replace("{kind: command,", "{<<: {kind: command},")
    assert "program.<<" in refusal_of(write(tmp_path, text))


@pytest.mark.parametrize("name", ["study.yaml", "study.json"])
def test_a_key_that_is_written_twice_is_refused(tmp_path: Path, name: str) -> None:
    text = json.dumps(COMMAND)[:-1] + ', "name": "again"}'
    assert "name" in refusal_of(write(tmp_path, text, name))
    assert "the key is written twice" in refusal_of(write(tmp_path, text, name))


def test_a_nested_duplicate_names_its_path_and_both_lines(tmp_path: Path) -> None:
    text = YAML.replace("{trials: 1_000, wall_time: 8h}", "\n  trials: 3\n  trials: 4")
    assert "budget.trials: the key is written twice (lines 9 and 10)" in refusal_of(
        write(tmp_path, text)
    )


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in refusal_of(tmp_path / "none.yaml")
    assert "it is not a file" in refusal_of(tmp_path)
    assert "study" in refusal_of(Path("bad\0study.yaml"))


def test_values_that_are_no_data_are_refused() -> None:
    found = problems(changed(COMMAND, program__options={"when": {1, 2}, "x": Path("a")}))
    assert [p.split(":")[0] for p in found] == ["program.options.when", "program.options.x"]


def test_keys_that_are_not_text_are_refused() -> None:
    assert 'write "True" in quotes' in problems(changed(COMMAND, program__options={True: 1}))[0]


def test_half_a_character_is_refused() -> None:
    found = problems(changed(COMMAND, program__options={"a": "\ud800"}))
    assert found[0].startswith("program.options.a")


def test_a_nul_character_is_refused() -> None:
    found = problems(changed(COMMAND, program__argv=["/bin/echo", "a\0b"]))
    assert found[0].startswith("program.argv[1]")
    assert "NUL" in found[0]


@pytest.mark.parametrize("digits", [301, 5000])
def test_a_number_too_large_for_any_program_is_refused(digits: int) -> None:
    found = problems(changed(COMMAND, space__x__high=10**digits))
    assert found == ['space.x.high: "…": the number is too large; write a smaller one']


# --- everything at once -------------------------------------------------------------------------


def test_every_problem_is_told_at_once_across_sections() -> None:
    document = changed(
        COMMAND,
        objective__metric="scor",
        space__seed={"type": "int", "low": 0, "high": 3},
        space__y={"type": "int", "low": 3, "high": 3},
        budget__trials=0,
        parallel="2",
        retention__checkpoints="best-0",
        nmae="x",
    )
    fields = {problem.split(":")[0] for problem in problems(document)}
    assert fields == {
        "objective.metric",
        "space.seed",
        "space.y.low",
        "budget.trials",
        "parallel",
        "retention.checkpoints",
        "nmae",
    }


def test_a_problem_has_its_parts_for_a_program_to_read() -> None:
    with pytest.raises(StudyRefused) as refused:
        parse_study(changed(COMMAND, parallel=0))
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("parallel", "0")
    assert problem.rule == "it must be at least 1"
    assert problem.remedy == "write a larger number"
    assert refused.value.code == "invalid_input"


@pytest.mark.parametrize(
    ("place", "suggested"),
    [
        ("paralel", "parallel"),
        ("trials", "budget.trials"),
        ("resources__wall_time_s", "wall_time"),
        ("resources__memory_bytes", "memory"),
        ("resources__cpu", "cpus"),
        ("evaluator__metrcs", "metrics"),
        ("program__arg", "argv"),
        ("budget__trial", "trials"),
        ("stop__goals", "goal"),
        ("noise__baselines", "baseline_trials"),
        ("pruning__warmup", "warmup_steps"),
        ("retries__candidates", "candidate"),
        ("target__nam", "name"),
        ("proposer__option", "options"),
        ("objective__directon", "direction"),
        ("evaluator__metrics__score__hihg", "high"),
    ],
)
def test_an_unknown_key_in_any_section_suggests_the_nearest(place: str, suggested: str) -> None:
    found = problems(changed(COMMAND, **{place: 1}))
    assert f"no such key; write {suggested} instead" in " ".join(found)


def test_every_section_of_the_file_can_suggest_its_keys() -> None:
    promoted = changed(SFT, promotion__gaurd={}, promotion__guard__format_ok__max_dorp=1)
    text = " ".join(problems(promoted))
    assert "write guard instead" in text
    assert "write max_drop instead" in text
    models = {model for model in translation.STUDY_SECTIONS.values()}
    named = {
        model
        for model in vars(sys.modules["controller.spec.study"]).values()
        if isinstance(model, type) and model.__name__.endswith("Spec")
    }
    assert named - models == set(translation._PARAMETERS.values())


@pytest.mark.parametrize("key", ["name", "objective", "program", "evaluator"])
def test_a_missing_section_is_named(key: str) -> None:
    assert f"{key}: this key is needed; add it" in problems(changed(COMMAND, **{key: REMOVE}))


@pytest.mark.parametrize("value", [None, 3, "text", [], [1]])
def test_a_section_of_the_wrong_shape_is_named(value: object) -> None:
    found = problems(changed(COMMAND, resources=value))
    assert found == [
        f"resources: {shown(value)}: this section is a mapping; write keys and values below it"
    ]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
PLACES = [
    *COMMAND,
    *(f"{s}__{k}" for s in ("program", "evaluator", "budget", "stop") for k in ("argv", "goal")),
    "space__x", "space__x__low", "space__x__type", "evaluator__metrics", "evaluator__splits",
    "program__data", "program__mutable", "promotion", "promotion__guard", "proposer__name",
]  # fmt: skip


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_no_value_anywhere_makes_anything_but_a_study_or_a_refusal(place: str, value: Any) -> None:
    found: tuple[Problem, ...] = ()
    try:
        spec = parse_study(changed(COMMAND, **{place: value}))
    except StudyRefused as refused:
        found = refused.problems
    else:
        assert parse_study(resolved(spec)) == spec
        return
    assert found
    assert all(problem.rule and problem.remedy for problem in found)


@given(st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=5) | JSON_VALUES)
def test_no_document_at_all_raises_anything_but_a_refusal(document: Any) -> None:
    with pytest.raises(StudyRefused):
        parse_study(document)


# --- round trip ---------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [COMMAND, SFT])
def test_a_stored_study_reads_back_equal(document: dict[str, object]) -> None:
    spec = study(document)
    stored = json.dumps(resolved(spec), sort_keys=True)
    assert parse_study(json.loads(stored)) == spec
    assert json.dumps(resolved(parse_study(json.loads(stored))), sort_keys=True) == stored


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(
    low=FINITE,
    high=FINITE,
    wall_s=st.floats(1e-9, 1e12),
    memory=st.integers(1, 2**60),
    options=st.dictionaries(TEXT, FINITE | st.integers() | TEXT),
)
def test_numbers_survive_the_round_trip_to_the_last_bit(
    low: float, high: float, wall_s: float, memory: int, options: dict[str, object]
) -> None:
    low, high = sorted((low, high))
    if low == high:
        return
    spec = study(
        space__x={"type": "float", "low": low, "high": high},
        resources={"wall_time": wall_s, "memory": memory},
        program__options=options,
    )
    again = parse_study(json.loads(json.dumps(resolved(spec))))
    assert again == spec
    assert again.resources.wall_time_s == wall_s
    assert again.program.options == options


def test_models_can_be_made_in_python_by_their_field_names() -> None:
    assert ResourcesSpec(wall_time_s=5.0, memory_bytes=3).memory_bytes == 3


# --- files --------------------------------------------------------------------------------------


def sft_folder(folder: Path) -> None:
    (folder / "model").mkdir()
    for name in ("train.jsonl", "search.jsonl", "holdout.jsonl"):
        (folder / name).write_text("{}\n")


def test_a_study_whose_files_are_there_is_accepted(tmp_path: Path) -> None:
    sft_folder(tmp_path)
    assert parse_study(SFT, tmp_path).program.base == "model"


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("model", "program.base"),
        ("train.jsonl", "program.data.train"),
        ("search.jsonl", "evaluator.splits.search"),
        ("holdout.jsonl", "evaluator.splits.holdout"),
    ],
)
def test_a_missing_file_is_named_with_its_full_path(
    tmp_path: Path, missing: str, field: str
) -> None:
    sft_folder(tmp_path)
    (tmp_path / missing).rename(tmp_path / "elsewhere")
    with pytest.raises(StudyRefused) as refused:
        parse_study(SFT, tmp_path)
    assert str(refused.value).startswith(f"{field}: ")
    assert str(tmp_path / missing) in str(refused.value)


def test_a_file_where_a_directory_is_needed_is_told(tmp_path: Path) -> None:
    sft_folder(tmp_path)
    document = changed(SFT, program__base="train.jsonl")
    with pytest.raises(StudyRefused, match=r"train\.jsonl is not a directory"):
        parse_study(document, tmp_path)


def test_splits_of_a_bundle_and_mutable_files_lie_below_it(tmp_path: Path) -> None:
    sft_folder(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "bundle").mkdir()
    document = changed(
        SFT,
        program={
            "kind": "command",
            "argv": ["{python}", "t.py"],
            "source": "code",
            "mutable": ["t.py"],
            "mutable_reason": "it defines no layer",
            "python": "no-such-python",
        },
        evaluator__program=REMOVE,
        evaluator__bundle="bundle",
    )
    with pytest.raises(StudyRefused) as refused:
        parse_study(document, tmp_path)
    assert [problem.field for problem in refused.value.problems] == [
        "program.python",
        "program.mutable[0]",
        "evaluator.splits.search",
        "evaluator.splits.holdout",
        "evaluator.argv",
    ]


@pytest.mark.parametrize("where", ["", "arms.1.options."])
def test_a_file_that_a_proposers_option_names_is_there_at_submit(
    tmp_path: Path, where: str
) -> None:
    sft_folder(tmp_path)
    weights = tmp_path / "mine.safetensors"
    ppo = {"name": "ppo", "options": {"warm_start": str(weights)}}
    hybrid = {"name": "hybrid", "options": {"arms": [{"name": "random"}, ppo]}}
    document = changed(SFT, proposer=hybrid if where else ppo)
    with pytest.raises(StudyRefused, match="there is no file") as refused:
        parse_study(document, tmp_path)
    assert [p.field for p in refused.value.problems] == [f"proposer.options.{where}warm_start"]
    weights.touch()
    assert parse_study(document, tmp_path).proposer.name in ("ppo", "hybrid")


def test_an_unknown_built_in_evaluator_lists_the_known_ones(tmp_path: Path) -> None:
    sft_folder(tmp_path)
    with pytest.raises(StudyRefused, match="write one of command, exact_match, lm_eval_tasks, "):
        parse_study(changed(SFT, evaluator__program="rouge"), tmp_path)


def test_a_name_too_long_for_any_file_is_a_missing_file(tmp_path: Path) -> None:
    sft_folder(tmp_path)
    document = changed(SFT, program__data__train="x" * 4000)
    with pytest.raises(StudyRefused) as refused:
        parse_study(document, tmp_path)
    assert [p.field for p in refused.value.problems] == ["program.data.train"]
