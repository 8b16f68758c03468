"""Slots and the machine's resources."""

from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.slots import (
    Grant,
    Request,
    ResourcePool,
    fits,
    free_slots,
    never_fits,
)
from ledger.records import BudgetLine, Resource

GIB = 1024**3


def pool(cpus: float = 4, memory: int = 8, gpus: str = "") -> ResourcePool:
    return ResourcePool(cpus=cpus, memory_bytes=memory * GIB, gpu_ids=tuple(gpus))


def trials(limit: float | None, spent: float, reserved: float) -> BudgetLine:
    return BudgetLine(
        resource=Resource.TRIALS, limit=limit, spent=spent, reserved=reserved, overrun=0.0
    )


def test_slots_are_what_parallel_leaves() -> None:
    assert free_slots(4, 1) == 3
    assert free_slots(4, 4) == 0
    assert free_slots(4, 9) == 0


def test_no_more_proposals_than_the_budget_has_trials_left() -> None:
    assert free_slots(8, 0, trials(100, 95, 3)) == 2
    assert free_slots(8, 0, trials(100, 97, 3)) == 0
    assert free_slots(8, 0, trials(None, 1000, 3)) == 8


@given(
    limit=st.integers(1, 60),
    parallel=st.integers(1, 9),
    finishing=st.lists(st.integers(0, 9), max_size=200),
)
def test_the_trials_cap_is_exact_however_the_trials_finish(
    limit: int, parallel: int, finishing: list[int]
) -> None:
    spent = live = 0
    for done in finishing:
        live += free_slots(parallel, live, trials(limit, spent, live))
        assert spent + live <= limit
        assert live <= parallel
        done = min(done, live)
        spent, live = spent + done, live - done
    while live or free_slots(parallel, live, trials(limit, spent, live)):
        spent, live = spent + live, 0
        live += free_slots(parallel, live, trials(limit, spent, live))
    assert spent == limit


def test_gpus_are_given_whole_in_the_pools_order_and_never_twice() -> None:
    machine = pool(gpus="012")
    first = fits(machine, Request(gpus=2))
    assert first is not None
    assert first.gpu_ids == ("0", "1")
    second = fits(machine.with_grant("a", first), Request(gpus=1))
    assert second is not None
    assert second.gpu_ids == ("2",)
    full = machine.with_grant("a", first).with_grant("b", second)
    assert fits(full, Request(gpus=1)) is None
    freed = fits(full.without("a"), Request(gpus=1))
    assert freed is not None
    assert freed.gpu_ids == ("0",)


def test_ten_tenths_of_a_processor_are_one() -> None:
    machine = pool(cpus=1)
    for n in range(10):
        grant = fits(machine, Request(cpus=0.1))
        assert grant is not None, n
        machine = machine.with_grant(str(n), grant)
    assert fits(machine, Request(cpus=0.1)) is None


def test_a_tenth_and_two_tenths_fit_in_three_tenths() -> None:
    grant = fits(pool(cpus=0.3), Request(cpus=0.1))
    assert grant is not None
    assert fits(pool(cpus=0.3).with_grant("a", grant), Request(cpus=0.2)) is not None


def test_memory_is_not_overcommitted() -> None:
    machine = pool(memory=8)
    grant = fits(machine, Request(memory_bytes=5 * GIB))
    assert grant is not None
    assert fits(machine.with_grant("a", grant), Request(memory_bytes=4 * GIB)) is None
    assert fits(machine.with_grant("a", grant), Request(memory_bytes=3 * GIB)) is not None


def test_a_grant_is_held_until_it_is_given_back() -> None:
    machine = pool()
    grant = Grant(cpus=1, memory_bytes=0, gpu_ids=())
    held = machine.with_grant("a", grant)
    assert held.holds("a")
    assert not machine.holds("a")
    assert held.without("a") == machine
    assert machine.without("nobody") == machine


def test_a_request_no_empty_machine_could_meet_says_so() -> None:
    assert never_fits(pool(gpus="0"), Request(cpus=4, memory_bytes=8 * GIB, gpus=1)) is None
    assert "resources.cpus: 5: this machine gives 4" in str(never_fits(pool(), Request(cpus=5)))
    assert "resources.gpus: 1: this machine gives 0" in str(never_fits(pool(), Request(gpus=1)))
    assert "resources.memory" in str(never_fits(pool(), Request(memory_bytes=9 * GIB)))


@given(
    st.lists(st.tuples(st.floats(0.1, 3), st.integers(0, 3 * GIB), st.integers(0, 2)), max_size=20)
)
def test_whatever_is_granted_never_exceeds_the_machine(
    wanted: list[tuple[float, int, int]],
) -> None:
    machine = pool(cpus=4, memory=8, gpus="abc")
    for n, (cpus, memory_bytes, gpus) in enumerate(wanted):
        grant = fits(machine, Request(cpus=cpus, memory_bytes=memory_bytes, gpus=gpus))
        if grant is not None:
            machine = machine.with_grant(str(n), grant)
    grants = machine.grants.values()
    ids = [gpu for grant in grants for gpu in grant.gpu_ids]
    assert len(ids) == len(set(ids))
    assert sum(grant.memory_bytes for grant in grants) <= 8 * GIB
    assert sum(grant.cpus for grant in grants) <= 4 + 1e-6
