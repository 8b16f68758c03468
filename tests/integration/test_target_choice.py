"""Which target a study runs on: what `auto` picks, what is refused, and that it stays so."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import reads
from ledger.database import open_ledger
from ledger.records import AttemptKind
from targets.registry import problem_of
from tests.cli_runs import Arl, Done, arl_in, interrupt
from tests.private_engine import Engine
from tests.target_runs import end_supervisor, require_bubblewrap

NO_ENGINE = {"ARL_TARGET": "", "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
PATCHED = {"mutable": ["train.sh"], "mutable_reason": "it says how to train, not what a model is"}


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made
        if (made.home / "bubblewrap").is_dir():
            end_supervisor(made.home / "bubblewrap")


@pytest.fixture
def bare(arl: Arl) -> dict[str, str]:
    """An environment without any sandbox."""
    (arl.place / "no-programs").mkdir()
    return {**NO_ENGINE, "PATH": str(arl.place / "no-programs")}


def attempts_of(arl: Arl) -> dict[AttemptKind, set[str]]:
    """Where the attempts of the newest study ran, by kind, as the ledger has them."""
    ledger = open_ledger(arl.home / "ledger.db", create=False)
    found: dict[AttemptKind, set[str]] = {}
    try:
        with ledger.read() as session:
            study_id = arl.show()["study"]
            for item in reads.list_trials(session, study_id).items:
                for attempt in reads.get_trial(session, item.trial.id).attempts:
                    found.setdefault(attempt.kind, set()).add(attempt.target)
    finally:
        ledger.close()
    return found


def patched(arl: Arl, **sections: Any) -> str:
    file = arl.study(**sections)
    document = json.loads((arl.place / file).read_text())
    document["program"] |= PATCHED
    (arl.place / file).write_text(json.dumps(document))
    return file


def check_refused(arl: Arl, done: Done, *words: str) -> None:
    """Exit code 2, the sentence on standard error, and nothing of the study anywhere."""
    assert done.code == 2, done
    assert done.out == ""
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err
    if (arl.home / "ledger.db").exists():
        assert arl.ok("studies", "--json").json()["studies"] == []
    assert [*arl.home.glob("artifacts/objects/*")] == []
    assert [*arl.home.glob("*/attempts/*")] == []


def test_auto_is_local_where_no_sandbox_works_and_says_so_on_standard_error(
    arl: Arl, bare: dict[str, str]
) -> None:
    done = arl.ok("submit", arl.study(), "--json", **bare)
    assert done.json()["target"] == "local"
    told = arl.ok("submit", arl.study("other", file="other.yaml"), **bare)
    assert "trials run on target local" in told.err
    assert "no sandbox: trials are plain processes of your user" in told.err
    assert "bubblewrap: the program bwrap is not installed" in told.err
    assert "docker: " in told.err
    assert told.out.strip().startswith("s"), "standard output has the id alone"


@pytest.mark.bubblewrap
def test_auto_is_bubblewrap_where_no_engine_answers(arl: Arl) -> None:
    require_bubblewrap()
    done = arl.ok("run", arl.study(), **NO_ENGINE)
    assert "trials run on target bubblewrap (docker: " in done.err
    assert attempts_of(arl) == {
        AttemptKind.TRAIN: {"bubblewrap"},
        AttemptKind.EVALUATE: {"bubblewrap"},
    }


@pytest.mark.docker
def test_auto_is_docker_where_an_engine_answers(arl: Arl, docker_engine: Engine) -> None:
    assert problem_of("docker", {"engine": docker_engine.host}) is None
    engine = {"ARL_TARGET": "", "DOCKER_HOST": docker_engine.host}
    done = arl.ok("submit", arl.study(), "--json", **engine)
    assert done.json()["target"] == "docker"


def test_what_the_operator_names_is_auto(arl: Arl) -> None:
    done = arl.ok("submit", arl.study(), "--json", **{**NO_ENGINE, "ARL_TARGET": "local"})
    assert done.json()["target"] == "local"
    told = arl.run("submit", arl.study("two", file="two.yaml"), ARL_TARGET="cloud")
    assert told.code == 2
    assert "ARL_TARGET: 'cloud': write docker, bubblewrap or local" in told.err


def test_what_a_study_names_counts_more_than_the_operators_auto(arl: Arl) -> None:
    file = arl.study(target={"name": "local"})
    done = arl.ok("submit", file, "--json", ARL_TARGET="bubblewrap")
    assert done.json()["target"] == "local"


def test_code_that_a_model_writes_is_refused_where_nothing_holds_it(arl: Arl) -> None:
    file = patched(arl, target={"name": "local"})
    check_refused(arl, arl.run("submit", file), "target.name 'local'", "program.mutable")
    check_refused(arl, arl.run("run", file), "ARL_ALLOW_UNSANDBOXED_PATCHES=1")


def test_code_that_a_model_writes_is_refused_where_auto_finds_no_sandbox(
    arl: Arl, bare: dict[str, str]
) -> None:
    done = arl.run("submit", patched(arl), **bare)
    check_refused(
        arl, done, "target.name 'auto'", "no sandbox works", "apt-get install bubblewrap"
    )


def test_the_operator_may_allow_it_by_name_and_in_no_other_words(arl: Arl) -> None:
    file = patched(arl, target={"name": "local"})
    done = arl.run("submit", file, ARL_ALLOW_UNSANDBOXED_PATCHES="yes")
    check_refused(arl, done, "ARL_ALLOW_UNSANDBOXED_PATCHES: 'yes': write 1 or 0")
    check_refused(
        arl, arl.run("submit", file, ARL_ALLOW_UNSANDBOXED_PATCHES="0"), "program.mutable"
    )
    allowed = arl.ok("submit", file, "--json", ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    assert allowed.json()["target"] == "local"


@pytest.mark.bubblewrap
def test_code_that_a_model_writes_may_train_in_a_sandbox_and_be_scored_outside_as_weights(
    arl: Arl,
) -> None:
    require_bubblewrap()
    file = patched(arl, target={"name": "bubblewrap"})
    document = json.loads((arl.place / file).read_text())
    document["evaluator"]["target"] = "local"
    (arl.place / file).write_text(json.dumps(document))
    assert arl.ok("submit", file, "--json").json()["target"] == "bubblewrap"


@pytest.mark.bubblewrap
def test_code_that_answers_is_refused_where_only_its_training_is_held(arl: Arl) -> None:
    require_bubblewrap()
    file = patched(arl, target={"name": "bubblewrap"})
    document = json.loads((arl.place / file).read_text())
    document["program"].pop("mutable_reason")
    document["evaluator"] |= {
        "mode": "answers",
        "answer_argv": ["/bin/sh", "{source}/train.sh"],
        "target": "local",
    }
    (arl.place / file).write_text(json.dumps(document))
    done = arl.run("submit", file)
    check_refused(arl, done, "evaluator.target 'local'", "program.mutable")


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("training", "evaluating"), [("local", "bubblewrap"), ("bubblewrap", "local")]
)
def test_an_evaluator_runs_on_the_target_that_is_named_for_it(
    arl: Arl, training: str, evaluating: str
) -> None:
    require_bubblewrap()
    file = arl.study(target={"name": training})
    document = json.loads((arl.place / file).read_text())
    document["evaluator"]["target"] = evaluating
    document["evaluator"]["argv"] = ["/bin/sh", "-c", LOOK]
    (arl.place / file).write_text(json.dumps(document))
    arl.ok("run", file)
    assert attempts_of(arl) == {
        AttemptKind.TRAIN: {training},
        AttemptKind.EVALUATE: {evaluating},
    }
    inside = 1.0 if evaluating == "bubblewrap" else 0.0
    best = arl.show()["best"]
    assert best["value"] == inside, "it really ran there"


LOOK = """
if [ "$(uname -n)" = arl ]; then score=1; else score=0; fi
printf '{"metrics": {"score": %s}}' "$score" >&"$ARL_SCORE_FD"
"""


@pytest.mark.parametrize("name", ["local", "bubblewrap"])
def test_an_image_is_refused_where_none_are_run(arl: Arl, name: str) -> None:
    if name == "bubblewrap":
        require_bubblewrap()
    file = arl.study(target={"name": name, "image": "example/trial:1"})
    words = (f"target {name} does not read it", "write target.name: docker")
    check_refused(arl, arl.run("submit", file), "target.image", *words)
    file = arl.study(target={"name": name})
    document = json.loads((arl.place / file).read_text())
    document["evaluator"]["image"] = "example/evaluator:1"
    (arl.place / file).write_text(json.dumps(document))
    done = arl.run("submit", file)
    check_refused(arl, done, "evaluator.image", f"target {name} runs no images")


@pytest.mark.bubblewrap
def test_a_study_stays_on_the_target_that_was_chosen_when_it_was_submitted(arl: Arl) -> None:
    require_bubblewrap()
    study = arl.ok("submit", arl.study(), "--json", ARL_TARGET="local").json()["study"]
    arl.ok("resume", study, ARL_TARGET="bubblewrap")
    assert attempts_of(arl) == {AttemptKind.TRAIN: {"local"}, AttemptKind.EVALUATE: {"local"}}
    assert not os.path.isdir(arl.home / "bubblewrap" / "attempts") or not os.listdir(
        arl.home / "bubblewrap" / "attempts"
    )


@pytest.mark.bubblewrap
def test_a_study_that_auto_put_into_a_sandbox_is_not_gone_on_with_outside_of_it(
    arl: Arl, bare: dict[str, str]
) -> None:
    require_bubblewrap()
    study = arl.ok("submit", arl.study(), "--json", **NO_ENGINE).json()["study"]
    going_on = arl.start("resume", study, **bare)
    found = arl.wait_until(lambda document: document["state"] == "paused", study)
    interrupt(going_on)
    assert "bwrap is not installed" in found["detail"]
    assert attempts_of(arl) in ({}, {AttemptKind.TRAIN: {"bubblewrap"}})
    assert not (arl.home / "local").exists()
