"""Builders with defaults for ledger tests: a study, and the entries of its trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import select

from ledger import writes
from ledger.conversion_entries import ConversionMeasured, ConversionOpened
from ledger.database import Ledger
from ledger.digests import canonical_json, json_digest, sha256_hex, values_json
from ledger.entries import (
    ArtifactRecorded,
    AttemptEnded,
    AttemptExited,
    AttemptLaunching,
    AttemptStarted,
    CandidatePromoted,
    CandidateProposed,
    Entry,
    FamilyOpened,
    StudyMoved,
    StudySubmitted,
    TrialDecided,
    TrialEnded,
    TrialEvaluated,
    ValuesReported,
)
from ledger.records import (
    ArtifactRole,
    AttemptKind,
    IntermediateValue,
    Json,
    Params,
    PausedBy,
    Resource,
    Split,
    TrialKind,
    Verdict,
)
from ledger.states import AttemptState, Reason, StudyState, TrialState
from ledger.tables import Base

BUNDLE = "b" * 64
MODEL = "d" * 64
COMPARISON = "c" * 64
SECRET = "5" * 64
SPEC: Mapping[str, Json] = {
    "name": "demo",
    "objective": {"metric": "loss", "direction": "minimize"},
}


def everything(ledger: Ledger) -> dict[str, list[str]]:
    """Every row of every table, to see that nothing changed."""
    with ledger.read() as session:
        return {
            table.name: sorted(map(repr, session.connection.execute(select(table))))
            for table in Base.metadata.sorted_tables
        }


def submit(
    ledger: Ledger,
    study_id: str = "s1",
    *,
    name: str = "demo",
    budgets: Mapping[Resource, float | None] | None = None,
    spec: Mapping[str, Json] = SPEC,
    comparison: str = COMPARISON,
    only_unfinished: bool = False,
) -> None:
    entry = StudySubmitted(
        name=name,
        spec_digest=json_digest(dict(spec)),
        bundle_digest=BUNDLE,
        comparison=comparison,
        seed=7,
        actor="tester",
    )
    with ledger.write() as session:
        writes.create_study(
            session,
            study_id,
            spec=spec,
            secret=SECRET,
            budgets=budgets or {},
            entry=entry,
            only_unfinished=only_unfinished,
        )


def claim(ledger: Ledger, study_id: str = "s1", *, owner: str = "w1", dead: bool = False) -> int:
    with ledger.write() as session:
        fence = writes.claim_study(session, study_id, owner, 30.0, dead=dead)
    assert fence is not None
    return fence


@dataclass
class Driven:
    """A submitted and claimed study, and what its worker would record."""

    ledger: Ledger
    study_id: str = "s1"
    fence: int = 0
    finished: int = field(default=0)

    def record(self, *entries: Entry, active_s: float | None = None) -> None:
        with self.ledger.write() as session:
            writes.record(session, self.study_id, self.fence, entries, active_s=active_s)

    def move(
        self,
        current: StudyState,
        new: StudyState,
        reason: Reason | None = None,
        paused_by: PausedBy | None = None,
    ) -> None:
        if new is StudyState.PAUSED and paused_by is None:
            paused_by = PausedBy.OPERATOR
        self.record(StudyMoved(current=current, new=new, reason=reason, paused_by=paused_by))

    def run_study(self) -> None:
        self.move(StudyState.SUBMITTED, StudyState.PREPARING)
        self.move(StudyState.PREPARING, StudyState.RUNNING)

    def trial(self, number: int) -> str:
        return f"{self.study_id}-t{number}"

    def candidate(self, number: int) -> str:
        return f"{self.study_id}-c{number}"

    def train(self, number: int, index: int = 0) -> str:
        return f"{self.trial(number)}-train{index}"

    def evaluate(self, number: int, split: Split = Split.SEARCH) -> str:
        return f"{self.trial(number)}-{split}"

    def attempt(self, number: int, split: Split | None, index: int) -> str:
        return self.train(number, index) if split is None else self.evaluate(number, split)

    def proposed(
        self,
        number: int,
        *,
        kind: TrialKind = TrialKind.SEARCH,
        params: Params | None = None,
        of_candidate: int | None = None,
        **fields: str | None,
    ) -> CandidateProposed:
        params = {"lr": 0.001 * (number + 1), "layers": number} if params is None else params
        patch = fields.pop("patch", None)
        return CandidateProposed(
            trial_id=self.trial(number),
            number=number,
            trial_kind=kind,
            candidate_id=self.candidate(number if of_candidate is None else of_candidate),
            digest=json_digest([self.study_id, number]),
            params=params,
            patch=patch,
            patch_digest=None if patch is None else sha256_hex(patch.encode()),
            proposer="random",
            seed=number,
            watermark=0,
            splits=(Split.SEARCH,),
            new_candidate=of_candidate is None,
            parent_id=fields.get("parent_id"),
            family_id=fields.get("family_id"),
            stage=fields.get("stage"),
            rationale=fields.get("rationale") or "",
        )

    def launching(
        self,
        number: int,
        *,
        split: Split | None = None,
        index: int = 0,
        gpu_s: float = 0.0,
    ) -> AttemptLaunching:
        return AttemptLaunching(
            attempt_id=self.train(number, index)
            if split is None
            else self.evaluate(number, split),
            trial_id=self.trial(number),
            attempt_kind=AttemptKind.TRAIN if split is None else AttemptKind.EVALUATE,
            index=index,
            split=split,
            target="local",
            host="here",
            timeout_s=60.0,
            gpu_s=gpu_s,
        )

    def started(
        self, number: int, *, split: Split | None = None, index: int = 0
    ) -> AttemptStarted:
        return AttemptStarted(
            attempt_id=self.train(number, index)
            if split is None
            else self.evaluate(number, split),
            trial_id=self.trial(number),
            handle="handle",
            trial_starts=split is None and index == 0,
        )

    def exited(
        self,
        number: int,
        *,
        split: Split | None = None,
        index: int = 0,
        gpu_s: float = 0.0,
    ) -> AttemptExited:
        return AttemptExited(
            attempt_id=self.train(number, index)
            if split is None
            else self.evaluate(number, split),
            exit_code=0,
            cause="exited",
            wall_s=0.5,
            cpu_s=0.25,
            max_rss_bytes=1_000_000,
            gpu_s=gpu_s,
        )

    def ended_attempt(
        self,
        number: int,
        current: AttemptState,
        new: AttemptState = AttemptState.LOST,
        *,
        index: int = 0,
    ) -> AttemptEnded:
        return AttemptEnded(
            attempt_id=self.train(number, index),
            current=current,
            new=new,
            reason=Reason.ATTEMPT_LOST,
            detail="gone",
        )

    def values(
        self, number: int, sequence: int, values: Sequence[tuple[int, str, float]]
    ) -> ValuesReported:
        reported = tuple(IntermediateValue(step=s, metric=m, value=v) for s, m, v in values)
        return ValuesReported(
            attempt_id=self.train(number),
            trial_id=self.trial(number),
            sequence=sequence,
            count=len(reported),
            digest=sha256_hex(values_json(reported).encode()),
            values=reported,
        )

    def saved(self, number: int, *, digest: str = MODEL, index: int = 0) -> ArtifactRecorded:
        return ArtifactRecorded(
            attempt_id=self.train(number, index),
            trial_id=self.trial(number),
            digest=digest,
            role=ArtifactRole.MODEL,
            files=1,
            size_bytes=10,
            collects=True,
        )

    def scored(
        self,
        number: int,
        value: float,
        *,
        split: Split = Split.SEARCH,
        last: bool = True,
        items: tuple[float, ...] = (),
    ) -> TrialEvaluated:
        return TrialEvaluated(
            attempt_id=self.evaluate(number, split),
            trial_id=self.trial(number),
            split=split,
            bundle_digest=BUNDLE,
            artifact_digest=MODEL,
            value=value,
            scores={"loss": value, "accuracy": 0.5},
            items_digest=sha256_hex(canonical_json(list(items)).encode()) if items else None,
            items=items,
            last=last,
        )

    def decided(
        self,
        number: int,
        value: float,
        *,
        kind: TrialKind = TrialKind.SEARCH,
        verdict: Verdict = Verdict.DISCARD,
        of_candidate: int | None = None,
    ) -> TrialDecided:
        self.finished += 1
        return TrialDecided(
            trial_id=self.trial(number),
            candidate_id=self.candidate(number if of_candidate is None else of_candidate),
            trial_kind=kind,
            verdict=verdict,
            reason={
                Verdict.KEEP: Reason.BETTER,
                Verdict.DISCARD: Reason.WORSE,
                Verdict.MEASURED: Reason.MEASURED,
            }[verdict],
            value=value,
            compared_with=None,
            margin=0.25,
            noise_floor=0.1,
            finish_seq=self.finished,
        )

    def ended(
        self,
        number: int,
        current: TrialState,
        new: TrialState = TrialState.FAILED,
        *,
        kind: TrialKind = TrialKind.SEARCH,
    ) -> TrialEnded:
        self.finished += 1
        return TrialEnded(
            trial_id=self.trial(number),
            candidate_id=self.candidate(number),
            trial_kind=kind,
            current=current,
            new=new,
            reason=Reason.EXIT_NONZERO,
            detail="it ended",
            finish_seq=self.finished,
        )

    def whole_trial(
        self,
        number: int,
        value: float,
        *,
        kind: TrialKind = TrialKind.SEARCH,
        verdict: Verdict = Verdict.DISCARD,
        of_candidate: int | None = None,
        family_id: str | None = None,
    ) -> None:
        """Proposed, trained, scored and decided, in the worker's four transactions."""
        proposed = self.proposed(number, kind=kind, of_candidate=of_candidate, family_id=family_id)
        self.record(proposed, self.launching(number))
        self.record(self.started(number))
        self.record(
            self.values(number, 0, [(1, "loss", value + 1), (2, "loss", value)]),
            self.exited(number),
            self.saved(number),
            self.launching(number, split=Split.SEARCH),
        )
        self.record(
            self.started(number, split=Split.SEARCH),
            self.exited(number, split=Split.SEARCH),
            self.scored(number, value, items=(0.5, value)),
            self.decided(number, value, kind=kind, verdict=verdict, of_candidate=of_candidate),
        )

    def family(self, number: int = 1, candidates: tuple[str, ...] = ()) -> FamilyOpened:
        return FamilyOpened(
            family_id=f"{self.study_id}-f{number}",
            number=number,
            model="demo-model",
            bundle_digest=BUNDLE,
            profile={"m": 3},
            candidates=candidates,
            incumbent_id="base",
            pool=(),
        )

    def promotion(
        self, number: int, *, seq: int = 1, family: int = 1, model: str = "demo-model"
    ) -> CandidatePromoted:
        return CandidatePromoted(
            model=model,
            incumbent_seq=seq,
            candidate_id=self.candidate(number),
            previous_id=None,
            family_id=f"{self.study_id}-f{family}",
            comparison=COMPARISON,
            artifact_digest=MODEL,
            approver="gate",
            evidence={"gain": 0.5},
        )

    def converted(self, number: int, *, of_candidate: int, source: int) -> None:
        """A conversion that was opened, and a trial of it that was converted and measured."""
        self.record(self.conversion(of_candidate=of_candidate, source=source))
        self.record(
            self.proposed(number, kind=TrialKind.CONVERSION, of_candidate=of_candidate),
            self.launching(number),
            self.started(number),
            self.exited(number),
            self.saved(number),
            self.launching(number, index=1),
            replace(self.started(number, index=1), trial_starts=False),
            self.exited(number, index=1),
            ConversionMeasured(
                attempt_id=self.train(number, 1),
                trial_id=self.trial(number),
                report={"unconverted": {"token_s": 2.0}, "converted": {"token_s": 1.0}},
            ),
        )

    def conversion(self, *, of_candidate: int, source: int, number: int = 1) -> ConversionOpened:
        return ConversionOpened(
            conversion_id=f"{self.study_id}-v{number}",
            number=number,
            candidate_id=self.candidate(of_candidate),
            model="demo-model",
            method="int8",
            settings={"method": "int8", "margin": 0.02},
            sources=(self.trial(source),),
            digests=(MODEL,),
            actor="gate",
        )


def driven(
    ledger: Ledger,
    study_id: str = "s1",
    *,
    budgets: Mapping[Resource, float | None] | None = None,
) -> Driven:
    submit(ledger, study_id, budgets=budgets)
    return Driven(ledger, study_id, claim(ledger, study_id))
