"""Arms that are exhausted, wait, fail or are told what others found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.digests import params_digest
from ledger.errors import InvalidInput, ProposerFailed
from ledger.records import Direction, Objective
from ledger.search import FinishedTrial, History, ModelCall, Price, Proposal, Proposals
from ledger.states import Reason, TrialState
from proposers.hybrid import Hybrid
from proposers.hybrid_arms import Arm, labels, signature
from proposers.hybrid_options import HybridOptions
from proposers.hybrid_state import MOST_FAILURES, read_state
from proposers.protocol import Proposer
from proposers.random_search import RandomSearch
from proposers.registry import (
    Registered,
    Setup,
    build_proposer,
    describe,
    missing_modules,
    option_problems,
    parts,
    read_options,
)
from proposers.search_space import Float, SearchSpace

SPACE: SearchSpace = {"x": Float(0.0, 1.0)}
OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)
ENDPOINTS = [{"url": "http://localhost:1/v1", "model": "m"}]
PLAIN = Registered(build=lambda setup: RandomSearch(setup.space))
MODEL = replace(PLAIN, asks_models=True)
PATCHER = replace(MODEL, writes_patches=True)
CALL = ModelCall(
    model="m",
    endpoint="e",
    prompt_version="1",
    request="",
    response="",
    outcome="answered",
    cost_usd=0.5,
)


@dataclass
class Scripted:
    """Gives what its script says, call by call, and notes what it was told."""

    script: Callable[[History, int], Proposals]
    told: list[tuple[History, int, bytes | None]] = field(default_factory=list)
    closed: bool = False

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        self.told.append((history, count, state))
        return self.script(history, count)

    def price(self, history: History, *, count: int) -> Price:
        return Price(tokens=100.0 * count, cost_usd=1.0)

    def close(self) -> None:
        self.closed = True


def points(history: History, count: int) -> Proposals:
    """As many as asked for, each at a place of its own."""
    first = history.next_number
    items = [Proposal(params={"x": (first + n) / 1000}) for n in range(count)]
    return Proposals(items=items, state=f"after {first + count}".encode())


def nothing(history: History, count: int) -> Proposals:
    return Proposals(items=())


def waits(history: History, count: int) -> Proposals:
    return Proposals(items=(), retry_after_s=5.0, waits_for="nobody answers", calls=[CALL])


def raises(history: History, count: int) -> Proposals:
    raise RuntimeError("out of luck")


def hybrid(*arms: tuple[str, Registered, Proposer], **options: object) -> Hybrid:
    given = {"mode": "stall", **options}
    read = HybridOptions.model_validate(given)
    made = [Arm(label=label, registered=r, proposer=p) for label, r, p in arms]
    return Hybrid(made, SPACE, read)


def history(finished: Sequence[FinishedTrial] = (), **facts: object) -> History:
    known: dict[str, object] = {
        "objective": OBJECTIVE,
        "next_number": len(finished),
        "finished": finished,
        "proposed": frozenset(params_digest(t.params) for t in finished),
    }
    return History(**(known | facts))  # type: ignore[arg-type]  # whatever a test says


def trial(number: int, arm: str, value: float | None = 0.0, **facts: object) -> FinishedTrial:
    known: dict[str, object] = {
        "number": number,
        "params": {"x": number / 1000},
        "state": TrialState.COMPLETE if value is not None else TrialState.FAILED,
        "value": value,
        "reason": Reason.WORSE if value is not None else Reason.CRASHED,
        "candidate_id": f"c{number}",
        "kept": False,
        "proposer": f"hybrid/{arm}",
        "source_digest": "base",
    }
    return FinishedTrial(**(known | facts))  # type: ignore[arg-type]  # whatever a test says


def names(given: Proposals) -> list[str]:
    return [item.proposer for item in given.items]


# --- arms that give less -------------------------------------------------------------------------


def test_every_proposal_says_which_arm_made_it() -> None:
    arms = hybrid(("a", PLAIN, Scripted(points)), ("b", PLAIN, Scripted(points)))
    given = arms.propose(history(), count=3, seed=0, state=None)
    assert names(given) == ["hybrid/a"] * 3
    assert given.retry_after_s is None


def test_an_exhausted_arm_leaves_its_share_to_the_others_and_the_end_comes_with_the_last() -> None:
    first, second = Scripted(nothing), Scripted(points)
    arms = hybrid(("a", PLAIN, first), ("b", PLAIN, second))
    given = arms.propose(history(), count=2, seed=0, state=None)
    assert names(given) == ["hybrid/b"] * 2
    again = arms.propose(history(), count=1, seed=0, state=given.state)
    assert (len(first.told), names(again)) == (1, ["hybrid/b"])
    second.script = nothing
    end = arms.propose(history(), count=1, seed=0, state=again.state)
    assert (list(end.items), end.retry_after_s) == ([], None)


def test_an_arm_that_waits_holds_up_nobody_and_its_calls_are_recorded() -> None:
    arms = hybrid(("a", MODEL, Scripted(waits)), ("b", PLAIN, Scripted(points)))
    given = arms.propose(history(), count=2, seed=0, state=None)
    assert names(given) == ["hybrid/b"] * 2
    assert (given.calls, given.retry_after_s) == ([CALL], None)


def test_a_hybrid_waits_where_all_its_arms_do_and_says_for_what() -> None:
    arms = hybrid(("a", MODEL, Scripted(waits)), ("b", PLAIN, Scripted(nothing)))
    given = arms.propose(history(), count=2, seed=0, state=None)
    assert (given.retry_after_s, given.waits_for) == (5.0, "a: nobody answers")


def test_an_arm_that_fails_loses_nothing_while_another_one_works() -> None:
    bad, good = Scripted(raises), Scripted(points)
    arms = hybrid(("a", PLAIN, bad), ("b", PLAIN, good))
    state: bytes | None = None
    for number in range(200):
        told = history([trial(n, "b") for n in range(number)])
        given = arms.propose(told, count=1, seed=0, state=state)
        state = given.state
        assert names(given) == ["hybrid/b"]
    assert len(bad.told) == MOST_FAILURES
    assert "out of luck" in read_state(state, ["a", "b"]).arms[0].why


def test_an_arm_that_works_again_is_asked_as_before() -> None:
    first = iter([raises])
    arm = Scripted(lambda told, count: next(first, points)(told, count))
    arms = hybrid(("a", PLAIN, arm), ("b", PLAIN, Scripted(points)))
    made: list[str] = []
    state: bytes | None = None
    for number in range(6):
        told = history([trial(n, "b") for n in range(number)])
        given = arms.propose(told, count=1, seed=0, state=state)
        state = given.state
        made += names(given)
    # It rests for two proposals after its first failure.
    assert made == ["hybrid/b"] * 2 + ["hybrid/a"] * 4
    assert read_state(state, ["a", "b"]).arms[0].failures == 0


def test_a_hybrid_whose_arms_all_fail_tries_again_and_then_fails_with_each_ones_words() -> None:
    arms = hybrid(("a", PLAIN, Scripted(raises)), ("b", PLAIN, Scripted(raises)))
    state: bytes | None = None
    for _ in range(MOST_FAILURES - 1):
        given = arms.propose(history(), count=1, seed=0, state=state)
        state = given.state
        assert given.retry_after_s is not None
        assert "a failed: it raised RuntimeError: out of luck" in given.waits_for
    with pytest.raises(ProposerFailed, match=r"every arm failed: a: .*luck; b: .*luck"):
        arms.propose(history(), count=1, seed=0, state=state)


def test_closing_closes_every_arm() -> None:
    one, two = Scripted(points), Scripted(points)
    hybrid(("a", PLAIN, one), ("b", PLAIN, two)).close()
    assert (one.closed, two.closed) == (True, True)


def test_a_price_is_that_of_all_arms_that_may_be_asked() -> None:
    arms = hybrid(
        ("a", MODEL, Scripted(points)),
        ("b", PLAIN, Scripted(points)),
        ("c", PATCHER, Scripted(points)),
    )
    assert arms.price(history(), count=3) == Price(tokens=600.0, cost_usd=2.0)


# --- what arms are told --------------------------------------------------------------------------


def test_one_call_makes_one_call_of_each_arm_and_models_go_first() -> None:
    plain, model = Scripted(points), Scripted(points)
    arms = hybrid(("a", PLAIN, plain), ("b", MODEL, model), mode="bandit", cost="trials")
    given = arms.propose(history(), count=6, seed=0, state=None)
    assert [len(plain.told), len(model.told)] == [1, 1]
    assert names(given) == ["hybrid/b"] * 3 + ["hybrid/a"] * 3
    told = plain.told[0][0]
    assert (told.next_number, len(told.pending)) == (3, 3)
    assert all(params_digest(i.params) in told.proposed for i in given.items[:3])
    assert len({i.params["x"] for i in given.items}) == 6


def test_each_arm_gets_its_own_state_back() -> None:
    one, two = Scripted(points), Scripted(points)
    arms = hybrid(("a", PLAIN, one), ("b", PLAIN, two), mode="bandit", cost="trials")
    given = arms.propose(history(), count=2, seed=0, state=None)
    arms.propose(history(next_number=2), count=4, seed=0, state=given.state)
    assert (one.told[1][2], two.told[1][2]) == (b"after 1", b"after 2")


def test_a_state_of_other_arms_is_no_state() -> None:
    arms = hybrid(("a", PLAIN, Scripted(points)), ("b", PLAIN, Scripted(points)))
    state = arms.propose(history(), count=1, seed=0, state=None).state
    assert read_state(state, ["a", "b"]).arms[0].given == 1
    assert read_state(state, ["a", "c"]).arms[0].given == 0


def test_parameters_are_told_as_they_would_be_on_one_source_and_are_tried_on_the_best() -> None:
    plain = Scripted(points)
    arms = hybrid(("a", PLAIN, plain), ("b", PATCHER, Scripted(points)))
    base = {"baseline": (0.2, 0.2), "baseline_id": "c-base", "baseline_source": "base"}
    finished = [
        trial(0, "a", 0.3, kept=True),
        trial(1, "b", 0.5, kept=True, source_digest="s1", parent_id="c0"),
        trial(2, "a", 0.4, source_digest="s1", parent_id="c1"),
        trial(3, "b", None, source_digest="s1", parent_id="c1", reason=Reason.MALFORMED_PATCH),
        trial(4, "b", 0.6, kept=True, source_digest="s2", parent_id="c2"),
    ]
    given = arms.propose(history(finished, **base), count=1, seed=0, state=None)
    told = plain.told[0][0]
    # The first patch is worth 0.2: 0.4 on it is 0.2 without.
    assert [(t.number, round(t.value or 0.0, 6)) for t in told.finished] == [(0, 0.3), (2, 0.2)]
    assert told.best == pytest.approx(0.3)
    assert given.items[0].parent_id == "c4"


def test_without_a_kept_patch_parameters_are_tried_on_the_baselines_source() -> None:
    arms = hybrid(("a", PLAIN, Scripted(points)), ("b", PATCHER, Scripted(points)))
    finished = [
        trial(0, "a", 0.3, kept=True),
        trial(1, "b", 0.1, source_digest="s1", parent_id="c0"),
    ]
    known = history(finished, baseline_source="base")
    assert arms.propose(known, count=1, seed=0, state=None).items[0].parent_id is None


# --- the registry --------------------------------------------------------------------------------


def test_the_facts_of_a_hybrid_are_those_of_its_arms() -> None:
    numbers = describe("hybrid", {"arms": [{"name": "random"}, {"name": "tpe"}]})
    assert (numbers.asks_models, numbers.is_slow, numbers.exhausts) == (False, False, True)
    assert numbers.modules == ("optuna",)
    mixed = describe("hybrid", {"endpoints": ENDPOINTS})
    assert (mixed.asks_models, mixed.is_slow, mixed.writes_patches) == (True, True, True)
    assert not mixed.exhausts
    assert describe("hybrid", {"arms": [{"name": "cmaes"}, {"name": "tpe"}]}).one_objective
    assert describe("tpe", {}) is describe("tpe", {"candidates": 3})
    assert missing_modules("hybrid", {"arms": [{"name": "random"}, {"name": "grid"}]}) == ""


def test_the_parts_of_a_study_are_its_proposer_or_its_arms() -> None:
    assert [(p.name, p.where) for p in parts("tpe", {})] == [("tpe", "")]
    found = parts("hybrid", {"endpoints": ENDPOINTS})
    assert [(p.name, p.where) for p in found] == [
        ("tpe", "arms.0.options."),
        ("llm_diff", "arms.1.options."),
    ]
    assert found[1].options["endpoints"]
    assert parts("hybrid", {"arms": "nonsense"}) == ()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({}, "endpoints"),
        ({"arms": [{"name": "random"}]}, "arms"),
        ({"arms": [{"name": "random"}, {"name": "hybrid"}]}, "arms.1.name"),
        ({"arms": [{"name": "random"}, {"name": "zzz"}]}, "arms.1.name"),
        (
            {"arms": [{"name": "random"}, {"name": "tpe", "options": {"x": 1}}]},
            "arms.1.options.x",
        ),
        (
            {"arms": [{"name": "random"}, {"name": "tpe", "options": {"candidates": 0}}]},
            "arms.1.options.candidates",
        ),
        (
            {"arms": [{"name": "random"}, {"name": "tpe", "options": {"release": "exact"}}]},
            "arms.1.options.release",
        ),
        ({"arms": [{"name": "random"}, {"name": "llm"}]}, "arms.1.options.endpoints"),
        (
            {"mode": "bandit", "cost": "usd", "arms": [{"name": "grid"}, {"name": "random"}]},
            "usd_per_hour",
        ),
        ({"mode": "both"}, "mode"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, object], where: str) -> None:
    assert [found for found, _ in option_problems("hybrid", options)] == [where]


def test_arms_of_one_kind_have_names_of_their_own() -> None:
    assert labels(["tpe", "random", "tpe", "tpe"]) == ["tpe", "random", "tpe-2", "tpe-3"]
    arm = Arm(label="llm", registered=MODEL, proposer=Scripted(points))
    assert signature(arm, "") == "hybrid/llm"
    assert signature(arm, "llm/fallback") == "hybrid/llm/fallback"


def test_an_arm_that_cannot_search_the_space_is_named_when_it_is_built() -> None:
    options = read_options("hybrid", {"arms": [{"name": "random"}, {"name": "grid"}]})
    with pytest.raises(InvalidInput, match="a grid needs a finite range"):
        build_proposer("hybrid", Setup(space=SPACE, options=options))
