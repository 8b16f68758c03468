"""Who holds a lease, and whether it is known to be gone."""

import os

from controller.worker.leases import describe_holder, is_owner_gone, owner_name
from ledger.records import Study


def test_a_live_worker_of_this_host_is_not_gone() -> None:
    assert not is_owner_gone(owner_name("here"), "here")


def test_a_worker_whose_process_ended_is_gone_on_its_own_host_only() -> None:
    host, pid, started = owner_name("here").rsplit("/", 2)
    ticks, _, namespace = started.partition(".")
    another_life = f"{host}/{pid}/{int(ticks) + 1}.{namespace}"
    assert is_owner_gone(another_life, "here")
    assert not is_owner_gone(another_life, "there")
    assert is_owner_gone(f"here/{2**22 + 1}/{ticks}.{namespace}", "here")


def test_of_a_worker_in_another_container_nothing_is_known() -> None:
    host, pid, started = owner_name("here").rsplit("/", 2)
    ticks, _, namespace = started.partition(".")
    assert namespace.isdigit()
    assert not is_owner_gone(f"{host}/{pid}/{int(ticks) + 1}.{int(namespace) + 1}", "here")


def test_an_owner_that_an_older_arl_wrote_is_judged_by_its_process() -> None:
    host, pid, started = owner_name("here").rsplit("/", 2)
    ticks = started.partition(".")[0]
    assert not is_owner_gone(f"{host}/{pid}/{ticks}", "here")
    assert is_owner_gone(f"{host}/{pid}/{int(ticks) + 1}", "here")


def test_a_person_reads_the_host_and_the_process() -> None:
    study = Study.__new__(Study)
    object.__setattr__(study, "lease_owner", owner_name("team/here"))
    assert describe_holder(study) == f"worker {os.getpid()} on team/here"
