"""Containers of whole studies, as users of other systems suffered them (5e, 5f)."""

import subprocess
import time

import pytest

from controller.spec.loading import parse_study
from ledger import reads
from ledger.states import Reason, StudyState, TrialState
from tests.acceptance.container_lab import ContainerLab, engine, evaluate, lab, train
from tests.acceptance.shell_study import target_named
from tests.acceptance.test_hostile_candidates import short_grace
from tests.acceptance.test_pain_crashes import PATIENT
from tests.private_engine import Engine
from tests.target_runs import log_of, processes_marked

__all__ = ["engine", "lab", "short_grace"]
pytestmark = pytest.mark.docker

LIMITED = {"resources": {"cpus": 1, "wall_time": "2s", "logs": "64KiB"}}


def test_a_script_that_times_out_leaves_nothing_of_its_tree_in_any_container(
    lab: ContainerLab,
) -> None:
    mark = f"ARL_PAIN={lab.base.name}"
    tree = f"export {mark}; (setsid sleep 61 &); (sleep 62 & sleep 63 &); sh -c 'sleep 64'"
    study_id = lab.submit(program=train({0.1: tree}), budget={"trials": 2}, **LIMITED, **PATIENT)
    lab.drive(study_id)
    first, second = lab.trials(study_id)
    assert first.reason is Reason.TIMED_OUT
    assert second.value == 0.2
    assert processes_marked(mark) == []


@pytest.mark.parametrize("where", ["program", "evaluator"])
def test_an_endless_loop_in_a_container_is_ended_within_its_limit(
    lab: ContainerLab, where: str
) -> None:
    loop = {0.1: "trap '' TERM; while :; do :; done"}
    study_id = lab.submit(
        program=train(loop if where == "program" else {}),
        evaluator=evaluate(loop if where == "evaluator" else {}, wall_time="2s"),
        retries={"evaluator": 0},
        budget={"trials": 2},
        **LIMITED,
        **PATIENT,
    )
    started = time.monotonic()
    lab.drive(study_id)
    assert time.monotonic() - started < 30
    first, second = lab.trials(study_id)
    assert first.reason in (Reason.TIMED_OUT, Reason.EVALUATOR_ERROR)
    assert second.value == 0.2


def test_a_container_that_dies_without_cleaning_up_fails_alone(lab: ContainerLab) -> None:
    study_id = lab.submit(
        program=train({0.2: "kill -SEGV $$"}), budget={"trials": 4}, parallel=2, **PATIENT
    )
    lab.drive(study_id)
    states = [t.state for t in lab.trials(study_id)]
    assert states.count(TrialState.FAILED) == 1
    assert lab.trials(study_id)[1].reason is Reason.CRASHED


def test_memory_taken_in_a_child_alone_is_out_of_memory(lab: ContainerLab) -> None:
    greedy = "sh -c 'x=a; while :; do x=$x$x; done'; sleep 0.2; "
    study_id = lab.submit(
        program=train({0.1: greedy}),
        budget={"trials": 2},
        resources={"cpus": 1, "memory": "64MiB"},
        **PATIENT,
    )
    lab.drive(study_id)
    first, second = lab.trials(study_id)
    assert first.reason is Reason.OUT_OF_MEMORY
    assert second.value == 0.2


def test_a_container_of_a_killed_controller_ends_at_its_own_deadline(lab: ContainerLab) -> None:
    study_id = lab.submit(
        program=train({0.1: "trap '' TERM; while :; do sleep 1; done"}),
        budget={"trials": 2},
        **LIMITED,
        **PATIENT,
    )
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    lab.wait_for(lambda: name in lab.containers(), "it runs")
    worker.kill()
    lab.wait_for(lambda: lab.listener.of("die", name), "it is ended with no controller", 20.0)
    lab.wait_for(lambda: name not in lab.containers(), "the engine says so too")
    lab.drive(study_id)
    first, second = lab.trials(study_id)
    assert first.reason is Reason.TIMED_OUT
    assert second.value == 0.2


def test_a_trial_has_no_way_to_start_containers_of_its_own(
    lab: ContainerLab, engine: Engine
) -> None:
    looks = (
        f"[ -e {engine.socket} ] && exit 91; [ -e /var/run/docker.sock ] && exit 92; "
        '[ -e /run/docker.sock ] && exit 93; [ -n "$DOCKER_HOST" ] && exit 94; '
        "find / -xdev -type s 2>/dev/null | grep -q . && exit 95; "
    )
    study_id = lab.submit(program=train(every=looks), budget={"trials": 1})
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert lab.trials(study_id)[0].value == 0.1


def test_a_container_that_does_nothing_any_more_is_ended_as_stalled(lab: ContainerLab) -> None:
    study_id = lab.submit(
        program=train({0.1: "exec sleep 60"}),
        budget={"trials": 2},
        resources={"cpus": 1, "stall_time": "2s"},
        **PATIENT,
    )
    lab.drive(study_id)
    assert lab.trials(study_id)[0].reason is Reason.STALLED
    assert lab.trials(study_id)[1].value == 0.2


def test_a_flood_of_a_containers_output_stays_small_and_hides_no_metric(
    lab: ContainerLab, engine: Engine
) -> None:
    line = 'echo "{\\"step\\": 1, \\"metric\\": \\"loss\\", \\"value\\": 0.5}" >> "$ARL_REPORTS"'
    flood = f"echo FIRST; head -c 30000000 /dev/zero; {line}; echo LAST; sleep 3"
    study_id = lab.submit(
        program=train({0.1: flood}),
        budget={"trials": 1},
        resources={"cpus": 1, "logs": "64KiB"},
    )
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    lab.wait_for(lambda: lab.entries(study_id, "values_reported"), "it has flooded")
    assert name in lab.containers()
    assert engine.directory is not None
    used = subprocess.run(
        ["du", "--summarize", "--bytes", engine.directory / "data" / "containers"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(used.stdout.split()[0]) < 8_000_000, "the engine keeps no more of it either"
    assert worker.join() == 0
    assert lab.trials(study_id)[0].value == 0.1
    (entry,) = lab.entries(study_id, "values_reported")
    assert entry.payload["count"] == 1
    with lab.service() as service:
        log = log_of(target_named(service, "docker"), name)
    assert log.startswith("FIRST\n")
    assert log.endswith("LAST\n")
    assert sum(path.stat().st_size for path in (lab.place / "logs").iterdir()) < 300_000


def test_the_answer_key_is_nowhere_in_a_training_container(lab: ContainerLab) -> None:
    looks = (
        "grep -r -l -e '[s]earch-[0-7]' -e '[h]oldout-[0-7]' / --exclude-dir=proc "
        "--exclude-dir=sys --exclude-dir=usr --exclude-dir=dev 2>/dev/null | grep -q . "
        "&& exit 91; "
        "ls / /arl /arl/inputs | grep -q -i -e evaluator -e split -e holdout && exit 92; "
    )
    study_id = lab.submit(program=train(every=looks), budget={"trials": 1})
    for split in ("search", "holdout"):
        assert f"{split}-7" in (lab.base / "evaluator" / f"{split}.jsonl").read_text()
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert lab.trials(study_id)[0].value == 0.1


SCORER = """
import json, os
with open(os.environ["ARL_INPUTS"] + "/artifact/x") as file:
    score = float(file.read())
os.write(3, json.dumps({"metrics": {"score": score}}).encode())
"""


def test_no_module_or_metric_line_of_a_trial_reaches_the_evaluators_container(
    lab: ContainerLab,
) -> None:
    score_line = '{"metrics": {"score": 1.0}}'
    forged = f'import os; os.write(3, rb"""{score_line}"""); os._exit(0)'
    every = (
        f"echo '{score_line}'; echo '{score_line}' > \"$ARL_OUTPUT/score\"; "
        'mkdir "$ARL_OUTPUT/model"; for at in "$ARL_OUTPUT/model" "$HOME" /tmp .; do '
        f"for name in json os sitecustomize usercustomize; do echo '{forged}' > $at/$name.py; "
        "done; done; "
    )
    program = train(every=every)
    program["argv"][2] = program["argv"][2].replace(
        'mkdir "$ARL_OUTPUT/model"; echo "$x"', 'echo "$x"'
    )
    (lab.base / "evaluator").mkdir()
    (lab.base / "evaluator" / "score.py").write_text(SCORER)
    study_id = lab.submit(
        program=program,
        evaluator=evaluate() | {"argv": ["{python}", "-I", "{bundle}/score.py"]},
        budget={"trials": 2},
    )
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert [t.value for t in lab.trials(study_id)] == [0.1, 0.2]


def test_a_container_has_no_network_unless_its_study_lists_hosts(lab: ContainerLab) -> None:
    alone = '[ "$(grep -c : /proc/net/dev)" = 1 ] && grep -q "^ *lo:" /proc/net/dev || exit 91; '
    routes = '[ "$(wc -l < /proc/net/route)" = 1 ] || exit 92; '
    study_id = lab.submit(
        program=train(every=alone + routes),
        evaluator=evaluate({0.1: alone + routes, 0.2: alone + routes}),
        budget={"trials": 2},
    )
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert [t.value for t in lab.trials(study_id)] == [0.1, 0.2]
    with lab.service() as service, service.ledger.read() as session:
        spec = parse_study(reads.get_study(session, study_id).spec)
    assert spec.target.egress == (), "which the ledger says"


def test_inputs_are_read_only_in_every_container(lab: ContainerLab) -> None:
    (lab.base / "rows.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    writes = (
        'for at in "$ARL_INPUTS"/*; do echo no > "$at/new" && exit 91; rm -rf "$at" && exit 92; '
        'ln -s /tmp "$at/link" && exit 93; mv "$at" /tmp/moved && exit 94; '
        'for file in "$at" "$at"/*; do [ -f "$file" ] && echo no >> "$file" && exit 95; done; '
        "done 2>/dev/null; "
    )
    program = train(every=writes) | {"data": {"rows": "./rows.jsonl"}}
    study_id = lab.submit(program=program, evaluator=evaluate({0.1: writes}), budget={"trials": 1})
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert lab.trials(study_id)[0].value == 0.1
    assert (lab.base / "rows.jsonl").read_text() == '{"prompt": "a", "answer": "b"}\n'
