"""What the ledger says of served models: gates, failures, and who has a name."""

from dataclasses import dataclass

from controller.serving.gate import Verdict
from controller.serving.subjects import Subject
from ledger import serving
from ledger.database import Ledger
from ledger.records import Evaluation, Split
from ledger.service_entries import ServingFailed, ServingJudged, ServingSet


@dataclass(frozen=True, slots=True)
class ServingRecord:
    """One ledger and server, by whoever is at work."""

    ledger: Ledger
    endpoint: str
    actor: str

    def served(self, name: str) -> ServingSet | None:
        with self.ledger.read() as session:
            found = serving.find_served(session, name)
        return None if found is None else found.entry

    def evaluations(self, subject: Subject) -> dict[Split, Evaluation]:
        """Of exactly this artifact, by the study's frozen evaluator."""
        with self.ledger.read() as session:
            return serving.evaluations_of(session, subject.artifact, subject.study.bundle_digest)

    def judged(
        self,
        subject: Subject,
        verdict: Verdict,
        *,
        form: str,
        splits: tuple[Split, ...],
        margin: float,
        shadow: bool,
    ) -> int:
        """Number of the entry."""
        entry = ServingJudged(
            name=subject.name,
            served_as=subject.own_name,
            endpoint=self.endpoint,
            candidate_id=subject.candidate_id,
            study_id=subject.study.id,
            artifact_digest=subject.artifact,
            form=form,
            bundle_digest=subject.study.bundle_digest,
            splits=splits,
            margin=margin,
            shadow=shadow,
            passed=verdict.passed,
            value=verdict.value,
            scores=dict(verdict.scores),
            items=verdict.items,
            comparisons=tuple(c.document() for c in verdict.comparisons),
            measured={side: dict(found) for side, found in verdict.measured.items()},
            answers_digest=verdict.answers_digest,
            actor=self.actor,
        )
        with self.ledger.write() as session:
            return serving.append_judged(session, entry)

    def failed(self, subject: Subject, stage: str, detail: str) -> None:
        entry = ServingFailed(
            name=subject.name,
            served_as=subject.own_name,
            endpoint=self.endpoint,
            stage=stage,
            detail=detail[:2000],
            actor=self.actor,
        )
        with self.ledger.write() as session:
            serving.append_failed(session, entry)

    def set(
        self, subject: Subject, *, after: ServingSet | None, judged: int | None, note: str = ""
    ) -> ServingSet:
        """It has the name now. Raises Conflict: another one than `after` had it by then."""
        entry = ServingSet(
            name=subject.name,
            seq=1 if after is None else after.seq + 1,
            served_as=subject.own_name,
            endpoint=self.endpoint,
            candidate_id=subject.candidate_id,
            study_id=subject.study.id,
            artifact_digest=subject.artifact,
            judged=judged,
            actor=self.actor,
            note=note,
        )
        with self.ledger.write() as session:
            serving.append_served(session, entry)
        return entry
