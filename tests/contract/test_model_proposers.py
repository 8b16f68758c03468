"""Proposers that ask language models keep to the contract, whatever the model answers."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
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
    turned: SearchSpace = dict(reversed(SPACE.items()))
    options = read_options(name, {"endpoints": [{"url": endpoint.url, "model": "m"}]})
    for space in (SPACE, turned):
        setup = Setup(space=space, options=options, mutable=("train.py",))
        build_proposer(name, setup).propose(history(), count=1, seed=0, state=None)
    one, two = endpoint.asked
    assert one.body["messages"] == two.body["messages"]
