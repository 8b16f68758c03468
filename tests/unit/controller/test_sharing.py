"""Whose turn it is: shares by weight, priorities, ageing, and room that is set aside."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.decisions.sharing import (
    AGEING_S,
    Claimant,
    held_seconds,
    joining_spent,
    room_for,
    share_of,
    turns,
)
from controller.decisions.slots import Grant, Request, ResourcePool

ONE = Request(cpus=1.0)


def claimant(study_id: str, **changes: object) -> Claimant:
    return replace(
        Claimant(study_id=study_id, waiting_s=0.0, request=ONE),
        **changes,  # type: ignore[arg-type]  # fields of Claimant
    )


def machine(cpus: float = 4, gpus: str = "", **held: Grant) -> ResourcePool:
    return ResourcePool(cpus=cpus, memory_bytes=0, gpu_ids=tuple(gpus), grants=held)


def names(claimants: Sequence[Claimant]) -> list[str]:
    return [one.study_id for one in turns(claimants)]


def test_the_one_that_used_least_for_its_weight_is_next() -> None:
    assert names(
        [claimant("a", spent=4.0, weight=4.0), claimant("b", spent=1.5, expected=0.5)]
    ) == ["a", "b"]


def test_of_equal_use_the_one_that_waits_longest_is_next() -> None:
    assert names([claimant("a", waiting_s=1.0), claimant("b", waiting_s=2.0)]) == ["b", "a"]


def test_a_higher_priority_goes_first_whatever_was_used() -> None:
    assert names([claimant("a"), claimant("b", priority=1, spent=9e9)]) == ["b", "a"]


def test_who_wants_nothing_has_no_turn() -> None:
    assert names([claimant("a", waiting_s=None), claimant("b")]) == ["b"]


@pytest.mark.parametrize(("waited_s", "first"), [(AGEING_S - 1, "b"), (2 * AGEING_S, "a")])
def test_waiting_raises_a_priority(waited_s: float, first: str) -> None:
    assert names([claimant("a", waiting_s=waited_s), claimant("b", priority=1)])[0] == first


def test_the_share_is_that_of_the_scarcest_resource() -> None:
    pool = replace(machine(4, "01"), memory_bytes=100)
    assert share_of(pool, Request(cpus=1.0, memory_bytes=10, gpus=1)) == 0.5
    assert share_of(pool, Request(cpus=2.0, memory_bytes=80)) == 0.8
    assert share_of(machine(0), Request(cpus=0.0)) == 0.0


def test_a_trial_that_just_began_counts_for_what_it_will_come_to() -> None:
    assert held_seconds(0.5, 20.0, 60.0) == (10.0, 20.0)
    assert held_seconds(0.5, 100.0, 60.0) == (50.0, 0.0)


def test_a_study_that_was_away_comes_back_without_credit_and_without_debt() -> None:
    others = [claimant("a", spent=8.0, expected=99.0, weight=2.0), claimant("b", spent=6.0)]
    assert joining_spent(others, 0.5, 0.0) == 2.0
    assert joining_spent(others, 0.5, 3.0) == 3.0
    assert joining_spent([], 1.0, 0.5) == 0.5


def test_room_is_set_aside_for_who_waits_before() -> None:
    large = claimant("large", request=Request(cpus=3.0), waiting_s=9.0)
    small = claimant("small")
    pool = machine(4, x=Grant(cpus=2.0, memory_bytes=0, gpu_ids=()))
    assert room_for("small", [large, small], pool, ONE) is None
    assert room_for("small", [small], pool, ONE) is not None
    assert room_for("large", [large, small], machine(4), large.request) is not None


def test_a_small_trial_passes_a_large_one_where_it_takes_nothing_of_it() -> None:
    large = claimant("large", request=Request(cpus=1.0, gpus=2), waiting_s=9.0)
    small = claimant("small")
    pool = machine(4, "01", x=Grant(cpus=1.0, memory_bytes=0, gpu_ids=("0",)))
    assert room_for("small", [large, small], pool, ONE) is not None
    with_gpu = Request(cpus=1.0, gpus=1)
    assert room_for("small", [large, small], pool, with_gpu) is None, "that one is large's"


def test_what_is_set_aside_is_the_gpu_that_can_be_had_and_not_one_that_is_not_free_yet() -> None:
    one_gpu = Request(cpus=1, gpus=1)
    first = claimant("first", waiting_s=5.0, request=one_gpu)
    second = claimant("second", spent=1.0, waiting_s=5.0, request=one_gpu)
    pool = machine(gpus="01")
    assert room_for("second", [first, second], pool, one_gpu, unclean={"0"}) is None
    grant = room_for("first", [first, second], pool, one_gpu, unclean={"0"})
    assert grant is not None
    assert grant.gpu_ids == ("1",)


def test_what_can_never_fit_holds_up_nobody() -> None:
    giant = claimant("giant", request=Request(cpus=99.0), waiting_s=9.0)
    assert room_for("small", [giant, claimant("small")], machine(1), ONE) is not None


# --- a machine in simulation -----------------------------------------------------------------


@dataclass
class Study:
    weight: float
    priority: int
    request: Request
    durations: Sequence[float]
    used: float = 0.0
    begun: int = 0
    held: dict[int, float] = field(default_factory=dict)
    waits_since: float = 0.0
    longest_wait: float = 0.0


class Simulation:
    """Studies that always want one more trial, on one machine."""

    def __init__(self, pool: ResourcePool, studies: Mapping[str, Study]) -> None:
        self.pool = pool
        self.studies = studies
        self.now = 0.0
        self.ends: list[tuple[float, str, int]] = []
        self.begun: list[str] = []

    def claimants(self) -> list[Claimant]:
        return [self.claimant(name, study) for name, study in self.studies.items()]

    def claimant(self, name: str, study: Study) -> Claimant:
        share = share_of(self.pool, study.request)
        held = [held_seconds(share, self.now - since, 1.0) for since in study.held.values()]
        return Claimant(
            study_id=name,
            weight=study.weight,
            priority=study.priority,
            spent=study.used + sum(so_far for so_far, _ in held),
            expected=sum(still for _, still in held),
            waiting_s=self.now - study.waits_since,
            request=study.request,
        )

    def admit(self) -> None:
        progress = True
        while progress:
            progress = False
            for one in turns(self.claimants()):
                study = self.studies[one.study_id]
                grant = room_for(one.study_id, self.claimants(), self.pool, study.request)
                if grant is not None:
                    self.begin(one.study_id, study, grant)
                    progress = True
                    break

    def begin(self, name: str, study: Study, grant: Grant) -> None:
        number = study.begun
        study.begun += 1
        study.held[number] = self.now
        study.longest_wait = max(study.longest_wait, self.now - study.waits_since)
        study.waits_since = self.now
        self.pool = self.pool.with_grant(f"{name}-{number}", grant)
        took = study.durations[number % len(study.durations)]
        heapq.heappush(self.ends, (self.now + took, name, number))
        self.begun.append(name)

    def run(self, until: float) -> None:
        self.admit()
        while self.ends and self.ends[0][0] <= until:
            self.now, name, number = heapq.heappop(self.ends)
            study = self.studies[name]
            since = study.held.pop(number)
            study.used += share_of(self.pool, study.request) * (self.now - since)
            self.pool = self.pool.without(f"{name}-{number}")
            self.check()
            self.admit()
            self.check()

    def check(self) -> None:
        grants = self.pool.grants.values()
        assert sum(grant.cpus for grant in grants) <= self.pool.cpus + 1e-9
        gpus = Counter(gpu for grant in grants for gpu in grant.gpu_ids)
        assert not gpus or max(gpus.values()) == 1


def study(weight: float, durations: Sequence[float] = (1.0,), **changes: object) -> Study:
    return replace(
        Study(weight=weight, priority=0, request=ONE, durations=durations),
        **changes,  # type: ignore[arg-type]  # fields of Study
    )


LENGTHS = st.lists(st.sampled_from([0.5, 1.0, 2.0, 5.0]), min_size=1, max_size=5)


@settings(max_examples=25)
@given(
    weights=st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=5),
    lengths=st.lists(LENGTHS, min_size=5, max_size=5),
    slots=st.integers(1, 3),
)
def test_time_on_the_machine_is_shared_by_weight(
    weights: list[float], lengths: list[list[float]], slots: int
) -> None:
    """However long their trials are and however few slots there are. A study cannot use more
    slots than there are, so weights are what they are for at least as many studies as slots."""
    studies = {f"s{index}": study(weight, lengths[index]) for index, weight in enumerate(weights)}
    simulation = Simulation(machine(slots), studies)
    simulation.run(until=600.0)
    normalised = [one.used / one.weight for one in studies.values()]
    longest = max(max(length) for length in lengths)
    # Fair queueing is off by no more than the trials that are under way.
    bound = 2 * (slots + 1) * longest / slots / min(weights)
    assert max(normalised) - min(normalised) <= bound


@settings(max_examples=25)
@given(
    priorities=st.lists(st.integers(-2, 2), min_size=2, max_size=5),
    lengths=st.lists(LENGTHS, min_size=5, max_size=5),
)
def test_nobody_starves_behind_higher_priorities(
    priorities: list[int], lengths: list[list[float]]
) -> None:
    studies = {
        f"s{index}": study(1.0, lengths[index], priority=priority)
        for index, priority in enumerate(priorities)
    }
    simulation = Simulation(machine(1), studies)
    simulation.run(until=7 * AGEING_S)
    highest = max(priorities)
    for one in studies.values():
        # One more step lifts it above; then those of its level, one trial each, are before it.
        bound = (highest - one.priority + 1) * AGEING_S + 5.0 * (len(studies) + 1)
        assert one.longest_wait <= bound
        assert one.begun > 0


@settings(max_examples=25)
@given(
    large=st.integers(2, 4),
    lengths=st.lists(LENGTHS, min_size=4, max_size=4),
)
def test_a_large_trial_gets_its_gpus_however_many_small_ones_there_are(
    large: int, lengths: list[list[float]]
) -> None:
    studies = {
        f"small{index}": study(1.0, lengths[index], request=Request(cpus=1.0, gpus=1))
        for index in range(3)
    }
    studies["large"] = study(1.0, lengths[3], request=Request(cpus=1.0, gpus=large))
    simulation = Simulation(machine(16, "0123"), studies)
    simulation.run(until=500.0)
    assert studies["large"].longest_wait <= 60.0
    assert studies["large"].begun > 4


def test_the_highest_priority_alone_has_the_machine_while_it_wants_it() -> None:
    studies = {"low": study(9.0), "high": study(0.5, priority=1)}
    simulation = Simulation(machine(2), studies)
    simulation.run(until=AGEING_S / 2)
    assert set(simulation.begun) == {"high"}
