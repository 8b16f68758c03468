"""R: a fresh proposer, given what each call of the recorded one had seen, proposes the same again.

What each call had seen is rebuilt from the chain's stored texts. Of ARL it takes the proposer
itself, which is what is being repeated, and the records that a proposer is handed.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from ledger.digests import params_digest
from ledger.records import Direction, Objective, TrialKind
from ledger.search import FinishedTrial, History, PendingTrial
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.protocol import Closable, Proposer
from proposers.registry import Setup, build_proposer, read_options
from proposers.search_space import Categorical, Distribution, Float, Int, SearchSpace
from tests.acceptance.witness import Fact, Witness, sha256

ENDINGS = ("trial_decided", "trial_served", "trial_ended")


def space_of(document: dict[str, Any]) -> SearchSpace:
    """The distributions that a stored study's `space` describes."""
    return {name: _distribution(written) for name, written in document.items()}


def _distribution(written: dict[str, Any]) -> Distribution:
    when = tuple(
        (name, tuple(v) if isinstance(v, list) else (v,))
        for name, v in sorted(written["when"].items())
    )
    if written["type"] == "categorical":
        return Categorical(tuple(written["choices"]), when)
    kind = Float if written["type"] == "float" else Int
    return kind(written["low"], written["high"], written["log"], written["step"], when)


def proposer_of(spec: dict[str, Any]) -> Proposer:
    """The proposer that a stored study names, made anew."""
    name, program = spec["proposer"]["name"], spec["program"]
    setup = Setup(
        space=space_of(spec["space"]),
        options=read_options(name, spec["proposer"]["options"]),
        mutable=tuple(program["mutable"]),
        required_calls=tuple(program["required_calls"]),
        read_secret=lambda variable: os.environ[variable],
    )
    return build_proposer(name, setup)


class Seen:
    """What a proposer could know, moved on entry by entry."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}
        self._ended: list[tuple[int, dict[str, Any], FinishedTrial]] = []
        self._values: dict[str, float] = {}
        self._baseline: list[float] = []
        self._proposed: set[str] = set()
        self._count = 0

    def move(self, fact: Fact) -> None:
        said = fact.payload
        if fact.kind == "candidate_proposed" and said["trial_kind"] == TrialKind.SEARCH:
            self._open[said["trial_id"]] = said
            self._proposed.add(params_digest(said["params"]))
            self._count += 1
        elif fact.kind == "trial_evaluated" and said["split"] == "search":
            self._values[said["trial_id"]] = said["value"]
        elif fact.kind in ENDINGS:
            self._end(fact.kind, said)

    def _end(self, kind: str, said: dict[str, Any]) -> None:
        trial = self._open.pop(said["trial_id"], None)
        if trial is not None:
            self._ended.append((said["finish_seq"], trial, _finished(kind, trial, said)))
        elif said.get("trial_kind") == TrialKind.BASELINE and said["trial_id"] in self._values:
            self._baseline.append(self._values[said["trial_id"]])

    def history(self, first_number: int, watermark: int) -> History:
        assert self._count == first_number, "the call's number is the count of search trials"
        cut = len(self._ended)
        while cut and self._ended[cut - 1][0] > watermark:
            cut -= 1
        later = [trial for _, trial, _ in self._ended[cut:]]
        pending = sorted([*self._open.values(), *later], key=lambda t: int(t["number"]))
        return History(
            objective=Objective(metric="score", direction=Direction.MAXIMIZE),
            next_number=first_number,
            finished=[finished for _, _, finished in self._ended[:cut]],
            pending=[
                PendingTrial(
                    number=t["number"], params=t["params"], candidate_id=t["candidate_id"]
                )
                for t in pending
            ],
            proposed=self._proposed,
            baseline=self._baseline,
        )


def _pending(trial: dict[str, Any]) -> PendingTrial:
    return PendingTrial(
        number=trial["number"], params=trial["params"], candidate_id=trial["candidate_id"]
    )


def _finished(kind: str, trial: dict[str, Any], said: dict[str, Any]) -> FinishedTrial:
    return FinishedTrial(
        number=trial["number"],
        params=trial["params"],
        state=TrialState(said["new"] if kind == "trial_ended" else TrialState.COMPLETE),
        value=said.get("value"),
        reason=Reason(said.get("reason") or Reason.DUPLICATE),
        candidate_id=trial["candidate_id"],
        kept=said.get("verdict") == "keep",
    )


def not_reproduced(witness: Witness, study_id: str) -> Iterator[str]:
    """Every call of a study's proposer that comes out otherwise now."""
    ((stored,),) = witness.rows(f"SELECT spec FROM studies WHERE id = '{study_id}'")
    spec = json.loads(stored)
    facts = witness.facts(study_id)
    if not any(fact.kind == "proposals_made" for fact in facts):
        return
    proposer = proposer_of(spec)
    try:
        yield from _called_again(proposer, spec, facts)
    finally:
        if isinstance(proposer, Closable):
            proposer.close()


def _called_again(proposer: Proposer, spec: dict[str, Any], facts: list[Fact]) -> Iterator[str]:
    space, name = space_of(spec["space"]), spec["proposer"]["name"]
    seen = Seen()
    state: bytes | None = None
    for position, fact in enumerate(facts):
        seen.move(fact)
        if fact.kind != "proposals_made":
            continue
        call = fact.payload
        history = seen.history(call["first_number"], call["watermark"])
        again = ask(
            proposer, history, space=space, count=call["asked"], seed=call["seed"], state=state
        )
        state = again.state
        made = _made(facts, position + 1, name, call["given"])
        if [dict(p.params) for p in again.items] != made:
            yield f"R: entry {fact.seq} proposed {made}, again it is {again.items}"
        if call["state_digest"] != (None if state is None else sha256(state)):
            yield f"R: entry {fact.seq} left another state of the proposer"


def _made(facts: list[Fact], start: int, proposer: str, given: int) -> list[dict[str, Any]]:
    """What the call brought forth: the next candidates of this proposer."""
    made: list[dict[str, Any]] = []
    while len(made) < given:
        fact = facts[start]
        if fact.kind == "candidate_proposed" and fact.payload["proposer"] == proposer:
            made.append(fact.payload["params"])
        start += 1
    return made
