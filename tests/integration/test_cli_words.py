"""The command line before there is a ledger: help, plans, examples, and words that are refused."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.cli.text import params
from controller.cli.values import parse_params
from ledger.errors import InvalidInput
from ledger.records import Json
from tests.cli_runs import Arl, arl_in


@pytest.fixture
def arl(tmp_path: Path) -> Arl:
    return Arl(tmp_path)


def best_cpu_s(arl: Arl, *arguments: str) -> float:
    """Processor seconds of the quickest of three runs: what a quiet machine would take."""
    return least_cpu_s(lambda: arl.ok(*arguments))


def least_cpu_s(run: Callable[[], object]) -> float:
    found = []
    for _ in range(3):
        before = os.times()
        run()
        after = os.times()
        used = after.children_user - before.children_user
        found.append(used + after.children_system - before.children_system)
    return min(found)


def test_help_answers_within_200_ms_and_names_every_verb(arl: Arl) -> None:
    from controller.cli.verbs import VERBS

    assert best_cpu_s(arl, "--help") <= 0.2
    words = arl.ok("--help").out
    assert all(f"  {name} " in words for name in VERBS)
    assert arl.ok().out == words


def test_every_verb_explains_itself_and_takes_json(capsys: pytest.CaptureFixture[str]) -> None:
    from controller.cli.front import run
    from controller.cli.verbs import VERBS

    for name in VERBS:
        assert run([name, "--help"]) == 0
        words = capsys.readouterr().out
        assert f"arl {name}" in words
        assert "--json" in words


def test_show_answers_within_three_times_what_importing_its_libraries_takes(
    tmp_path: Path,
) -> None:
    libraries = [sys.executable, "-c", "import sqlalchemy, pydantic, typer"]
    with arl_in(tmp_path) as arl:
        arl.ok("submit", arl.study())
        bare_s = least_cpu_s(lambda: subprocess.run(libraries, check=True))
        assert best_cpu_s(arl, "show") <= 3 * bare_s


def test_help_imports_neither_the_database_nor_the_models() -> None:
    code = (
        "import sys; from controller.cli.front import run; run(['--help']);"
        "heavy = {'sqlalchemy', 'pydantic', 'rich', 'typer'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_verb_suggests_a_known_one(arl: Arl) -> None:
    done = arl.run("shw", "--json")
    assert done.code == 2
    assert "arl show" in done.err
    assert done.json()["error"]["code"] == "usage"


def test_plan_prices_both_profiles_and_makes_no_ledger(arl: Arl) -> None:
    arl.ok("init", "example")
    place = Arl(arl.place / "example")
    price = place.ok("plan", "study.yaml", "--trial-time", "5s", "--json").json()
    assert [p["profile"] for p in price["profiles"]] == ["quick", "thorough"]
    quick = price["profiles"][0]
    assert quick["gate_runs"]["least"] < quick["gate_runs"]["most"]
    assert quick["error_rates"]["false_promotion"] < 0.05
    assert quick["hours"]["least"] > 0
    words = place.ok("plan", "study.yaml").out
    assert "baseline trials" in words
    assert "time at the limits" in words
    assert not place.home.exists()
    assert place.run("plan", "study.yaml", "--trial-time", "soon").code == 2


def test_a_wrong_study_file_lists_every_problem(arl: Arl) -> None:
    file = arl.study(space={"x": {"type": "float", "low": 1.0, "high": 1.0}}, parallel=0, nam="x")
    for verb in ("plan", "run", "submit"):
        done = arl.run(verb, file, "--json")
        assert done.code == 2
        fields = {problem["field"] for problem in done.json()["error"]["problems"]}
        assert {"space.x.low", "parallel", "nam"} & fields == {"parallel", "nam"} or len(
            fields
        ) > 2
        assert len(done.err.splitlines()) == len(fields)
    assert not arl.home.exists()
    assert arl.run("run", "missing.yaml").code == 2


def test_schema_is_a_json_schema(arl: Arl) -> None:
    schema = arl.ok("schema").json()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "objective" in schema["properties"]


def test_init_refuses_a_directory_with_anything_in_it(arl: Arl) -> None:
    (arl.place / "mine").mkdir()
    assert arl.ok("init", "mine", "--json").json()["example"] == "command"
    assert arl.run("init", "mine").code == 4
    (arl.place / "file").write_text("mine")
    assert arl.run("init", "file").code == 2
    assert (arl.place / "file").read_text() == "mine"
    assert arl.run("init", "x", "--example", "other").code == 2


def test_the_sort_example_is_whole_and_valid(arl: Arl) -> None:
    arl.ok("init", "sort", "--example", "sort")
    price = arl.ok("plan", "sort/study.yaml", "--json").json()
    assert price["search_trials"] == 8
    assert (arl.place / "sort" / "base" / "model.safetensors").stat().st_size > 100_000


def test_the_edit_example_is_whole_and_valid(arl: Arl) -> None:
    made = arl.ok("init", "edit", "--example", "edit")
    assert "put your endpoint's url and model into study.yaml" in made.out
    allowed = {"ARL_ALLOW_UNSANDBOXED_PATCHES": "1"}
    assert arl.ok("plan", "edit/study.yaml", "--json", **allowed).json()["search_trials"] == 12


def test_doctor_finds_what_arl_needs(arl: Arl) -> None:
    checks = {c["name"]: c for c in arl.ok("doctor", "--json").json()["checks"]}
    assert checks["supervisor"]["ok"]
    assert checks["python"]["ok"]
    assert "supervisor: starts and answers" in arl.ok("doctor").out
    assert not arl.home.exists()


def test_without_a_ledger_looking_is_an_infrastructure_error(arl: Arl) -> None:
    for verb in (("studies",), ("show",), ("verify",), ("resume",), ("db", "check")):
        done = arl.run(*verb)
        assert done.code == 5, done.err
        assert "arl: ledger_unavailable: " in done.err
        assert not arl.home.exists()


def test_a_wrong_setting_is_named(arl: Arl) -> None:
    done = arl.run("studies", ARL_CPUS="many")
    assert done.code == 2
    assert "ARL_CPUS" in done.err


@pytest.mark.parametrize("name", ["a?b=1", "per%20cent", "two words", "#é", "a:b@c"])
def test_the_ledger_is_in_arl_home_whatever_that_is_called(arl: Arl, name: str) -> None:
    home = arl.place / name
    arl.ok("token", "create", "ci", ARL_HOME=str(home))
    assert (home / "ledger.db").is_file()
    assert [path.name for path in arl.place.iterdir()] == [name]
    listed = arl.ok("token", "list", "--json", ARL_HOME=str(home)).json()["tokens"]
    assert [one["name"] for one in listed] == ["ci"]


def test_a_traceback_only_where_it_is_asked_for(arl: Arl) -> None:
    assert "Traceback" not in arl.run("show").err
    assert "Traceback" in arl.run("show", ARL_DEBUG="1").err


def test_a_terminal_that_cannot_show_a_character_is_no_error(arl: Arl) -> None:
    arl.ok("init", "example")
    done = arl.ok("plan", "example/study.yaml", PYTHONIOENCODING="ascii")
    assert "\\u2026 under the worst noise" in done.out


def test_a_reader_that_leaves_is_no_error(arl: Arl) -> None:
    command = f"{sys.executable} -m controller.cli schema; echo $? >code"
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=arl.place,
        env=arl.environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert process.stderr.read() == b""
    assert (arl.place / "code").read_text() == "0\n"


def test_json_has_null_and_a_flag_for_what_is_not_finite(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from controller.cli.output import print_json

    inf = float("inf")
    print_json({"a": float("nan"), "b": [1.0, -inf], "c": {"d": inf}, "e": 2.5})
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "b": [1.0, None],
        "c": {"d": None},
        "e": 2.5,
        "non_finite": [
            {"path": "a", "value": "nan"},
            {"path": "b/1", "value": "-inf"},
            {"path": "c/d", "value": "inf"},
        ],
    }


@pytest.mark.parametrize("width", [40, 60, 70, 80, 120])
def test_a_narrow_terminal_loses_no_character_and_a_usual_one_cuts_no_id(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from controller.cli import output

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    row = ("se25b5ee1a6", "a-study-of-a-name", "completed", "budget_trials", "31", "0.301128")
    names = ("study", "name", "state", "reason", ">trials", ">best")
    output.console().print(output.table(*names, rows=[row]))

    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= width
    below_the_names = "".join(shown.rpartition("\u2500")[2].split())
    assert sorted(below_the_names) == sorted("".join(row))
    if width >= 70:
        assert row[0] in shown
        assert row[-1] in shown


def test_parameters_are_read_as_in_a_study_file() -> None:
    spec: dict[str, Json] = {"space": {"lr": {"type": "float"}, "n": {"type": "int"}}}
    pairs = ["lr=1", "n=4", "loss=dapo", "on=true", "quoted='4'", 'text="a b"', "e=1e-4"]
    assert parse_params(spec, pairs) == {
        "lr": 1.0,
        "n": 4,
        "loss": "dapo",
        "on": True,
        "quoted": "4",
        "text": "a b",
        "e": 1e-4,
    }
    assert isinstance(parse_params(spec, ["lr=1"])["lr"], float)


def test_shown_parameters_mean_the_same_when_they_are_typed_again() -> None:
    """1 and "1", true and "true" are different values, and are told apart."""
    values = {"a": 1, "b": "1", "c": True, "d": "true", "e": "dapo", "f": 0.5, "g": ".5", "h": ""}
    shown = params(values, 500)
    assert shown == 'a=1 b="1" c=true d="true" e=dapo f=0.5 g=".5" h=""'
    assert repr(parse_params({}, shown.split(" "))) == repr(values)
    assert params({"x": "two words"}) == 'x="two words"'


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x10", 16), ("nan", "nan"), ("inf", "inf"), ("1_000", 1000), ("TRUE", True), ("no", "no"),
     ("12:30", "12:30"), ("null", "null"), ("", ""), ("a: b", "a: b"), ("[1]", "[1]"), ("٣", "٣"),
     ("-.5", -0.5), ("+3", 3), ("08", "08"), ("# x", "# x"), ("'", "'"), ("&a", "&a")],
)  # fmt: skip
def test_a_word_means_what_it_means_in_a_study_file(text: str, value: object) -> None:
    found = parse_params({}, [f"x={text}"])["x"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "pairs", [["lr"], ["=1"], ["lr=1", "lr=2"], ["lr=.nan"], ["lr=1e999"], ["lr=" + "9" * 5000]]
)
def test_parameters_that_mean_nothing_are_refused(pairs: list[str]) -> None:
    with pytest.raises(InvalidInput, match="params"):
        parse_params({}, pairs)
