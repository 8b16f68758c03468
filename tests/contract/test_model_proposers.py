"""Proposers that ask language models keep to the contract, whatever the model answers."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ledger.digests import params_digest
from ledger.errors import NotFound
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History, PendingTrial, Proposals
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.protocol import Closable
from proposers.registry import PROPOSERS, Setup, build_proposer, read_options
from proposers.search_space import Categorical, Float, Int, SearchSpace, faults
from tests import model_endpoint as m

NAMES = sorted(name for name, found in PROPOSERS.items() if found.asks_models)
SPACE: SearchSpace = {
    "units": Int(4, 16, step=4),
    "act": Categorical(("tanh", "relu", True)),
    "slope": Float(0.01, 0.5, when=(("act", ("relu",)),)),
    "lr": Float(1e-5, 1e-1, log=True),
}
SOURCE = "RATE = 0.1\nSTEPS = 10\n"
FILES: dict[str, dict[str, str]] = {"c-base": {"train.py": SOURCE}}

BLOCK = """\
A larger rate could help.
train.py
<<<<<<< SEARCH
RATE = 0.1
=======
RATE = 0.{n}
>>>>>>> REPLACE
"""


def good(asked: m.Asked) -> m.Behaviour:
    """Both kinds of answer in one: each proposer reads its own. Equal prompts, equal answers."""
    digest = int(params_digest({"prompt": asked.prompt})[:8], 16)
    items = [
        {"rationale": "r", "params": {"units": 8, "act": "tanh", "lr": (digest + n) % 9000 / 1e5}}
        for n in range(1, 21)
    ]
    return m.says(json.dumps({"proposals": items}) + "\n" + BLOCK.format(n=digest % 900 + 2))


def history(finished: int = 6, pending: int = 2, **changes: Any) -> History:
    params: list[Params] = [
        {"units": 4, "act": "tanh", "lr": 0.001 * n} for n in range(1, finished + pending + 1)
    ]
    found = [
        FinishedTrial(
            number=n + 3,
            params=params[n],
            state=TrialState.COMPLETE if n % 3 else TrialState.FAILED,
            value=float(n) if n % 3 else None,
            reason=Reason.WORSE if n % 3 else Reason.CRASHED,
            candidate_id="c-base",
            kept=False,
            detail="" if n % 3 else "Traceback: \x1b[31mboom",
        )
        for n in range(finished)
    ]
    waiting = [
        PendingTrial(number=n + 3, params=params[n], candidate_id="c-base")
        for n in range(finished, finished + pending)
    ]
    return History(
        objective=Objective(metric="score", direction=Direction.MAXIMIZE),
        next_number=finished + pending,
        finished=found[::-1],
        pending=waiting,
        proposed=frozenset(params_digest(p) for p in params),
        baseline=(0.5, 0.6),
        baseline_id="c-base",
        baseline_params={"units": 4, "act": "tanh", "lr": 0.001},
        noise_floor=0.05,
        sources=sources,
        **changes,
    )


def sources(candidate_id: str) -> Mapping[str, str]:
    if candidate_id not in FILES:
        raise NotFound(candidate_id)
    return FILES[candidate_id]


Ask = Callable[..., Proposals]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def endpoint() -> Iterator[m.ModelEndpoint]:
    with m.model_endpoint(good) as opened:
        yield opened


def asked(
    name: str, endpoint: m.ModelEndpoint, told: History, count: int = 2, seed: int = 0, **how: Any
) -> Proposals:
    """A fresh proposer each time, as after a restart; also checks its price."""
    options = {
        "endpoints": [{"url": endpoint.url, "model": "m"}],
        "first_wait_s": 0.01,
        "total_s": 2.0,
        **how,
    }
    setup = Setup(space=SPACE, options=read_options(name, options), mutable=("train.py",))
    proposer = build_proposer(name, setup)
    price = proposer.price(told, count=count)  # type: ignore[attr-defined]
    given = ask(proposer, told, space=SPACE, count=count, seed=seed, state=b"kept")
    assert isinstance(proposer, Closable)
    proposer.close()
    used = sum(call.prompt_tokens + call.completion_tokens for call in given.calls)
    assert used <= price.tokens
    return given


def comparable(given: Proposals) -> tuple[object, ...]:
    return given.items, given.state, [(c.request, c.response) for c in given.calls]


def test_equal_arguments_give_equal_questions_and_proposals(
    name: str, endpoint: m.ModelEndpoint
) -> None:
    one, two = (asked(name, endpoint, history(), 3) for _ in range(2))
    assert comparable(one) == comparable(two)
    assert len(one.items) == 3


def test_at_most_as_many_as_asked_for_and_nothing_for_none(
    name: str, endpoint: m.ModelEndpoint
) -> None:
    assert list(asked(name, endpoint, history(), 0).items) == []
    assert endpoint.asked == []
    assert len(asked(name, endpoint, history(), 1).items) == 1


def test_the_history_is_left_alone(name: str, endpoint: m.ModelEndpoint) -> None:
    told = history()
    before = copy.deepcopy(told)
    asked(name, endpoint, told)
    assert told == before


def test_points_are_valid_and_new(name: str, endpoint: m.ModelEndpoint) -> None:
    told = history()
    given = asked(name, endpoint, told, 5)
    for proposal in given.items:
        assert list(faults(SPACE, proposal.params)) == []
        if proposal.patch is None:
            assert params_digest(proposal.params) not in told.proposed
    kinds = {(params_digest(p.params), p.patch) for p in given.items}
    assert len(kinds) == len(given.items)


BABBLE = (
    m.says("I am a large language model."),
    m.says("{" * 10_000),
    m.says('{"proposals": "none"}'),
    m.says('{"proposals": [1, null, {"params": []}]}'),
    m.says("\U0001f600\u202e" * 100),
    m.proposes({"units": "8", "act": "tanh", "lr": 0.1}),
    m.proposes({"units": 8, "act": "tanh", "lr": 1e999}),
    m.says(None),
    m.says("no", refusal="no"),
    m.says('{"proposals": [{"params": ', finish="length"),
)


@pytest.mark.parametrize("number", range(len(BABBLE)))
def test_babble_is_corrected_twice_and_then_costs_no_invalid_point(
    name: str, endpoint: m.ModelEndpoint, number: int
) -> None:
    endpoint.script = m.in_turn(BABBLE[number])
    given = asked(name, endpoint, history(), 1)
    assert len(given.calls) == 3
    assert [a.rounds for a in endpoint.asked] == [0, 1, 2]
    (item,) = given.items
    if PROPOSERS[name].writes_patches:
        assert item.defect is Reason.MALFORMED_PATCH
        assert item.defect_detail
    else:
        assert item.proposer == "llm/fallback"
        assert "because the model's answer was not valid" in item.rationale


def test_an_endpoint_that_is_away_gives_no_proposal_and_says_so(
    name: str, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = m.in_turn(m.sends(503))
    given = asked(name, endpoint, history())
    assert list(given.items) == []
    assert [call.outcome for call in given.calls] == ["server_error"] * 3
    assert given.retry_after_s is not None
    assert given.retry_after_s > 0
    assert given.waits_for.startswith(
        f"no endpoint of proposer.options.endpoints answers: {endpoint.url}: server_error"
    )
    assert given.state == b"kept"


def test_the_same_history_gives_the_same_question_in_whatever_order_the_space_is(
    name: str, endpoint: m.ModelEndpoint
) -> None:
    turned: SearchSpace = dict(reversed(list(SPACE.items())))
    options = read_options(name, {"endpoints": [{"url": endpoint.url, "model": "m"}]})
    for space in (SPACE, turned):
        setup = Setup(space=space, options=options, mutable=("train.py",))
        build_proposer(name, setup).propose(history(), count=1, seed=0, state=None)
    one, two = endpoint.asked
    assert one.body["messages"] == two.body["messages"]


def test_a_batch_larger_than_one_answer_goes_on_at_once(
    name: str, endpoint: m.ModelEndpoint
) -> None:
    given = asked(name, endpoint, history(), 25)
    if len(given.items) < 25:
        assert (len(given.items), given.retry_after_s) == (20, 0.0)


def test_a_finite_space_ends_after_its_last_point(endpoint: m.ModelEndpoint) -> None:
    space: SearchSpace = {"act": Categorical(("tanh", "relu", True))}
    options = read_options("llm", {"endpoints": [{"url": endpoint.url, "model": "m"}]})
    proposer = build_proposer("llm", Setup(space=space, options=options))
    endpoint.script = m.in_turn(m.proposes({"act": "relu"}, {"act": "relu"}, {"act": True}))
    told = History(
        objective=Objective(metric="score", direction=Direction.MAXIMIZE),
        next_number=1,
        proposed=frozenset({params_digest({"act": "tanh"})}),
    )
    given = proposer.propose(told, count=5, seed=0, state=None)
    assert [item.params for item in given.items] == [{"act": "relu"}, {"act": True}]
    assert given.retry_after_s is None
    every = frozenset(params_digest({"act": act}) for act in ("tanh", "relu", True))
    ended = proposer.propose(replace(told, proposed=every), count=5, seed=0, state=None)
    assert (list(ended.items), ended.retry_after_s, ended.calls) == ([], None, ())


def test_what_is_valid_of_an_answer_is_kept_and_only_the_rest_asked_again(
    endpoint: m.ModelEndpoint,
) -> None:
    good = [{"units": 8, "act": "tanh", "lr": lr} for lr in (0.01, 0.02, 0.03)]
    bad = {"units": 8, "act": "tanh", "lr": 7, "seed": 1}
    endpoint.script = m.in_turn(m.proposes(good[0], bad), m.proposes(good[0], *good[1:]))
    given = asked("llm", endpoint, history(), 3)
    assert [item.params for item in given.items] == good
    correction = endpoint.asked[1].last
    assert "proposal 2: seed is not a parameter of the space; lr: 7.0 is outside" in correction
    assert "1 of your proposals were taken" in correction
    assert "with 2 new proposals" in correction


def test_without_a_fallback_nothing_steps_in(endpoint: m.ModelEndpoint) -> None:
    endpoint.script = m.in_turn(m.says("no idea"))
    given = asked("llm", endpoint, history(), 2, fallback="none")
    assert (list(given.items), given.retry_after_s) == ([], 30.0)
    assert given.waits_for.startswith("the model gave no valid parameters: there is no JSON")


def test_what_was_proposed_before_an_endpoint_went_away_is_not_lost(
    endpoint: m.ModelEndpoint,
) -> None:
    endpoint.script = lambda a: good(a) if a.number == 0 else m.sends(503)
    given = asked("llm_diff", endpoint, history(), 3)
    assert len(given.items) == 1
    assert given.retry_after_s is not None
    assert [call.outcome for call in given.calls] == ["answered", *["server_error"] * 3]


@pytest.mark.parametrize("count", [1, 3])
def test_the_price_of_a_call_covers_the_most_talkative_model(
    name: str, endpoint: m.ModelEndpoint, count: int
) -> None:
    """It uses all of max_tokens every time, a digit each, and is never right."""

    def script(a: m.Asked) -> m.Behaviour:
        sent = sum(len(message["content"]) for message in a.body["messages"]) // 2
        return m.says("7" * 500, tokens=(sent, 500), finish="length")

    endpoint.script = script
    given = asked(name, endpoint, history(), count, max_tokens=500)  # checks the price
    assert len(given.calls) == (3 * count if PROPOSERS[name].writes_patches else 3)
