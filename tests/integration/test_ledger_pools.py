"""What trials hold of a host: within its size and no GPU twice, at every commit, from anywhere."""

import multiprocessing
import random
import time
from collections import Counter
from multiprocessing.synchronize import Event

import pytest

from ledger import pools, writes
from ledger.database import Ledger, open_ledger
from ledger.pool_writes import HostFull, HostSize, Taking
from ledger.pools import MICRO, Hold, Want
from tests.ledger_builders import claim, submit

SIZE = HostSize(micro_cpus=4 * MICRO, memory_bytes=8)
GPUS = ("0", "1")


def hold(trial: str, study: str = "s1", host: str = "node1", **changes: object) -> Hold:
    wanted: dict[str, object] = {"micro_cpus": MICRO, "memory_bytes": 0, "gpu_ids": (), **changes}
    return Hold(trial_id=trial, study_id=study, host=host, **wanted)  # type: ignore[arg-type]  # fields of Hold


def take(ledger: Ledger, *holds: Hold, must_fit: bool = True, back: tuple[str, ...] = ()) -> None:
    taken = [Taking(hold=one, must_fit=must_fit) for one in holds]
    with ledger.write() as session:
        writes.change_holds(session, SIZE, given_back=back, taken=taken)


def held(ledger: Ledger, host: str = "node1") -> list[str]:
    with ledger.read() as session:
        return [one.trial_id for one in pools.holds_of_host(session, host)]


def test_a_host_is_filled_to_its_size_and_no_further(ledger: Ledger) -> None:
    submit(ledger, "s1")
    take(ledger, *(hold(f"t{n}") for n in range(4)))
    with pytest.raises(HostFull, match="no room"):
        take(ledger, hold("t4", micro_cpus=1))
    take(ledger, hold("t4"), back=("t0",))
    assert held(ledger) == ["t1", "t2", "t3", "t4"]


def test_memory_counts_and_another_host_has_its_own(ledger: Ledger) -> None:
    submit(ledger, "s1")
    take(ledger, hold("a", memory_bytes=8))
    with pytest.raises(HostFull, match="8 bytes"):
        take(ledger, hold("b", memory_bytes=1))
    take(ledger, hold("b", host="node2", memory_bytes=1))
    take(ledger, hold("c"))
    assert (held(ledger), held(ledger, "node2")) == (["a", "c"], ["b"])


def test_a_gpu_is_never_held_twice_not_even_by_what_need_not_fit(ledger: Ledger) -> None:
    submit(ledger, "s1")
    take(ledger, hold("a", gpu_ids=("0",)))
    for must_fit in (True, False):
        with pytest.raises(HostFull, match="gpu 0"):
            take(ledger, hold("b", gpu_ids=("1", "0")), must_fit=must_fit)
    take(ledger, hold("b", gpu_ids=("0",)), back=("a",))
    assert held(ledger) == ["b"]


def test_the_database_itself_refuses_a_gpu_that_is_held(ledger: Ledger) -> None:
    from sqlalchemy import insert

    from ledger.errors import Conflict
    from ledger.tables import Base

    submit(ledger, "s1")
    take(ledger, hold("a", gpu_ids=("0",)))
    row = {"host": "node1", "gpu_id": "0", "trial_id": "b"}
    with pytest.raises(Conflict), ledger.write() as session:
        session.connection.execute(insert(Base.metadata.tables["pool_gpus"]).values(row))


def test_what_runs_already_is_held_past_the_size(ledger: Ledger) -> None:
    submit(ledger, "s1")
    take(ledger, *(hold(f"t{n}") for n in range(6)), must_fit=False)
    assert len(held(ledger)) == 6
    with pytest.raises(HostFull):
        take(ledger, hold("t7"))


def test_a_refused_hold_takes_the_whole_transaction_back(ledger: Ledger) -> None:
    submit(ledger, "s1")
    take(ledger, hold("a", gpu_ids=("0",)))
    with pytest.raises(HostFull):
        take(ledger, hold("b"), hold("c", gpu_ids=("0",)), back=("a",)[1:])
    assert held(ledger) == ["a"]


def test_abandoned_holds_go_only_while_nobody_claims_the_study(ledger: Ledger) -> None:
    submit(ledger, "s1")
    fence = claim(ledger, "s1")
    take(ledger, hold("a", gpu_ids=("0",)))
    with ledger.write() as session:
        assert writes.drop_abandoned(session, "s1", fence - 1, ["a"]) == 0
    assert held(ledger) == ["a"]
    with ledger.write() as session:
        assert writes.drop_abandoned(session, "s1", fence, ["a"]) == 1
    take(ledger, hold("b", gpu_ids=("0",)))


def want(study: str, owner: str, **changes: object) -> Want:
    fields: dict[str, object] = {
        "host": "node1",
        "weight": 1.0,
        "priority": 0,
        "used": 0.0,
        "expected_s": 1.0,
        "waits_since": 5.0,
        "micro_cpus": MICRO,
        "memory_bytes": 0,
        "gpus": 0,
        **changes,
    }
    return Want(study_id=study, owner=owner, **fields)  # type: ignore[arg-type]  # fields of Want


def test_only_the_holder_of_the_lease_says_what_a_study_waits_for(ledger: Ledger) -> None:
    submit(ledger, "s1")
    with ledger.write() as session:
        assert writes.claim_study(session, "s1", "node1/7/9", 60.0, dead=False) is not None
    for owner in ("node1/7/9", "node1/8/9"):
        with ledger.write() as session:
            writes.say_wants(session, [want("s1", owner)])
        with ledger.read() as session:
            said = [pools.host_use(session, "node1").wants, pools.all_wants(session)]
        assert [[one.owner for one in wants] for wants in said] == [["node1/7/9"]] * 2
    with ledger.write() as session:
        writes.forget_want(session, "s1", "node1/7/9")
    with ledger.read() as session:
        assert pools.find_want(session, "s1") is None


def test_workers_that_are_not_heard_of_are_forgotten(ledger: Ledger) -> None:
    with ledger.write() as session:
        session.set_now(session.now() - 100.0)
        writes.see_worker(session, "node1/1/1", "node1", 1000.0)
    with ledger.write() as session:
        writes.see_worker(session, "node1/2/2", "node1", 1000.0)
    with ledger.read() as session:
        assert pools.seen_workers(session, 900.0) == ["node1/1/1", "node1/2/2"]
        assert pools.seen_workers(session, 90.0) == ["node1/2/2"]
    with ledger.write() as session:
        writes.see_worker(session, "node1/3/3", "node1", 50.0)
        writes.forget_worker(session, "node1/2/2")
    with ledger.read() as session:
        assert pools.seen_workers(session, 900.0) == ["node1/3/3"]


# --- from several processes --------------------------------------------------------------------


def take_and_give_back(url: str, number: int, rounds: int, done: Event) -> None:
    """One worker: it takes what it thinks may be free, without looking, and gives it back."""
    dice = random.Random(number)
    ledger = open_ledger(url, create=False)
    try:
        for index in range(rounds):
            trial = f"w{number}-{index}"
            gpus = (dice.choice(GPUS),) if dice.random() < 0.6 else ()
            one = hold(trial, micro_cpus=dice.randint(1, 3) * MICRO, gpu_ids=gpus)
            try:
                take(ledger, one)
            except HostFull:
                continue
            time.sleep(dice.uniform(0.0, 0.004))
            take(ledger, back=(trial,))
    finally:
        ledger.close()
        done.set()


def test_processes_that_race_for_one_host_never_hold_more_than_it_has(ledger: Ledger) -> None:
    submit(ledger, "s1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    done = [context.Event() for _ in range(4)]
    running = [
        context.Process(target=take_and_give_back, args=(ledger.address, number, 40, event))
        for number, event in enumerate(done)
    ]
    for process in running:
        process.start()
    fullest = 0
    while not all(event.is_set() for event in done):
        with ledger.read() as session:
            found = pools.holds_of_host(session, "node1")
        cpus = sum(one.micro_cpus for one in found)
        gpus = Counter(gpu for one in found for gpu in one.gpu_ids)
        assert cpus <= SIZE.micro_cpus
        assert not gpus or max(gpus.values()) == 1
        fullest = max(fullest, cpus)
    for process in running:
        process.join(timeout=60)
    assert [process.exitcode for process in running] == [0] * 4
    assert held(ledger) == []
    assert fullest >= 3 * MICRO, "they did race"
