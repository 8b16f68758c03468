"""What other workers of the same host hold and wait for, as the ledger last said."""

from collections.abc import Callable, Container, Iterable, Mapping

from controller.decisions.sharing import Claimant, held_seconds
from controller.decisions.slots import Grant, Request
from ledger.pools import MICRO, DrivenHold, Hold, HostUse, Want


class Neighbours:
    def __init__(self, host: str) -> None:
        self._host = host
        self._holds: dict[str, Hold] = {}
        self._wants: dict[str, Want] = {}
        self._clock_gap = 0.0
        """What to add to this machine's monotonic clock for the ledger's."""
        self.driven: list[DrivenHold] = []
        """Their holds with who drives them."""

    def __bool__(self) -> bool:
        return bool(self._holds or self._wants)

    def see(self, use: HostUse, now: float, *, leaving_out: Container[str]) -> None:
        self.driven = [one for one in use.holds if one.hold.study_id not in leaving_out]
        self._holds = {one.hold.trial_id: one.hold for one in self.driven}
        self._wants = {w.study_id: w for w in use.wants if w.study_id not in leaving_out}
        self._clock_gap = use.now - now

    def keep(self, holds: Iterable[Hold]) -> None:
        """They were this worker's own until now."""
        self._holds.update({hold.trial_id: hold for hold in holds})

    def forget(self, trial_id: str) -> None:
        """It is this worker's own now."""
        self._holds.pop(trial_id, None)

    def grants(self) -> dict[str, Grant]:
        return {trial_id: grant_of(hold) for trial_id, hold in self._holds.items()}

    def claimants(
        self,
        now: float,
        share: Callable[[Grant], float],
        *,
        leaving_out: Mapping[str, object],
    ) -> list[Claimant]:
        ledger_now = now + self._clock_gap
        return [
            self._claimant(want, ledger_now, share)
            for study_id, want in self._wants.items()
            if study_id not in leaving_out
        ]

    def _claimant(
        self, want: Want, ledger_now: float, share: Callable[[Grant], float]
    ) -> Claimant:
        held = [
            held_seconds(share(grant_of(hold)), ledger_now - hold.since, want.expected_s)
            for hold in self._holds.values()
            if hold.study_id == want.study_id
        ]
        since = want.waits_since
        return Claimant(
            study_id=want.study_id,
            weight=want.weight,
            priority=want.priority,
            spent=want.used + sum(so_far for so_far, _ in held),
            expected=sum(still for _, still in held),
            waiting_s=None if since is None else max(0.0, ledger_now - since),
            request=Request(
                cpus=want.micro_cpus / MICRO, memory_bytes=want.memory_bytes, gpus=want.gpus
            ),
        )


def grant_of(hold: Hold) -> Grant:
    return Grant(
        cpus=hold.micro_cpus / MICRO, memory_bytes=hold.memory_bytes, gpu_ids=hold.gpu_ids
    )
