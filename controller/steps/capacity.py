"""One worker's part in its host's pool: what its studies hold, who waits, whose turn it is."""

from collections.abc import Iterable, Sequence
from statistics import median

from controller.clock import Clock
from controller.decisions.sharing import (
    IDLE_S,
    Claimant,
    held_seconds,
    joining_spent,
    room_for,
    share_of,
)
from controller.decisions.slots import Grant, Request, ResourcePool, fits
from controller.spec.study import StudySpec
from controller.steps.neighbours import Neighbours, grant_of
from controller.steps.study_share import StudyShare
from ledger.pool_writes import HostSize, Taking
from ledger.pools import MICRO, Hold, HostUse, Want
from targets.gpu_use import GpuUse


class Capacity:
    """This machine's resources and who holds them, shared by every study of one worker, and by
    all workers of the host through the ledger. Not thread-safe."""

    def __init__(
        self,
        machine: ResourcePool,
        clock: Clock,
        *,
        host: str = "",
        owner: str = "",
        gpu_use: GpuUse | None = None,
    ) -> None:
        self.machine = machine
        self.host = host
        self.owner = owner
        self.neighbours = Neighbours(host)
        self._clock = clock
        self._gpu_use = gpu_use or GpuUse()
        self._places: dict[str, StudyShare] = {}
        self._was_freed = False

    @property
    def size(self) -> HostSize:
        return HostSize(
            micro_cpus=round(self.machine.cpus * MICRO), memory_bytes=self.machine.memory_bytes
        )

    # --- studies come and go -------------------------------------------------------------------

    def enter(
        self, study_id: str, spec: StudySpec, holds: Iterable[Hold], want: Want | None
    ) -> None:
        """A study is driven here from now on, or was read again; `holds` and `want` are what the
        ledger has of it."""
        old = self._places.pop(study_id, None)
        place = StudyShare(spec, used=old.used if old else want.used if want else 0.0)
        if old is not None:
            place.waits_since, place.wanted_at = old.waits_since, old.wanted_at
        now = self._clock.monotonic()
        for hold in holds:
            if hold.host == self.host:
                since = old.holds[hold.trial_id][1] if old and hold.trial_id in old.holds else now
                place.holds[hold.trial_id] = (grant_of(hold), since)
                place.committed[hold.trial_id] = hold
                self.neighbours.forget(hold.trial_id)
        self._places[study_id] = place

    def leave(self, study_id: str) -> None:
        """It is driven elsewhere or nowhere; what runs of it goes on and keeps what it holds."""
        place = self._places.pop(study_id, None)
        if place is not None:
            self.neighbours.keep(place.committed.values())

    def held_by(self, study_id: str) -> dict[str, Grant]:
        """By trial."""
        return {trial: grant for trial, (grant, _) in self._places[study_id].holds.items()}

    def restore(self, study_id: str, trial_id: str) -> Grant:
        """Give a trial that runs already what it needs, past the limits if need be: its processes
        are there whatever the pool says."""
        place = self._places[study_id]
        request = place.request
        grant = fits(self.pool(), request) or Grant(
            cpus=request.cpus, memory_bytes=request.memory_bytes, gpu_ids=()
        )
        self._hold(study_id, trial_id, grant, must_fit=False)
        return grant

    # --- taking and giving back ----------------------------------------------------------------

    def pool(self) -> ResourcePool:
        """The machine, with what all studies of all its workers hold as far as is known."""
        grants = self.neighbours.grants()
        for place in self._places.values():
            grants.update({trial: grant for trial, (grant, _) in place.holds.items()})
        return ResourcePool(
            cpus=self.machine.cpus,
            memory_bytes=self.machine.memory_bytes,
            gpu_ids=self.machine.gpu_ids,
            grants=grants,
        )

    def take(self, study_id: str, trial_id: str) -> Grant | None:
        """What a trial holds from now on; None while there is too little, or others come first.
        A GPU on which an ended trial still has memory is not given."""
        place = self._places[study_id]
        if trial_id in place.holds:
            return place.holds[trial_id][0]
        now = self._clock.monotonic()
        self._join(study_id, place, now)
        grant = self._room(study_id, place)
        place.wanted_at = now
        if grant is None:
            place.was_denied = True
            place.waits_since = now if place.waits_since is None else place.waits_since
            return None
        place.waits_since = None
        self._hold(study_id, trial_id, grant, must_fit=True)
        return grant

    def give_back(self, study_id: str, trial_id: str) -> None:
        """What an ended trial held; nothing happens when it held nothing."""
        place = self._places[study_id]
        place.taken.pop(trial_id, None)
        place.given_back.add(trial_id)
        found = place.holds.pop(trial_id, None)
        if found is not None:
            grant, since = found
            now = self._clock.monotonic()
            place.used += self._share(grant) * (now - since)
            place.wanted_at = now
            self._was_freed = True

    def begin(self, study_id: str, spec: StudySpec, durations: Sequence[float]) -> None:
        """Before the study asks for what it wants now."""
        place = self._places[study_id]
        place.spec = spec
        place.was_denied = False
        if durations:
            place.expected_s = median(durations)

    def end(self, study_id: str) -> None:
        """After it: one that was given all it wanted, or asked for nothing, waits no more."""
        place = self._places.get(study_id)
        if place is not None and not place.was_denied:
            place.waits_since = None

    def rest(self, study_id: str) -> None:
        """The study is held up by something else and wants nothing."""
        self._places[study_id].was_denied = False
        self.end(study_id)

    def _hold(self, study_id: str, trial_id: str, grant: Grant, *, must_fit: bool) -> None:
        place = self._places[study_id]
        place.holds[trial_id] = (grant, self._clock.monotonic())
        hold = Hold(
            trial_id=trial_id,
            study_id=study_id,
            host=self.host,
            micro_cpus=int(grant.cpus * MICRO),  # six sixths of a processor are no more than one
            memory_bytes=grant.memory_bytes,
            gpu_ids=grant.gpu_ids,
        )
        place.taken[trial_id] = Taking(hold=hold, must_fit=must_fit)

    def _room(self, study_id: str, place: StudyShare) -> Grant | None:
        pool, request = self.pool(), place.request
        claimants = self.claimants(asking=study_id)
        grant = room_for(study_id, claimants, pool, request)
        if grant is None or not request.gpus:
            return grant
        held = {gpu for grant in pool.grants.values() for gpu in grant.gpu_ids}
        free = [gpu for gpu in pool.gpu_ids if gpu not in held]
        unclean = self._gpu_use.find_unclean(free)
        return room_for(study_id, claimants, pool, request, unclean)

    def _join(self, study_id: str, place: StudyShare, now: float) -> None:
        if place.holds or now - place.wanted_at < IDLE_S:
            return
        others = [
            one
            for one in self.claimants()
            if one.study_id != study_id and (one.waiting_s is not None or one.spent > 0)
        ]
        place.used = joining_spent(others, place.spec.weight, place.used)

    # --- who is here ---------------------------------------------------------------------------

    def claimants(self, asking: str = "") -> list[Claimant]:
        """Every study that is known to want the machine; `asking` wants it in any case."""
        now = self._clock.monotonic()
        found = [
            self._claimant(study_id, place, now, is_asking=study_id == asking)
            for study_id, place in self._places.items()
        ]
        return found + self.neighbours.claimants(now, self._share, leaving_out=self._places)

    def _claimant(
        self, study_id: str, place: StudyShare, now: float, *, is_asking: bool
    ) -> Claimant:
        since = place.waits_since
        if since is None and is_asking:
            since = now
        held = [
            held_seconds(self._share(grant), now - taken_at, place.expected_s)
            for grant, taken_at in place.holds.values()
        ]
        return Claimant(
            study_id=study_id,
            weight=place.spec.weight,
            priority=place.spec.priority,
            spent=place.used + sum(so_far for so_far, _ in held),
            expected=sum(still for _, still in held),
            waiting_s=None if since is None else now - since,
            request=place.request,
        )

    def _share(self, grant: Grant) -> float:
        request = Request(
            cpus=grant.cpus, memory_bytes=grant.memory_bytes, gpus=len(grant.gpu_ids)
        )
        return share_of(self.machine, request)

    def needs_turn(self) -> bool:
        """Whether something was given back that another study of this worker may wait for."""
        was_freed, self._was_freed = self._was_freed, False
        return was_freed and self.anyone_waits()

    def anyone_waits(self) -> bool:
        return any(place.waits_since is not None for place in self._places.values())

    # --- the ledger ----------------------------------------------------------------------------

    def changes(self, study_id: str) -> tuple[list[str], list[Taking]]:
        """What the study's next commit has to give back and to take."""
        place = self._places[study_id]
        return sorted(place.given_back), list(place.taken.values())

    def committed(self, study_id: str) -> None:
        place = self._places[study_id]
        for trial_id in place.given_back:
            place.committed.pop(trial_id, None)
        place.committed.update({trial: one.hold for trial, one in place.taken.items()})
        place.given_back.clear()
        place.taken.clear()

    def see(self, use: HostUse) -> None:
        """What the ledger says of the whole host; this worker's own studies it knows better."""
        self.neighbours.see(use, self._clock.monotonic(), leaving_out=self._places)

    def wants(self) -> list[Want]:
        """What this worker says of its studies; times are this machine's monotonic ones."""
        return [
            Want(
                study_id=study_id,
                host=self.host,
                owner=self.owner,
                weight=place.spec.weight,
                priority=place.spec.priority,
                used=place.used,
                expected_s=place.expected_s,
                waits_since=place.waits_since,
                micro_cpus=int(place.request.cpus * MICRO),
                memory_bytes=place.request.memory_bytes,
                gpus=place.request.gpus,
            )
            for study_id, place in self._places.items()
        ]
