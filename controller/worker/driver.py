"""Drives one claimed study: news, decisions, one commit, then effects. Never sleeps."""

import logging
import math
from collections.abc import Callable
from typing import Final

from controller.steps import HELD, STEPS, commands
from controller.steps.capacity import Capacity
from controller.steps.context import StepContext
from controller.steps.ending import fail_study
from controller.steps.prepare import begin
from controller.steps.view import StudyView
from controller.wiring import Service
from controller.worker.conditions import CONDITION_EVERY_S, Condition, Pace, find_low_disk
from controller.worker.opening import open_study
from controller.worker.telling import tell
from ledger import entries as e
from ledger import pools, reads, writes
from ledger.errors import (
    BundleChanged,
    Conflict,
    DiskFull,
    ProposerFailed,
    TargetUnavailable,
)
from ledger.heads import write_heads
from ledger.pool_writes import HostFull
from ledger.records import PausedBy
from ledger.states import STUDY_TERMINAL, AttemptState, Reason, StudyState
from targets.protocol import Target

log = logging.getLogger("arl.worker")

NOTES_WAIT_S: Final = 0.05
"""Progress notes (started, values) may wait this long for a decision to share their commit."""
COMMANDS_EVERY_S: Final = 0.2


class StudyDriver:
    """One study under this worker's lease. Thrown away when its fence turns out stale."""

    def __init__(self, service: Service, study_id: str, fence: int, capacity: Capacity) -> None:
        self.study_id = study_id
        self.fence = fence
        self.condition: Condition | None = None
        self._service = service
        self._capacity = capacity
        self._ctx = self._load()
        self.lease_until = math.inf
        self.clock_ahead: float | None = None
        """Monotonic, and `clock.ahead` then; set whenever the lease is claimed or renewed."""
        self._owed: list[Callable[[], None]] = []
        self._notes_since: float | None = None
        self._commands_at = 0.0
        self._condition_at = 0.0
        self._pace = Pace()

    @property
    def view(self) -> StudyView:
        return self._ctx.view

    @property
    def targets(self) -> list[Target]:
        """Where its attempts run."""
        return self._ctx.targets()

    @property
    def is_settled(self) -> bool:
        """Nothing more will happen without a command."""
        return (
            self.view.study.state in STUDY_TERMINAL
            and not self._ctx.batch
            and not self._owed
            and not self.view.attempts()
            and (self.view.is_retained or self.view.spec.retention is None)
        )

    @property
    def is_movable(self) -> bool:
        """Whether another worker of this host may take it over now, without a loss: no proposer
        thinks about it, nothing is owed, no condition holds it."""
        return self._ctx.asked is None and not self._owed and self.condition is None

    def snapshot(self) -> StepContext:
        """The context, for progress display; read only."""
        return self._ctx

    def _load(self) -> StepContext:
        opened = open_study(self._service, self.study_id, self._capacity)
        self._bundle_damage = opened.bundle_damage
        return opened.context

    def reload(self) -> None:
        """Forget everything not committed and read the study again."""
        self._ctx = self._load()
        self._notes_since = None

    def tick(self, news: set[str]) -> None:
        """Do everything that can be done now; `news` is that of all studies of the worker.

        Raises:
            StaleFence: another worker holds the study; drop this driver.
            LedgerUnavailable: nothing was written; call `reload` once the ledger answers.
        """
        ctx = self._ctx
        # Only its own: what is news to other studies would be kept for ever.
        ctx.news |= news.intersection(a.handle for a in self.view.attempts())
        ctx.lease_until, ctx.clock_ahead = self.lease_until, self.clock_ahead
        try:
            if self._bundle_damage and self.view.study.state not in STUDY_TERMINAL:
                raise BundleChanged(self._bundle_damage)
            if self.condition is None or ctx.clock.monotonic() >= self._condition_at:
                self._act()
            self._read_commands()
            self._check_condition()
            self._take_steps()
            self._commit_if_due()
        except (DiskFull, TargetUnavailable) as error:
            self._hold(error)
        except ProposerFailed as error:
            self._fail(Reason.PROPOSER_ERROR, str(error))
        except BundleChanged as error:
            self._fail(Reason.BUNDLE_CHANGED, str(error))
        except HostFull as error:  # another worker of this host was faster
            log.debug("study %s waits: %s", self.study_id, error)
            with self._service.ledger.read() as session:
                self._capacity.see(pools.host_use(session, self._capacity.host))
            self.reload()
        except Conflict as error:  # another study was faster: to promote, say
            log.warning("study %s is read again: %s", self.study_id, error)
            self.reload()
            commands.refuse_half(self._ctx, error)
            self.commit()

    def _take_steps(self) -> None:
        """What runs while a condition holds goes on by itself, and is observed again once the
        condition clears."""
        for step in STEPS[self.view.study.state] if self.condition is None else HELD:
            step(self._ctx)
        if self.condition is not None:
            self._capacity.rest(self.study_id)

    def _read_commands(self) -> None:
        now = self._ctx.clock.monotonic()
        if now < self._commands_at:
            return
        self._commands_at = now + COMMANDS_EVERY_S
        with self._service.ledger.read() as session:
            self.view.commands = list(reads.pending_commands(session, self.study_id))

    def _commit_if_due(self) -> None:
        ctx = self._ctx
        if not ctx.batch:
            return
        now = ctx.clock.monotonic()
        if not ctx.urgent:
            if self._notes_since is None:
                self._notes_since = now
            if now - self._notes_since < NOTES_WAIT_S:
                return
        self.commit()

    def commit(self) -> None:
        """Write the batch in one transaction under the fence, then do what it allows."""
        ctx = self._ctx
        if not ctx.batch:
            return
        with self._service.ledger.write() as session:
            writes.record(session, self.study_id, self.fence, ctx.batch, active_s=ctx.active_s())
            back, taken = self._capacity.changes(self.study_id)
            writes.change_holds(session, self._capacity.size, given_back=back, taken=taken)
        self._capacity.committed(self.study_id)
        for attempt in ctx.view.attempts():
            attempt.committed = True
        committed, effects = ctx.batch, ctx.after_commit
        ctx.batch, ctx.after_commit, ctx.urgent, self._notes_since = [], [], False, None
        if any(isinstance(entry, e.CandidatePromoted) for entry in committed):
            self._owed.append(self._remember_heads)
        self._owed += effects
        tell(self.study_id, committed)
        self._act()

    def _act(self) -> None:
        """Do what commits allowed, in order. What a target that is away refuses stays owed."""
        while self._owed:
            self._owed[0]()
            del self._owed[0]

    def _remember_heads(self) -> None:
        """Note outside the database how far its chains reach, so that truncation would show."""
        with self._service.ledger.read() as session:
            write_heads(session, self._service.settings.heads_path)

    @property
    def has_launches(self) -> bool:
        """Whether a committed intent waits to be started: tick again without waiting."""
        return self.condition is None and any(
            a.state is AttemptState.LAUNCHING and a.committed for a in self.view.attempts()
        )

    def handles(self, target: Target) -> list[str]:
        """Attempts that run there, whose news this driver waits for."""
        return [
            a.handle
            for a in self.view.attempts()
            if a.handle is not None
            and a.state is AttemptState.RUNNING
            and self._ctx.target_of(a) is target
        ]

    def wait_s(self, longest: float) -> float:
        """How long this study can be left alone when nothing happens in the world."""
        now = self._ctx.clock.monotonic()
        due = [now + longest, self._commands_at]
        if self._notes_since is not None:
            due.append(self._notes_since + NOTES_WAIT_S)
        due += [t.retry_at for t in self.view.live.values() if t.retry_at > now]
        return max(0.0, min(due) - now)

    def _check_condition(self) -> None:
        """Watch the disk, and let go of a condition that has cleared."""
        ctx = self._ctx
        now = ctx.clock.monotonic()
        if now < self._condition_at:
            return
        self._condition_at = now + CONDITION_EVERY_S
        study = self.view.study
        is_held = self.condition is not None or study.paused_by is PausedBy.CONDITION
        low = find_low_disk(ctx.settings.disks(), was_low=is_held)
        ctx.disk_is_low = low is not None
        if not is_held:
            if low is not None and study.state not in (*STUDY_TERMINAL, StudyState.PAUSED):
                self._pause(low)
            return
        if low is not None:
            return
        self.condition = None
        self._pace.clear(now)
        if study.paused_by is PausedBy.CONDITION and study.paused_from is not None:
            ctx.move(study.paused_from, detail="the condition has cleared")

    def _hold(self, error: DiskFull | TargetUnavailable) -> None:
        """Drop the batch, and pause the study in the ledger if that can still be written."""
        reason = Reason.DISK_FULL if isinstance(error, DiskFull) else Reason.TARGET_UNAVAILABLE
        self.reload()
        self._condition_at = self._pace.next_look(self._ctx.clock.monotonic())
        try:
            self._pause(Condition(reason, str(error)))
            self.commit()
        except DiskFull:
            self.reload()
            self.condition = Condition(reason, str(error))
            log.warning("study %s waits, and cannot even record why: %s", self.study_id, error)
        self.view.is_retained = True  # for now: what could not be written is not tried each tick

    def _pause(self, condition: Condition) -> None:
        self.condition = condition
        begin(self._ctx)  # one that was only submitted says why it waits, too
        study = self.view.study
        if study.state in (StudyState.PAUSED, *STUDY_TERMINAL):
            return
        self._ctx.add(
            e.StudyMoved(
                current=study.state,
                new=StudyState.PAUSED,
                reason=condition.reason,
                detail=condition.detail,
                paused_by=PausedBy.CONDITION,
            )
        )

    def _fail(self, reason: Reason, detail: str) -> None:
        """End the study: what is running is cancelled, and the reason says whose fault it was."""
        self.reload()
        fail_study(self._ctx, reason, detail)
        self.commit()
