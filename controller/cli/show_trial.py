"""`arl show TRIAL` and `arl show CANDIDATE`."""

from controller.cli.network import print_network
from controller.cli.output import console, print_json, table
from controller.cli.text import clipped, duration, iso, number, params, plain, size
from controller.documents import trials as d
from controller.documents.candidates import candidate_document
from controller.documents.log_text import find_log_tail, log_reader
from controller.documents.network import network_document
from ledger import reads, summaries
from ledger.database import Ledger, ReadSession
from ledger.records import Attempt, Candidate

TAIL_BYTES = 2000


def print_trial(ledger: Ledger, session: ReadSession, trial_id: str, *, as_json: bool) -> None:
    """A trial, its attempts with the ends of their logs, its scores and its decision."""
    detail = reads.get_trial(session, trial_id)
    study = reads.get_study(session, detail.trial.study_id)
    tails = _tails(detail)
    if as_json:
        document = d.detail_document(detail)
        document["network"] = network_document(session, study, trial_id)
        document["log_tails"] = dict(tails)
        print_json(document)
        return
    _print_facts(detail)
    _print_attempts(detail, tails)
    _print_scores(detail)
    print_network(session, study, trial_id)


def _tails(detail: reads.TrialDetail) -> dict[str, str]:
    """The end of each attempt's log that can still be read, by attempt id."""
    with log_reader() as reader:
        found = {a.id: find_log_tail(reader, a, TAIL_BYTES) for a in detail.attempts}
    return {attempt_id: tail for attempt_id, tail in found.items() if tail}


def _print_facts(detail: reads.TrialDetail) -> None:
    trial, candidate, decision = detail.trial, detail.candidate, detail.decision
    word = d.outcome_word(trial.state, trial.verdict)
    reason = f" ({trial.reason})" if trial.reason is not None else ""
    lines = [f"trial {trial.number} of {trial.study_id}, {trial.kind}: {word}{reason}"]
    if trial.detail:
        lines.append(f"  {clipped(trial.detail, 500)}")
    lines += [
        f"  candidate {candidate.id} by {plain(candidate.proposer)}, seed {trial.seed}",
        f"  {params(candidate.params, 1000)}",
        f"  started {iso(trial.started_at) or '-'}, took {duration(d.duration_of(trial))}",
    ]
    lines += _origin(candidate)
    if trial.family_id is not None:
        lines.append(f"  replay {trial.stage} of family {trial.family_id}")
    if decision is not None:
        lines.append(
            f"  decided: {decision.verdict}, {decision.reason} (margin "
            f"{number(decision.margin)}, noise {number(decision.noise_floor)}, compared with "
            f"{decision.compared_with or 'the baseline'})"
        )
    for line in lines:
        print(line)
    for line in _patch(candidate):
        print(line)


def _origin(candidate: Candidate) -> list[str]:
    lines = []
    if candidate.parent_id is not None:
        lines.append(f"  made from {candidate.parent_id}")
    if candidate.rationale:
        lines.append(f"  why it was tried: {clipped(candidate.rationale, 500)}")
    return lines


def _patch(candidate: Candidate) -> list[str]:
    """What it changes of its parent's source."""
    if candidate.patch is None:
        return []
    changed = plain(candidate.patch, keep="\n").splitlines()
    return ["the patch:", *(f"  | {line}" for line in changed)]


def _print_attempts(detail: reads.TrialDetail, tails: dict[str, str]) -> None:
    rows = [
        (
            attempt.id,
            f"{attempt.kind} {attempt.split or ''}".strip(),
            str(attempt.state),
            str(attempt.reason or ""),
            "-" if attempt.exit_code is None else str(attempt.exit_code),
            duration(attempt.wall_s),
            "-" if attempt.max_rss_bytes is None else size(attempt.max_rss_bytes),
        )
        for attempt in detail.attempts
    ]
    columns = ("attempt", "kind", "state", "reason", ">exit", ">took", ">memory")
    console().print(table(*columns, rows=rows))
    for attempt in detail.attempts:
        _print_tail(attempt, tails)


def _print_tail(attempt: Attempt, tails: dict[str, str]) -> None:
    if attempt.detail:
        print(f"{attempt.id}: {clipped(attempt.detail, 500)}")
    tail = tails.get(attempt.id)
    if tail is not None:
        print(f"end of the log of {attempt.id}:")
        for line in tail.splitlines()[-12:]:
            print(f"  | {line}")


def _print_scores(detail: reads.TrialDetail) -> None:
    rows = [
        (str(found.split), clipped(metric, 60), number(value), found.artifact_digest[:12])
        for found in detail.evaluations
        for metric, value in found.scores.items()
    ]
    if rows:
        console().print(table("split", "metric", ">score", "artifact", rows=rows))
    latest = [(clipped(v.metric, 60), str(v.step), number(v.value)) for v in detail.latest]
    if latest:
        console().print(table("last reported", ">step", ">value", rows=latest))


def print_candidate(session: ReadSession, candidate: Candidate, *, as_json: bool) -> None:
    """A candidate and every execution of it."""
    trials = summaries.trials_of(session, candidate.id)
    if as_json:
        print_json(candidate_document(candidate, trials))
        return
    print(f"candidate {candidate.id}: {candidate.state}, by {plain(candidate.proposer)}")
    print(f"  {params(candidate.params, 1000)}")
    for line in (*_origin(candidate), *_patch(candidate)):
        print(line)
    rows = [
        (
            str(trial.number),
            f"{trial.kind} {trial.stage or ''}".strip(),
            d.outcome_word(trial.state, trial.verdict),
            str(trial.reason or ""),
            number(trial.value),
            duration(d.duration_of(trial)),
        )
        for trial in trials
    ]
    console().print(table(">trial", "kind", "outcome", "reason", ">value", ">took", rows=rows))
