"""Finds the study, trial or candidate that a word on the command line means."""

from dataclasses import dataclass

from controller.cli.text import plain
from controller.registry.names import find_promotion, is_promotion_name
from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.errors import Conflict, NotFound
from ledger.records import Candidate, Incumbent, Study

LAST = "last"


@dataclass(frozen=True, slots=True)
class TrialName:
    id: str


@dataclass(frozen=True, slots=True)
class CandidateName:
    id: str


def find_study(session: ReadSession, name: str) -> Study:
    """By id, unique name, unique beginning of an id, or `last`. Raises NotFound, Conflict."""
    if name == LAST:
        newest = summaries.newest_study(session)
        if newest is None:
            raise NotFound("the ledger holds no study yet: `arl run STUDY.yaml` starts one")
        return newest
    try:
        return reads.find_study(session, name)
    except NotFound:
        found = summaries.studies_starting_with(session, name) if name else []
    if len(found) > 1:
        ids = ", ".join(study.id for study in found)
        raise Conflict(f"several studies begin with {plain(name)}: say which ({ids})")
    if not found:
        raise NotFound(f"no study has the id or name {plain(name)}: `arl studies` lists them")
    return found[0]


def find_trial_id(session: ReadSession, name: str) -> str:
    """By id or as STUDY/NUMBER. Raises NotFound, Conflict."""
    study_name, slash, number = name.rpartition("/")
    if slash:
        study = find_study(session, study_name)
        trial = None
        if number.isdecimal() and len(number) < 10:
            trial = reads.find_trial(session, study.id, int(number))
        if trial is None:
            raise NotFound(f"study {study.name} has no trial {plain(number)}")
        return trial.id
    if not summaries.is_trial(session, name):
        raise NotFound(f"no trial has the id {plain(name)}: write STUDY/NUMBER or a trial's id")
    return name


def find_candidate(session: ReadSession, name: str) -> Candidate:
    """By id, that of a trial named by id or as STUDY/NUMBER, or what a promotion's name means.
    Raises NotFound, Conflict."""
    if "/" not in name and summaries.is_candidate(session, name):
        return reads.get_candidate(session, name)
    promoted = find_promoted(session, name)
    if promoted is not None:
        return reads.get_candidate(session, promoted.candidate_id)
    try:
        trial_id = find_trial_id(session, name)
    except NotFound as error:
        if "/" in name:
            raise
        raise NotFound(
            f"no candidate, trial or promotion is called {plain(name)}: write a candidate's id, "
            "STUDY/NUMBER of one of its trials, or a model's name (NAME:NUMBER, NAME@ALIAS)"
        ) from error
    return reads.get_trial(session, trial_id).candidate


def find_promoted(session: ReadSession, name: str) -> Incumbent | None:
    """What a promotion's name means; None where a word may mean something else, and no model has
    it. Raises NotFound for NAME:NUMBER and NAME@ALIAS that name nothing."""
    if is_promotion_name(name) or reads.latest_incumbent(session, name) is not None:
        return find_promotion(session, name)
    return None


def find_anything(session: ReadSession, name: str) -> Study | TrialName | CandidateName:
    """A study, a trial or a candidate, whichever `name` means; NAME:NUMBER and NAME@ALIAS mean
    what was promoted. Raises NotFound, Conflict."""
    if "/" in name:
        return TrialName(find_trial_id(session, name))
    if summaries.is_trial(session, name):
        return TrialName(name)
    if summaries.is_candidate(session, name):
        return CandidateName(name)
    if is_promotion_name(name):
        return CandidateName(find_promotion(session, name).candidate_id)
    try:
        return find_study(session, name)
    except NotFound:
        raise NotFound(
            f"no study, trial or candidate is called {plain(name)}: `arl studies` lists studies, "
            "`arl show STUDY` their trials, `arl models` what was promoted (NAME:NUMBER)"
        ) from None
