"""Checks what ARL promises whatever happens: L D B R I O of docs/reliability.md.

Reads the ledger, the attempts' directory and /proc, never the controller's memory. Every check
gives sentences about what is broken; an empty list is a kept promise.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select

from controller.spec.loading import parse_study
from controller.wiring import Service
from ledger import reads
from ledger.database import ReadSession
from ledger.digests import params_digest, sha256_hex
from ledger.records import Direction, EntryRecord, Objective, TrialKind
from ledger.rows import ATTEMPTS, BUDGETS, COMMANDS, DECISIONS, EVALUATIONS, INCUMBENTS, TRIALS
from ledger.search import FinishedTrial, History, PendingTrial
from ledger.states import ATTEMPT_TERMINAL, STUDY_TERMINAL, TRIAL_TERMINAL, Reason, TrialState
from ledger.verify import verify_ledger
from proposers.host import ask
from targets.layout import process_start

# --- each promise ----------------------------------------------------------------------------


def lost(session: ReadSession) -> Iterator[str]:
    """L: every trial, attempt and study has come to an end."""
    for row in session.connection.execute(select(TRIALS.c.id, TRIALS.c.state)):
        if row.state not in TRIAL_TERMINAL:
            yield f"L: trial {row.id} is {row.state}"
    for row in session.connection.execute(select(ATTEMPTS.c.id, ATTEMPTS.c.state)):
        if row.state not in ATTEMPT_TERMINAL:
            yield f"L: attempt {row.id} is {row.state}"
    for row in session.connection.execute(select(COMMANDS.c.id, COMMANDS.c.state)):
        if row.state == "pending":
            yield f"L: command {row.id} was never answered"
    for summary in reads.list_studies(session):
        if summary.study.state not in STUDY_TERMINAL:
            yield f"L: study {summary.study.id} is {summary.study.state}"


def accepted_twice(session: ReadSession, ran: Sequence[str]) -> Iterator[str]:
    """D: one evaluation per trial and split, and no program was started twice under one name.
    `ran` holds the attempt names that the programs themselves wrote down when they started."""
    for name, times in Counter(ran).items():
        if times > 1:
            yield f"D: {name} was started {times} times"
    known = {f"arl-{i}" for i in session.connection.execute(select(ATTEMPTS.c.id)).scalars()}
    for name in sorted(set(ran) - known):
        yield f"D: {name} ran without an intent in the ledger"
    columns = (EVALUATIONS.c.trial_id, EVALUATIONS.c.split)
    pairs = Counter(tuple(row) for row in session.connection.execute(select(*columns)))
    for pair, times in pairs.items():
        if times > 1:
            yield f"D: {pair} was evaluated {times} times"


def budgets_exceeded(session: ReadSession) -> Iterator[str]:
    """B: what is spent and reserved is within the limit."""
    for row in session.connection.execute(select(BUDGETS)):
        if row.amount_limit is not None and row.spent + row.reserved > row.amount_limit + 1e-6:
            yield f"B: {row.resource}: {row.spent} + {row.reserved} > {row.amount_limit}"


def chain_broken(service: Service, *, artifacts: bool = True) -> Iterator[str]:
    """I, and the sums of B: the chain, the rows it implies, budgets and stored files agree."""
    for finding in verify_ledger(service.ledger, service.store if artifacts else None):
        yield f"I: {finding}"


def orphans(service: Service) -> Iterator[str]:
    """O: no process, attempt directory, half-written or half-deleted file is left."""
    home = service.settings.home
    for target in service.used_targets():
        for found in target.list_owned(service.ledger.id):
            yield f"O: attempt {found.name} is still there (running: {found.running})"
    for place in ("local/attempts", "artifacts/incoming"):
        for name in sorted(os.listdir(home / place)) if (home / place).is_dir() else ():
            yield f"O: {place}/{name} is left"
    for name in sorted(os.listdir(home / "local/trash")) if (home / "local").is_dir() else ():
        pid, _, rest = name.partition("-")  # a live process keeps bare directories there
        if str(process_start(pid)) != rest.partition("-")[0]:
            yield f"O: local/trash/{name} is left"
    for pid, name in attempt_processes(home):
        yield f"O: process {pid} of attempt {name} still runs"


def attempt_processes(home: Path) -> Iterator[tuple[int, str]]:
    """Live processes whose environment says that they belong to an attempt of this home."""
    place = f"{home}/".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            state = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        names = [v[12:] for v in variables if v.startswith(b"ARL_ATTEMPT=")]
        if names and state not in b"ZX" and any(place in v for v in variables):
            yield int(entry), names[0].decode()


def not_reproduced(session: ReadSession, service: Service, study_id: str) -> Iterator[str]:
    """R: a fresh proposer, given what each call had seen, proposes the same again."""
    study = reads.get_study(session, study_id)
    spec = parse_study(study.spec)
    proposer, space = service.proposer(study_id, spec), service.space(spec)
    entries = reads.list_entries(session, study_id, limit=1_000_000)
    state: bytes | None = None
    for position, entry in enumerate(entries):
        if entry.kind != "proposals_made":
            continue
        call: Any = entry.payload
        again = ask(
            proposer,
            _history(entries, position, call["first_number"], call["watermark"]),
            space=space,
            count=call["asked"],
            seed=call["seed"],
            state=state,
        )
        state = again.state
        made = [
            dict(e.payload["params"])  # type: ignore[call-overload, arg-type]
            for e in entries[position + 1 :]
            if e.kind == "candidate_proposed" and e.payload["proposer"] == spec.proposer.name
        ][: call["given"]]
        if [dict(p.params) for p in again.items] != made:
            yield f"R: entry {entry.seq} proposed {made}, again it is {again.items}"
        if call["state_digest"] != (None if state is None else sha256_hex(state)):
            yield f"R: entry {entry.seq} left another state of the proposer"


def _history(
    entries: Sequence[EntryRecord], position: int, first_number: int, watermark: int
) -> History:
    """What the proposer could know at one call, rebuilt from the chain alone."""
    proposed: dict[str, Any] = {}
    finished: list[FinishedTrial] = []
    values: dict[str, float] = {}
    baseline: list[float] = []
    for entry in entries[:position]:
        facts: Any = entry.payload
        if entry.kind == "candidate_proposed" and facts["trial_kind"] == TrialKind.SEARCH:
            proposed[facts["trial_id"]] = facts
        elif entry.kind == "trial_evaluated" and facts["split"] == "search":
            values[facts["trial_id"]] = facts["value"]
        elif entry.kind in ("trial_decided", "trial_served", "trial_ended"):
            trial = proposed.get(facts["trial_id"])
            value = facts.get("value")
            if trial is None:
                if facts.get("trial_kind") == TrialKind.BASELINE and facts["trial_id"] in values:
                    baseline.append(values[facts["trial_id"]])
            elif facts["finish_seq"] <= watermark:
                finished.append(_finished(entry.kind, trial, facts, value))
    ended = {f.number for f in finished}
    assert len(proposed) == first_number, "the call's number is the count of search trials"
    return History(
        objective=Objective(metric="score", direction=Direction.MAXIMIZE),
        next_number=first_number,
        finished=finished,
        pending=[
            PendingTrial(number=t["number"], params=t["params"], candidate_id=t["candidate_id"])
            for t in proposed.values()
            if t["number"] not in ended
        ],
        proposed={params_digest(t["params"]) for t in proposed.values()},
        baseline=baseline,
    )


def _finished(kind: str, trial: Any, facts: Any, value: float | None) -> FinishedTrial:
    reason = facts.get("reason") or Reason.DUPLICATE
    state = facts["new"] if kind == "trial_ended" else TrialState.COMPLETE
    return FinishedTrial(
        number=trial["number"],
        params=trial["params"],
        state=TrialState(state),
        value=value,
        reason=Reason(reason),
        candidate_id=trial["candidate_id"],
        kept=facts.get("verdict") == "keep",
    )


# --- all of them -----------------------------------------------------------------------------


def outcome(session: ReadSession, study_id: str) -> dict[str, Any]:
    """All that must be equal between two runs of one serial study, one of them interrupted."""
    run = session.connection.execute
    of_trial = (
        *(TRIALS.c.number, TRIALS.c.kind, TRIALS.c.seed, TRIALS.c.state, TRIALS.c.reason),
        *(TRIALS.c.watermark, TRIALS.c.finish_seq, TRIALS.c.stage, TRIALS.c.value),
        *(TRIALS.c.verdict, TRIALS.c.candidate_id),
    )
    of_attempt = (ATTEMPTS.c.id, ATTEMPTS.c.state, ATTEMPTS.c.reason, ATTEMPTS.c.exit_code)
    study = reads.get_study(session, study_id)
    trials = select(*of_trial).where(TRIALS.c.study_id == study_id).order_by(TRIALS.c.number)
    attempts = select(*of_attempt).where(ATTEMPTS.c.study_id == study_id)
    params = select(TRIALS.c.number).where(TRIALS.c.study_id == study_id)
    evaluations = select(EVALUATIONS.c.trial_id, EVALUATIONS.c.split, EVALUATIONS.c.value)
    decisions = select(DECISIONS).order_by(DECISIONS.c.trial_id)
    pointers = select(INCUMBENTS.c.model, INCUMBENTS.c.seq, INCUMBENTS.c.candidate_id)
    commands = select(COMMANDS.c.verb, COMMANDS.c.state).order_by(COMMANDS.c.id)
    return {
        "study": [str(study.state), str(study.reason), study.detail],
        "trials": [list(row) for row in run(trials)],
        "params": [
            dict(reads.get_trial(session, f"{study_id}-{number}").candidate.params)
            for number in sorted(run(params).scalars())
        ],
        "attempts": sorted(list(row) for row in run(attempts)),
        "evaluations": sorted(list(row) for row in run(evaluations)),
        "decisions": [list(row) for row in run(decisions)],
        "families": [
            [str(f.state), str(f.reason), list(f.candidates), dict(f.evidence)]
            for f in reads.list_families(session, study_id)
        ],
        "incumbents": [list(row) for row in run(pointers)],
        "commands": [list(row) for row in run(commands)],
    }


def differences(found: dict[str, Any], reference: dict[str, Any]) -> Iterator[str]:
    """R: where an interrupted run differs from the uninterrupted one."""
    for part, expected in reference.items():
        # Through JSON, as the reference was kept: a tuple is a list there.
        got = json.loads(json.dumps(found[part]))
        if got != expected:
            odd = [pair for pair in zip(got, expected, strict=False) if pair[0] != pair[1]]
            yield f"R: {part}: {len(got)} and {len(expected)}, first {str(odd[:1])[:400]}"


def broken(service: Service, study_id: str, ran: Sequence[str]) -> list[str]:
    """Every promise that a study broke which has come to its end."""
    with service.ledger.read() as session:
        found = [*lost(session), *accepted_twice(session, ran), *budgets_exceeded(session)]
        found += not_reproduced(session, service, study_id)
    return [*found, *chain_broken(service), *orphans(service)]
