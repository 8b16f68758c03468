"""Every target says something of every subject, and a sandbox promises what that takes."""

import pytest

from targets.conformance.claims import judge_sandbox
from targets.docker_container.promises import docker_promises
from targets.http_job.promises import promises_of_service
from targets.local_promises import bubblewrap_promises, local_promises
from targets.promises import UNSAID, Keeper, Promises, Subject, promises_of

ABLE = {"MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True}
PLACES = {"memory": "/sys/fs/cgroup/a", "pids": "/sys/fs/cgroup/b", "cpu": "/sys/fs/cgroup/c"}
SANDBOXES = [
    pytest.param(bubblewrap_promises({}), id="bubblewrap"),
    pytest.param(bubblewrap_promises(PLACES), id="bubblewrap with control groups"),
    pytest.param(docker_promises(ABLE), id="docker"),
    pytest.param(docker_promises({}), id="docker without limits"),
    pytest.param(promises_of_service(sandbox=True, images=True, egress=True), id="http"),
]
OTHERS = [
    pytest.param(local_promises(), id="local"),
    pytest.param(promises_of_service(sandbox=False, images=False, egress=False), id="plain http"),
]


@pytest.mark.parametrize("promises", [*SANDBOXES, *OTHERS])
def test_every_subject_has_a_sentence(promises: Promises) -> None:
    assert set(promises) == set(Subject)
    for promise in promises.values():
        assert promise.words
        assert not promise.words.endswith(".")
        assert "\n" not in promise.words


@pytest.mark.parametrize("promises", SANDBOXES)
def test_a_sandbox_promises_what_hostile_code_takes(promises: Promises) -> None:
    assert judge_sandbox(promises) == []


@pytest.mark.parametrize("promises", OTHERS)
def test_what_is_no_sandbox_promises_no_closed_network(promises: Promises) -> None:
    assert promises[Subject.NETWORK].kept_by is Keeper.NO
    assert "network" in "; ".join(judge_sandbox(promises))


def test_limits_that_an_engine_lacks_are_not_promised() -> None:
    said = docker_promises({**ABLE, "PidsLimit": False})
    assert said[Subject.PROCESSES].kept_by is Keeper.NO
    assert said[Subject.MEMORY].kept_by is Keeper.KERNEL


def test_a_target_that_says_nothing_is_held_to_everything() -> None:
    assert promises_of(object()) == dict.fromkeys(Subject, UNSAID)
    assert UNSAID.kept_by is not Keeper.NO
