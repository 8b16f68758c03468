"""What a campaign does next: pure decisions over what is recorded of it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.spec.campaign import Action, CampaignSpec, RollbackSpec, ShiftSpec
from evaluator.objective import as_maximized
from evaluator.paired import non_inferiority
from evaluator.shift import Stability
from evaluator.statistics import tie_tolerance
from ledger.campaign_entries import (
    CampaignAlarm,
    CampaignEntry,
    CampaignFailed,
    CampaignRolledBack,
    CampaignSet,
    CampaignStopped,
    CampaignStudyEnded,
    CampaignStudySubmitted,
    ExperienceTakenIn,
    ShiftMeasured,
    SliceMeasured,
)
from ledger.records import Direction, Incumbent, Json

ALPHA: Final = 0.05
ROLLS_BACK: Final = str(Action.ROLL_BACK)


# --- which side a prompt is on -----------------------------------------------------------------


def prompt_digest(prompt: str) -> str:
    """Of a prompt as `inner_trials.contamination.prompt_of` normalises it."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def is_held_out(digest: str, share: float) -> bool:
    """By its digest alone: the same for all records of a prompt, for ever; and whoever is held
    out under a share is held out under any larger one."""
    return int(digest[:16], 16) < share * 2**64


# --- what is recorded --------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class CampaignState:
    """All entries of one campaign, folded; only `fold_campaign` changes it."""

    settings: CampaignSet | None = None
    number: int = 0
    """Of its latest entry."""
    stopped: CampaignStopped | None = None
    sources: set[str] = field(default_factory=set)
    """Digests of the files that were taken in."""
    batches: list[ExperienceTakenIn] = field(default_factory=list)
    study: CampaignStudySubmitted | None = None
    """The latest."""
    study_at: float = 0.0
    ended: CampaignStudyEnded | None = None
    """Of the latest study, once it ended."""
    shift: ShiftMeasured | None = None
    measured: dict[tuple[str, str, str], SliceMeasured] = field(default_factory=dict)
    """By bundle, slice digest and artifact."""
    alarms: list[CampaignAlarm] = field(default_factory=list)
    pending: CampaignAlarm | None = None
    """An alarm that rolls back and is not settled."""
    failed: CampaignFailed | None = None
    """What went wrong last, if nothing was done since."""

    @property
    def new_records(self) -> int:
        """To train on, taken in since the latest study."""
        after = 0 if self.study is None else self.study.after
        return sum(batch.training for batch in self.batches if batch.number > after)

    @property
    def running(self) -> str | None:
        """The study that is under way."""
        return None if self.study is None or self.ended is not None else self.study.study_id

    def was_refused(self, promotion: int) -> bool:
        """Whether the gate of the server refused it already."""
        return any(a.alarm == "gate" and a.promotion == promotion for a in self.alarms)


def fold_campaign(
    facts: Iterable[tuple[CampaignEntry, float]], state: CampaignState | None = None
) -> CampaignState:
    """From entries of one campaign, in order, with their times; on from `state`, which changes."""
    state = state or CampaignState()
    for entry, at in facts:
        state.number = entry.number
        state.failed = entry if isinstance(entry, CampaignFailed) else None
        _fold_what_came(state, entry)
        _fold_studies(state, entry, at)
        _fold_alarms(state, entry)
    return state


def _fold_what_came(state: CampaignState, entry: CampaignEntry) -> None:
    if isinstance(entry, CampaignSet):
        state.settings, state.stopped = entry, None
    elif isinstance(entry, CampaignStopped):
        state.stopped = entry
    elif isinstance(entry, ExperienceTakenIn):
        state.sources.add(entry.source_digest)
        state.batches.append(entry)
    elif isinstance(entry, ShiftMeasured):
        state.shift = entry


def _fold_studies(state: CampaignState, entry: CampaignEntry, at: float) -> None:
    if isinstance(entry, CampaignStudySubmitted):
        state.study, state.study_at, state.ended = entry, at, None
    elif isinstance(entry, CampaignStudyEnded):
        state.ended = entry


def _fold_alarms(state: CampaignState, entry: CampaignEntry) -> None:
    if isinstance(entry, SliceMeasured):
        bundle = "" if state.settings is None else state.settings.bundle_digest
        state.measured[bundle, entry.slice_digest, entry.artifact_digest] = entry
    elif isinstance(entry, CampaignAlarm):
        state.alarms.append(entry)
        if entry.action == ROLLS_BACK:
            state.pending = entry
    elif isinstance(entry, CampaignRolledBack):
        state.pending = None


# --- when a study starts -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDecision:
    starts: bool
    why: str
    """In words, either way."""
    at: float | None = None
    """When time alone will have made it due; None: it waits for something else."""


def decide_study(state: CampaignState, spec: CampaignSpec, now: float) -> StudyDecision:
    """Whether a study starts now."""
    schedule = spec.schedule
    count = 0 if state.study is None else state.study.study
    due = _due_at(state, spec)
    if state.stopped is not None:
        return StudyDecision(starts=False, why=f"it was stopped by {state.stopped.actor}")
    if state.running is not None:
        return StudyDecision(starts=False, why=f"study {state.running} is under way")
    if state.pending is not None:
        return StudyDecision(starts=False, why=f"alarm {state.pending.number} is not settled")
    if count >= schedule.studies:
        why = f"all {schedule.studies} studies of schedule.studies were started"
        return StudyDecision(starts=False, why=why)
    if state.new_records < schedule.min_new:
        why = f"{state.new_records} of {schedule.min_new} new records to train on"
        return StudyDecision(starts=False, why=why)
    if now < due:
        why = f"the last one was submitted less than {schedule.every_s:g} s ago"
        return StudyDecision(starts=False, why=why, at=due)
    return StudyDecision(starts=True, why=f"{state.new_records} new records to train on")


def _due_at(state: CampaignState, spec: CampaignSpec) -> float:
    if state.study is None or spec.schedule.every_s is None:
        return 0.0
    return state.study_at + spec.schedule.every_s


# --- alarms ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingDecision:
    forgotten: bool
    comparison: Mapping[str, Json]
    detail: str


def decide_forgetting(
    new: Sequence[float], old: Sequence[float], *, direction: Direction, max_drop: float
) -> ForgettingDecision:
    """The alarm rings when the mean fell by more than max_drop and, item by item, a fall is
    beyond chance: its one-sided 95 % bound is above 0 (Tango's for items that are 0 or 1, else a
    paired t test's). Raises ValueError: the items do not pair, or are fewer than two."""
    ours = [[as_maximized(value, direction) for value in new]]
    before = [[as_maximized(value, direction) for value in old]]
    fallen = non_inferiority(before, ours, margin=1.0, alpha=ALPHA)
    risen = non_inferiority(ours, before, margin=1.0, alpha=ALPHA)
    drop, low, high = fallen.difference, fallen.lower, -risen.lower
    rounding = tie_tolerance([*new, *old])
    forgotten = drop > max_drop + rounding and low > rounding
    return ForgettingDecision(
        forgotten=forgotten,
        comparison={
            "drop": drop,
            "low95": low,
            "high95": high,
            "items": fallen.items,
            "gained": fallen.lost,
            "lost": fallen.gained,
        },
        detail=(
            f"it fell by {drop:.4g} (at least {low:.4g}, at most {high:.4g}) over {fallen.items} "
            f"items, lost {fallen.gained} and gained {fallen.lost}; {max_drop:g} is allowed"
        ),
    )


def is_shifted(found: Mapping[str, Stability], spec: ShiftSpec) -> bool:
    """One of the statistics is beyond its limit, and beyond chance."""
    return any(one.psi > spec.max_psi and one.p <= spec.alpha for one in found.values())


def shift_detail(found: Mapping[str, Stability], spec: ShiftSpec) -> str:
    told = ", ".join(f"{name}: psi {s.psi:.3g}, p {s.p:.3g}" for name, s in found.items())
    return f"{told}; it rings above {spec.max_psi:g} with p at most {spec.alpha:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDecision:
    action: Action
    back_to: int | None
    detail: str


def decide_alarm(
    alarm: str,
    detail: str,
    rules: RollbackSpec,
    history: Sequence[Incumbent],
    served_before: str | None,
) -> AlarmDecision:
    """What an alarm about the incumbent does.

    Args:
        history: of the model's pointer, the newest first.
        served_before: candidate that was served before it.
    """
    wanted = Action(getattr(rules, alarm))
    if wanted is Action.TELL:
        return AlarmDecision(action=Action.TELL, back_to=None, detail=detail)
    for pointer in history[1:]:
        if pointer.candidate_id == served_before != history[0].candidate_id:
            return AlarmDecision(action=Action.ROLL_BACK, back_to=pointer.seq, detail=detail)
    told = f"{detail}; nothing was served before that one could go back to"
    return AlarmDecision(action=Action.TELL, back_to=None, detail=told)
