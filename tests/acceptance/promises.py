"""Checks what ARL promises whatever happens: L D B R I O of docs/reliability.md.

Judges by what a witness reads, never by ARL's own code. Every check gives sentences about what is
broken; an empty list is a kept promise. The half of R that asks the proposer again is in
`reproduction.py`, the sums of B in `budget_sums.py`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.acceptance.budget_sums import overdrawn
from tests.acceptance.reproduction import not_reproduced
from tests.acceptance.witness import Fact, Witness, attempt_processes

ENDED = {
    "studies": ("completed", "failed", "cancelled", "imported"),
    "trials": ("complete", "pruned", "failed", "cancelled"),
    "attempts": ("collected", "rejected", "cancelled", "lost"),
    "commands": ("applied", "refused"),
}
ENDINGS = ("trial_decided", "trial_served", "trial_ended")

# --- each promise ----------------------------------------------------------------------------


def lost(witness: Witness) -> Iterator[str]:
    """L: every trial, attempt, command and study has come to an end."""
    for table, ended in ENDED.items():
        for row_id, state in witness.rows(f"SELECT id, state FROM {table}"):
            if state not in ended:
                yield f"L: {table} {row_id} is {state}"


def accepted_twice(witness: Witness, ran: Sequence[str]) -> Iterator[str]:
    """D: no program was started twice under one name, and none that no intent names; every
    launch, score and end is in the chain once. `ran` holds the attempt names that the programs
    themselves wrote down when they started, or that an engine told of."""
    for name, times in Counter(ran).items():
        if times > 1:
            yield f"D: {name} was started {times} times"
    known = {f"arl-{row[0]}" for row in witness.rows("SELECT id FROM attempts")}
    for name in sorted(set(ran) - known):
        yield f"D: {name} ran without an intent in the ledger"
    for what, times in Counter(_once(witness.facts())).items():
        if times > 1:
            yield f"D: {' '.join(what)} is {times} times in the chain"


def _once(facts: Iterable[Fact]) -> Iterator[tuple[str, ...]]:
    """What may be in a study's chain only once."""
    for fact in facts:
        said = fact.payload
        if fact.kind in ENDINGS:
            yield "the end of trial", said["trial_id"]
        elif fact.kind == "trial_evaluated":
            yield "the score of trial", said["trial_id"], said["split"]
        elif fact.kind in ("attempt_launching", "attempt_exited"):
            yield fact.kind, said["attempt_id"]
        elif fact.kind == "command_applied":
            yield "the answer to command", str(said["command_id"])
        elif fact.kind == "candidate_promoted":
            yield "promotion", said["model"], str(said["incumbent_seq"])


def budgets_exceeded(witness: Witness) -> Iterator[str]:
    """B: what is spent and reserved was within the limit after every single entry, and what the
    entries come to is what the rows say."""
    columns = "study_id, resource, amount_limit, spent, reserved, overrun"
    stored: dict[str, dict[str, Any]] = {}
    for study, resource, *line in witness.rows(f"SELECT {columns} FROM budgets"):
        stored.setdefault(study, {})[resource] = tuple(line)
    active = dict(witness.rows("SELECT id, active_s FROM studies"))
    for study, lines in stored.items():
        _, spent, _, overrun = lines["wall_s"]
        if abs(spent + overrun - active[study]) > 1e-6 * max(1.0, active[study]):
            yield f"B: {study}: wall_s: {spent} + {overrun} is not {active[study]}"
        for fault in overdrawn(witness.facts(study), lines):
            yield f"B: {study}: {fault}"
        for resource, (limit, spent, reserved, _) in lines.items():
            if limit is not None and spent + reserved > limit + 1e-6:
                yield f"B: {study}: {resource}: {spent} + {reserved} > {limit}"


def chain_broken(witness: Witness, *, artifacts: bool = True) -> Iterator[str]:
    """I: every chain is whole, the rows say how its trials ended, and stored files are what
    their names say."""
    for fault in witness.broken_links():
        yield f"I: {fault}"
    ends = {f.payload["trial_id"]: _end(f) for f in witness.facts() if f.kind in ENDINGS}
    imported = {f.payload["trial_id"] for f in witness.facts() if f.kind == "trial_imported"}
    states = ENDED["trials"]
    for trial, state, reason in witness.rows("SELECT id, state, reason FROM trials"):
        told = ends.get(trial)
        if trial not in imported and told != ((state, reason) if state in states else None):
            yield f"I: trial {trial} is {state}, {reason}; its chain says {told}"
    if artifacts:
        for fault in witness.damaged_files():
            yield f"I: {fault}"


def _end(fact: Fact) -> tuple[str, str]:
    if fact.kind == "trial_served":
        return "complete", "duplicate"
    return fact.payload.get("new", "complete"), fact.payload["reason"]


def orphans(witness: Witness) -> Iterator[str]:
    """O: no process, attempt directory, half-written or half-deleted file is left."""
    for left in witness.leftovers():
        yield f"O: {left} is left"
    for pid, name in attempt_processes(witness.home):
        yield f"O: process {pid} of attempt {name} still runs"


# --- what two runs must share ----------------------------------------------------------------


def outcome(witness: Witness, study_id: str) -> dict[str, Any]:
    """All that must be equal between two runs of one serial study, one of them interrupted."""
    mine = f"study_id = '{study_id}'"

    def found(columns: str, source: str, order: str = "1, 2") -> list[list[Any]]:
        query = f"SELECT {columns} FROM {source} ORDER BY {order}"
        return [list(row) for row in witness.rows(query)]

    trials = (
        "number, kind, seed, state, reason, watermark, finish_seq, stage, value, verdict, "
        "candidate_id"
    )
    families = "state, reason, candidates, evidence"
    decided = "trial_id, verdict, reason, compared_with, margin, noise_floor"
    return {
        "study": found("state, reason, detail", f"studies WHERE id = '{study_id}'")[0],
        "trials": found(trials, f"trials WHERE {mine}"),
        "params": [
            json.loads(row[1])
            for row in found(
                "t.number, c.params",
                f"trials t JOIN candidates c ON c.id = t.candidate_id WHERE t.{mine}",
            )
        ],
        "attempts": found("id, state, reason, exit_code", f"attempts WHERE {mine}"),
        "evaluations": found("trial_id, split, value", "evaluations"),
        "decisions": found(decided, "decisions"),
        "families": [
            [state, reason, json.loads(candidates), json.loads(evidence)]
            for _, state, reason, candidates, evidence in found(
                f"number, {families}", f"families WHERE {mine}"
            )
        ],
        "incumbents": found("model, seq, candidate_id", "incumbents"),
        "commands": found("verb, state", "commands", "id"),
    }


def differences(found: dict[str, Any], reference: dict[str, Any]) -> Iterator[str]:
    """R: where an interrupted run differs from the uninterrupted one."""
    for part, expected in reference.items():
        # Through JSON, as the reference was kept: a tuple is a list there.
        got = json.loads(json.dumps(found[part]))
        if got != expected:
            odd = [pair for pair in zip(got, expected, strict=False) if pair[0] != pair[1]]
            yield f"R: {part}: {len(got)} and {len(expected)}, first {str(odd[:1])[:400]}"


# --- all of them -----------------------------------------------------------------------------


def broken(witness: Witness, ran: Sequence[str], *, ended: bool = True) -> list[str]:
    """Every promise that the studies of a ledger broke; `ended`: all have come to their end."""
    found = [*budgets_exceeded(witness), *accepted_twice(witness, ran), *chain_broken(witness)]
    for study_id in witness.studies():
        found += not_reproduced(witness, study_id)
    if ended:
        found += [*lost(witness), *orphans(witness)]
    return found
