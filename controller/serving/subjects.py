"""Which stored model a word on the command line means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.registry.names import find_promotion, is_promotion_name
from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.entries import CandidatePromoted
from ledger.entry_pages import page_of_entries
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import ArtifactRole, Incumbent, Json, Study, TrialKind

NAME_RULE: Final = "letters, digits and . _ - only, at most 100, the first a letter or digit"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SHORT: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A stored model, and under which name it is to be served."""

    name: str
    candidate_id: str
    study: Study
    artifact: str
    """Tree digest."""
    promotion: int | None = None
    """Its number among the promotions of the model; None: it was named otherwise."""

    @property
    def spec(self) -> StudySpec:
        return parse_study(self.study.spec)

    @property
    def own_name(self) -> str:
        """A name that only this artifact has, whatever is served under the public one."""
        return own_name(self.name, self.artifact)


def own_name(name: str, artifact: str) -> str:
    return f"{name}@{artifact[:SHORT]}"


def check_name(name: str) -> str:
    """Raises InvalidInput."""
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(f"--as {name!r}: {NAME_RULE}")
    return name


def find_subject(session: ReadSession, word: str, name: str | None = None) -> Subject:
    """A promotion (`MODEL`, its incumbent, `MODEL:NUMBER` or `MODEL@ALIAS`), a candidate's or a
    trial's id; `name` in place of the name that follows from it.

    Raises:
        NotFound, Conflict: there is none, or it left no model.
    """
    if name is not None:
        check_name(name)
    pointer = _promotion(session, word)
    if pointer is not None:
        return Subject(
            name=name or pointer.model,
            candidate_id=pointer.candidate_id,
            study=reads.get_study(session, pointer.study_id),
            artifact=_promoted_artifact(session, pointer),
            promotion=pointer.seq,
        )
    found = _candidate_model(session, word) or _latest_model(session, word, [word])
    artifact, candidate_id, study_id = found
    study = reads.get_study(session, study_id)
    promotion = parse_study(study.spec).promotion
    return Subject(
        name=name or (study.name if promotion is None else promotion.model),
        candidate_id=candidate_id,
        study=study,
        artifact=artifact,
    )


def _promotion(session: ReadSession, word: str) -> Incumbent | None:
    if is_promotion_name(word) or reads.latest_incumbent(session, word) is not None:
        return find_promotion(session, word)
    return None


def _promoted_artifact(session: ReadSession, pointer: Incumbent) -> str:
    """What was promoted: by the entry of its own position, else (a pointer that was rolled back)
    by the latest of the same candidate."""
    mine = [
        payload
        for payload in _promotions(session, pointer.study_id, pointer.candidate_id)
        if payload["model"] == pointer.model
    ]
    exact = [payload for payload in mine if payload["incumbent_seq"] == pointer.seq]
    for payload in [*exact, *mine]:
        if payload["artifact_digest"]:
            return str(payload["artifact_digest"])
    raise NotFound(
        f"{pointer.model}:{pointer.seq}: the promotion of {pointer.candidate_id} names no stored "
        "model"
    )


def _promotions(
    session: ReadSession, study_id: str, candidate_id: str
) -> list[Mapping[str, Json]]:
    """Of one candidate, the latest first."""
    entries = page_of_entries(
        session, study_id, kinds=[CandidatePromoted.kind], descending=True, limit=500
    )
    found = [entry.payload for entry in entries]
    return [payload for payload in found if payload["candidate_id"] == candidate_id]


def _candidate_model(session: ReadSession, word: str) -> tuple[str, str, str] | None:
    """Artifact, candidate and study of a candidate: what was promoted, else its latest trained
    model with a score. None: it is no candidate. Raises Conflict."""
    if not summaries.is_candidate(session, word):
        return None
    candidate = reads.get_candidate(session, word)
    for payload in _promotions(session, candidate.study_id, word):
        if payload["artifact_digest"]:
            return str(payload["artifact_digest"]), word, candidate.study_id
    trained = [
        trial.id
        for trial in reversed(summaries.trials_of(session, word))
        if trial.kind is not TrialKind.CONVERSION
    ]
    return _latest_model(session, word, trained)


def _latest_model(session: ReadSession, word: str, trial_ids: list[str]) -> tuple[str, str, str]:
    """Artifact, candidate and study of the first of the trials that has a model, those with a
    score before the others. Raises NotFound, Conflict."""
    for trial_id in trial_ids:
        if not summaries.is_trial(session, trial_id):
            raise NotFound(
                f"no promotion, candidate or trial is called {word}: write a model's name, "
                "MODEL:NUMBER, MODEL@ALIAS, a candidate's id or STUDY/NUMBER"
            )
    scored = reads.load_evaluations(session, trial_ids)
    for trial_id in sorted(trial_ids, key=lambda trial_id: trial_id not in scored):
        artifact = reads.find_artifact(session, trial_id, ArtifactRole.MODEL)
        if artifact is not None:
            trial = reads.get_trial(session, trial_id).trial
            return artifact, trial.candidate_id, trial.study_id
    raise Conflict(f"{word}: none of its trials left a model (`arl show {word}` says why)")
