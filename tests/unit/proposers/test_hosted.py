"""A proposer in a process of its own proposes what it would here, whatever happens to it."""

import copy
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import ProposerFailed
from ledger.records import Direction, Objective
from ledger.search import Constraint, FinishedTrial, History, PendingTrial, Proposal, Proposals
from ledger.states import Reason, TrialState
from proposers.chat import Chat
from proposers.chat_options import LLMOptions
from proposers.host import ask
from proposers.hosted import Hosted
from proposers.llm import LLM
from proposers.protocol import Closable
from tests.hosted_proposers import (
    SPACE,
    AsksBack,
    Witness,
    cannot_be_built,
    cannot_be_built_at_first,
    does,
    hosted,
    is_gone_soon,
    is_there,
    pid_of,
)

ROOT = Path(__file__).resolve().parents[3]
OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)
Make = Callable[..., Hosted]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes hosted proposers; they are closed at the end."""
    made: list[Hosted] = []

    def one(*arguments: Any, **how: Any) -> Hosted:
        made.append(hosted(*arguments, **how))
        return made[-1]

    yield one
    for proposer in made:
        proposer.close()


def trial(number: int, value: float | None = 0.5) -> FinishedTrial:
    return FinishedTrial(
        number=number,
        params={"n": number},
        state=TrialState.COMPLETE if value is not None else TrialState.FAILED,
        value=value,
        reason=Reason.WORSE if value is not None else Reason.CRASHED,
        candidate_id=f"c{number}",
        kept=number % 2 == 0,
        scores={"score": value or 0.0, "ünits": float("nan")},
        detail="it \ud800 broke",
    )


def history(size: int, **changes: Any) -> History:
    given: dict[str, Any] = {
        "objective": OBJECTIVE,
        "next_number": size,
        "finished": tuple(trial(n) for n in range(size)),
        "proposed": frozenset(f"digest {n}" for n in range(size)),
    }
    return History(**{**given, **changes})


def propose(proposer: Any, told: History, state: bytes | None = None, count: int = 2) -> Proposals:
    return ask(proposer, told, space=SPACE, count=count, seed=7, state=state)


def test_it_is_told_every_word_of_any_history(make: Make) -> None:
    dice = random.Random(5)
    proposer, here = make(Witness), Witness()
    told, state = history(0), None
    pids = set()
    for turn in range(60):
        told = changed(told, dice, turn)
        state = dice.choice([state, state, b"another", None])
        before = copy.copy(told)
        given = propose(proposer, told, state)
        assert given == propose(here, told, state)
        assert told == before
        pids.add(pid_of(proposer))
        state = given.state
    assert len(pids) == 1


def changed(told: History, dice: random.Random, turn: int) -> History:
    """The history a little later; now and then one of another past."""
    size = len(told.finished)
    match dice.randrange(9):
        case 0:
            return history(dice.randrange(size + 1), noise_floor=dice.random())
        case 1 if size:  # something else happened in the middle
            finished = list(told.finished)
            finished[dice.randrange(size)] = trial(1000 + turn, None)
            return replace(told, finished=tuple(finished))
        case 2:
            return replace(told, proposed=frozenset(list(told.proposed)[1:]) | {f"other {turn}"})
        case 3:
            return replace(told, finished=[copy.deepcopy(t) for t in told.finished])
        case 4:
            bound = Constraint(metric="cost", low=None, high=dice.random())
            pending = PendingTrial(number=size, params={"n": 3}, candidate_id="c")
            return replace(told, constraints=(bound,), pending=(pending,), best=dice.random())
        case _:
            new = tuple(trial(size + n, dice.random()) for n in range(dice.randrange(4)))
            proposed = told.proposed | {f"digest {size + n}" for n in range(5)}
            return replace(
                told,
                next_number=told.next_number + 2,
                finished=(*told.finished, *new),
                proposed=frozenset(proposed),
            )


def test_what_was_sent_once_is_not_sent_again(make: Make) -> None:
    proposer = make(Witness)
    told, state = history(3000), b"s" * 1_000_000
    sent: list[int] = []
    state = propose(proposer, told, state).state
    process = proposer._process
    assert process is not None
    real = process._channel

    class Counting:
        def sendall(self, data: bytes) -> None:
            sent.append(len(data))
            real.sendall(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    process._channel = Counting()  # type: ignore[assignment]  # a socket that counts
    more = replace(told, finished=(*told.finished, trial(3001)))
    propose(proposer, more, state)
    assert 100 < sum(sent) < 5000


def test_proposals_come_back_as_they_were_made(make: Make) -> None:
    items = [
        Proposal(
            params={"n": 5},
            parent_id="c1",
            patch="--- a\n+++ b\n",
            rationale="wörds \U0001f600",
            proposer="an arm",
            defect=Reason.NO_CHANGE,
            defect_detail="it is the same",
        )
    ]
    made = Proposals(items=items, state=bytes(range(256)), retry_after_s=1.5, waits_for="rain")
    assert propose(make(does, "gives", made), history(0)) == made


def test_what_breaks_the_contract_is_said_as_it_is_here(make: Make) -> None:
    for broken in (
        "nothing",
        Proposals(items=[Proposal(params={"n": -1})]),
        Proposals(items=[Proposal(params={"n": 1})] * 3),
        Proposals(items=[], state="text"),  # type: ignore[arg-type]  # what a bad one gives
    ):
        with pytest.raises(ProposerFailed) as there:
            propose(make(does, "gives", broken), history(0))
        with pytest.raises(ProposerFailed) as here:
            propose(does("gives", broken), history(0))
        assert str(there.value) == str(here.value)


def test_what_it_raises_is_the_studys_failure_at_once(make: Make) -> None:
    proposer = make(does, "raises", "no such thing")
    for _ in range(2):
        with pytest.raises(ProposerFailed, match=r"^it raised KeyError: 'no such thing'$"):
            propose(proposer, history(2))
        assert is_there(pid_of(proposer))
    with pytest.raises(ProposerFailed, match=r"^it raised ValueError: there is no such thing$"):
        propose(make(cannot_be_built), history(2))


def test_one_that_is_built_later_knows_what_was_told_before(make: Make, tmp_path: Path) -> None:
    proposer = make(cannot_be_built_at_first, tmp_path / "happened")
    told = history(2)
    with pytest.raises(ProposerFailed, match="not yet"):
        propose(proposer, told)
    more = replace(told, finished=(*told.finished, trial(2)))
    assert propose(proposer, more) == propose(Witness(), more)


@pytest.mark.parametrize("word", ["dies", "has no memory"])
def test_a_process_that_dies_in_a_call_is_replaced(make: Make, tmp_path: Path, word: str) -> None:
    proposer = make(does, word, tmp_path / "happened")
    assert propose(proposer, history(3), b"s") == propose(Witness(), history(3), b"s")


def test_a_process_that_hangs_is_ended_and_replaced(make: Make, tmp_path: Path) -> None:
    proposer = make(does, "hangs", tmp_path / "happened", call_s=3.0)
    assert propose(proposer, history(3)) == propose(Witness(), history(3))


def test_one_that_always_dies_is_given_up_with_how_it_ended(make: Make) -> None:
    with pytest.raises(ProposerFailed) as failed:
        propose(make(does, "always dies"), history(1))
    assert str(failed.value) == (
        "its process was ended by SIGKILL, as the kernel does when memory runs out; it said last: "
        "the last words; tried 3 times"
    )
    with pytest.raises(ProposerFailed, match=r"SIGSEGV; it said last: .*string_at.*_breaks"):
        propose(make(does, "breaks"), history(1))
    with pytest.raises(ProposerFailed, match=r"gave no answer in 1 s and was ended; tried 3"):
        propose(make(does, "waits", 60, call_s=1.0), history(1))


def test_garbage_instead_of_an_answer_is_refused(make: Make) -> None:
    with pytest.raises(ProposerFailed, match=r"gave what is no answer \(it has \d+ bytes; at"):
        propose(make(does, "babbles"), history(1))


def test_ten_kills_between_calls_and_ten_in_the_middle_change_nothing(make: Make) -> None:
    proposer, here = make(does, "waits", 0.3), Witness()
    state = None
    pids = []
    for number in range(20):
        told = history(number)
        is_between = number % 2 == 0
        if is_between and pids:
            os.kill(pid_of(proposer), signal.SIGKILL)
        killer = threading.Thread(target=kill_in_the_middle, args=(proposer,))
        if not is_between:
            killer.start()
        given = propose(proposer, told, state)
        if not is_between:
            killer.join()
        assert given == propose(here, told, state)
        state = given.state
        pids.append(pid_of(proposer))
    assert len(set(pids)) >= 19
    assert not [pid for pid in pids[:-1] if pid != pids[-1] and is_there(pid)]


def kill_in_the_middle(proposer: Hosted) -> None:
    time.sleep(0.15)
    os.kill(pid_of(proposer), signal.SIGKILL)


def test_one_that_is_not_needed_ends_and_is_started_again(make: Make) -> None:
    proposer, here = make(Witness, idle_s=0.2), Witness()
    state, pids = None, set()
    for number in range(3):
        given = propose(proposer, history(number), state)
        assert given == propose(here, history(number), state)
        state = given.state
        pids.add(pid_of(proposer))
        assert is_gone_soon(pid_of(proposer))
    assert len(pids) == 3


def test_ending_for_idleness_during_a_call_costs_no_try(make: Make) -> None:
    """The moment of ending is swept over the moment of asking."""
    proposer, here = make(Witness, idle_s=0.05), Witness()
    for number in range(15):
        assert propose(proposer, history(number)) == propose(here, history(number))
        time.sleep(0.04 + number / 1000)


def test_one_that_grew_is_replaced_after_the_call(make: Make) -> None:
    proposer, here = make(does, "grows", 60_000_000, memory_bytes=80_000_000), Witness()
    propose(proposer, history(1))
    first = pid_of(proposer)
    assert not is_there(first)
    assert propose(proposer, history(2), b"s") == propose(here, history(2), b"s")


def test_what_it_says_holds_up_nothing(make: Make) -> None:
    assert propose(make(does, "talks"), history(1)) == propose(Witness(), history(1))


def test_it_inherits_no_secret_no_descriptor_and_no_place(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARL_SECRET_LLM", "hidden")
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        said = propose(make(does, "tells", "ARL_SECRET_LLM"), history(0)).items[0].rationale
    assert said.startswith("ARL_SECRET_LLM=None / ['/dev/null', 'pipe:")
    assert int(said.rpartition(" ")[2]) <= 5
    said = propose(make(does, "tells", "OMP_NUM_THREADS"), history(0)).items[0].rationale
    assert said.startswith("OMP_NUM_THREADS=1 ")


def test_closing_ends_a_call_under_way_at_once(make: Make) -> None:
    proposer = make(does, "hangs in C")
    failed: list[Exception] = []

    def call() -> None:
        try:
            propose(proposer, history(1))
        except ProposerFailed as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while proposer._process is None:
        time.sleep(0.01)
    time.sleep(0.5)
    began = time.monotonic()
    proposer.close()
    thread.join(20)
    assert time.monotonic() - began < 10
    assert "was closed" in str(failed[0])
    assert not is_there(pid_of(proposer))
    proposer.close()
    with pytest.raises(ProposerFailed, match="was closed"):
        propose(proposer, history(1))


def test_closing_before_the_first_call_starts_nothing(make: Make) -> None:
    proposer = make(Witness)
    assert isinstance(proposer, Closable)
    proposer.close()
    assert proposer._process is None


def test_one_that_is_dropped_leaves_no_process() -> None:
    proposer = hosted(Witness)
    propose(proposer, history(1))
    pid = pid_of(proposer)
    del proposer
    assert is_gone_soon(pid)


PARENT = """
import signal, sys, threading, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
from tests.hosted_proposers import *
from tests.unit.proposers.test_hosted import history, propose
proposer = hosted(does, sys.argv[1], float(sys.argv[2]))
if sys.argv[1] == "waits":
    propose(proposer, history(1))
else:
    threading.Thread(target=propose, args=(proposer, history(1)), daemon=True).start()
    while proposer._process is None:
        time.sleep(0.01)
    time.sleep(1.0)
print(pid_of(proposer), flush=True)
if sys.argv[3] == "stays":
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("word", "end"), [("waits", "stays"), ("hangs in C", "stays"), ("waits", "returns")]
)
def test_none_is_left_when_the_worker_ends_or_is_killed(word: str, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, word, "0", end],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if end == "stays":
            assert is_there(pid)
            parent.kill()
    assert is_gone_soon(pid)


def test_it_asks_the_worker_whether_a_point_can_be_a_trial(make: Make) -> None:
    asked: list[Any] = []

    def is_even(params: Any) -> bool:
        asked.append(params)
        return bool(params["n"] % 2 == 0)

    given = propose(make(AsksBack, is_valid=is_even), history(3))
    assert [item.params["n"] for item in given.items] == [4, 6]
    assert [params["n"] for params in asked] == [3, 4, 5, 6]


def test_what_that_raises_is_the_studys_failure(make: Make) -> None:
    def breaks(params: Any) -> bool:
        raise KeyError("no such plan")

    proposer = make(AsksBack, is_valid=breaks)
    with pytest.raises(ProposerFailed, match=r"^it raised KeyError: 'no such plan'$"):
        propose(proposer, history(1))
    assert not is_there(pid_of(proposer))


def test_a_models_fallback_is_ended_with_it(make: Make) -> None:
    fallback = make(Witness)
    options = LLMOptions.model_validate(
        {"endpoints": [{"url": "http://127.0.0.1:9", "model": "m"}]}
    )
    model = LLM(SPACE, options, Chat(options, lambda name: ""), fallback)
    propose(fallback, history(1))
    model.close()
    assert is_gone_soon(pid_of(fallback))
