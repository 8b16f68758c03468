"""Hands trials to outside workers and takes what they tell of them."""

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any, Final

from controller.api.models.outside import Report, Told
from controller.api.uploads import Uploads
from controller.wiring import Service
from ledger.errors import Conflict, InvalidInput, StaleFence
from ledger.files import remove_tree
from ledger.records import Study
from ledger.states import STUDY_TERMINAL, StudyState
from targets import layout
from targets.outside.records import Records
from targets.protocol import Exit, ExitCause

LOG: Final = "log"
MODEL: Final = "model"


class Outside:
    """The outside attempts of one ledger. Cheap to make; thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._records = Records(Path(service.settings.home) / "outside")

    def ask(self, study: Study, client: str) -> tuple[str, dict[str, Any], str] | None:
        """The attempt that is this client's now, with its offer and a new token: the one it has
        already, else the oldest that nobody has. None: none is ready yet.

        Raises:
            Conflict: the study has ended, or its trials run elsewhere.
        """
        _check_open(study)
        own = hashlib.sha256(f"{study.id}\0{client}".encode()).hexdigest()
        token = f"arlt_{secrets.token_urlsafe(32)}"
        held = self._records.fetched_by(own)
        ready = [] if held is None else [held]
        if study.state is not StudyState.PAUSED:  # nothing new begins; what one has goes on
            ready += self._records.offered(f"arl-{study.id}")
        for name in ready:
            if not _is_of(name, study.id) or self._records.read_end(name) is not None:
                continue
            offer = self._records.read_offer(name)
            if offer is not None and self._records.claim(name, own, _digest(token)):
                self._records.remember(own, name)
                return name, offer, token
        return None

    def report(self, trial_id: str, token: str, report: Report) -> bool:
        """Record what a report says, once, and that its worker lives; whether to stop. Raises
        StaleFence."""
        name, offer = self._held(trial_id, token)
        with self._records.alone(name):
            number = report.number
            if number is None or not self._records.is_repeated(name, number):
                self._add_values(name, offer, [value.line() for value in report.values])
                if report.log:
                    said = report.log.encode(errors="replace")
                    self._records.append(name, LOG, said, offer["log_bytes"])
                if number is not None:
                    self._records.take(name, number)
        self._records.beat(name)
        if report.values:
            self._records.ring(name)
        return self._records.is_stopping(name)

    def tell(self, trial_id: str, token: str, told: Told, uploads: Uploads) -> bool:
        """The end of a trial; False when it was told before. Raises StaleFence when it ended
        otherwise, and InvalidInput when its artifact is none that was sent."""
        try:
            return self._tell(trial_id, token, told, uploads)
        except StaleFence:
            released = self._records.told_with(_digest(token))
            if released is not None and released.startswith(f"arl-{trial_id}."):
                return False
            raise

    def _tell(self, trial_id: str, token: str, told: Told, uploads: Uploads) -> bool:
        name, offer = self._held(trial_id, token, ended_too=True)
        with self._records.alone(name):
            if self._records.read_end(name) is None:
                if told.artifact is not None:
                    self._lay_out(uploads, told.artifact, name)
                self._add_values(
                    name,
                    offer,
                    [
                        {"step": told.step, "metric": metric, "value": value}
                        for metric, value in told.metrics.items()
                    ],
                )
                ended = _exit(told, stopping=self._records.is_stopping(name))
                if self._records.end(name, ended, told=True):
                    return True
            if self._records.is_told(name):
                return False
        raise _stale(trial_id)

    def _add_values(self, name: str, offer: dict[str, Any], values: list[dict[str, Any]]) -> None:
        if values:
            lines = "".join(f"{json.dumps(value)}\n" for value in values).encode()
            self._records.append(name, layout.REPORTS, lines, offer["report_bytes"])

    def _lay_out(self, uploads: Uploads, digest: str, name: str) -> None:
        """The told artifact as the attempt's output, in place of what a cut try left there."""
        if not uploads.has(digest):
            raise InvalidInput(f"artifact {digest}: you did not send this tree; send it first")
        output = self._records.attempt(name) / layout.OUTPUT / MODEL
        remove_tree(output)
        self._service.store.copy_tree(digest, output)

    def input_tree(self, trial_id: str, token: str, mount: str) -> str:
        """Tree digest of one of its inputs. Raises StaleFence, InvalidInput."""
        _, offer = self._held(trial_id, token)
        digest = offer["inputs"].get(mount)
        if digest is None:
            known = ", ".join(sorted(offer["inputs"])) or "none"
            raise InvalidInput(f"input {mount[:100]!r}: the trial has {known}")
        return str(digest)

    def _held(
        self, trial_id: str, token: str, *, ended_too: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """The attempt of a trial that this token opens. Raises StaleFence: it was given to
        another worker meanwhile, was taken back, or never was this token's."""
        wanted = _digest(token)
        for name in self._records.names():
            if not name.startswith(f"arl-{trial_id}."):
                continue
            claim, offer = self._records.read_claim(name), self._records.read_offer(name)
            if claim is None or offer is None or claim["token"] != wanted:
                continue
            if ended_too or self._records.read_end(name) is None:
                return name, offer
        raise _stale(trial_id)


def _stale(trial_id: str) -> StaleFence:
    return StaleFence(
        f"trial {trial_id}: this token has no attempt of it any more: it ended, was taken "
        "back, or its lease was over; ask for another"
    )


def _check_open(study: Study) -> None:
    if study.state in STUDY_TERMINAL:
        raise Conflict(f"study {study.name} is {study.state}: there is nothing to ask for")
    target = study.spec.get("target")
    name = target.get("name") if isinstance(target, dict) else None
    if name != "outside":
        raise Conflict(
            f"study {study.name} runs its trials on target {name}; outside workers get those of "
            "studies with target.name: outside"
        )


def _is_of(name: str, study_id: str) -> bool:
    return name.startswith(f"arl-{study_id}")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _exit(told: Told, *, stopping: bool) -> Exit:
    if told.outcome == "failed":
        return Exit(cause=ExitCause.EXITED, code=told.exit_code or 1, detail=told.detail)
    if told.outcome == "stopped" and stopping:
        return Exit(cause=ExitCause.STOPPED, code=42, detail=told.detail)
    return Exit(cause=ExitCause.EXITED, code=0, detail=told.detail)
