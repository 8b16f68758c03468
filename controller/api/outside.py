"""Hands trials to outside workers and takes what they tell of them."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from controller.api.models.outside import Told, Value
from controller.api.uploads import Uploads
from controller.wiring import Service
from ledger.artifacts import ArtifactStore
from ledger.errors import Conflict, InvalidInput, StaleFence
from ledger.records import Study
from ledger.states import STUDY_TERMINAL
from targets import layout
from targets.outside.records import Records
from targets.protocol import Exit, ExitCause

LOG: Final = "log"
MODEL: Final = "model"
MOST_ATTEMPTS: Final = 10


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
        ready += self._records.offered(f"arl-{study.id}")
        for name in ready:
            if not _is_of(name, study.id) or self._records.read_end(name) is not None:
                continue
            offer = self._records.read_offer(name)
            if offer is not None and self._records.claim(name, own, _digest(token)):
                self._records.remember(own, name)
                return name, offer, token
        return None

    def report(self, trial_id: str, token: str, values: Sequence[Value], log: str | None) -> bool:
        """Record values, in order, and that its worker lives; whether it should stop. Raises
        StaleFence."""
        name, offer = self._held(trial_id, token)
        if values:
            lines = "".join(f"{json.dumps(value.line())}\n" for value in values)
            self._records.append(name, layout.REPORTS, lines.encode(), offer["report_bytes"])
        if log:
            self._records.append(name, LOG, log.encode(errors="replace"), offer["log_bytes"])
        self._records.beat(name)
        if values:
            self._records.ring(name)
        return self._records.is_stopping(name)

    def tell(self, trial_id: str, token: str, told: Told, uploads: Uploads) -> bool:
        """The end of a trial; False when the same was told before. Raises StaleFence, and
        InvalidInput when its artifact is none that was sent."""
        try:
            name, offer = self._held(trial_id, token, ended_too=True)
        except StaleFence:
            if self._was_told(trial_id, token):
                return False
            raise
        if self._records.read_end(name) is None:
            if told.artifact is not None:
                _lay_out(self._service.store, uploads, told.artifact, self._output(name))
            if told.metrics:
                lines = "".join(
                    f"{json.dumps({'step': told.step, 'metric': metric, 'value': value})}\n"
                    for metric, value in told.metrics.items()
                )
                self._records.append(name, layout.REPORTS, lines.encode(), offer["report_bytes"])
        ended = _exit(told, stopping=self._records.is_stopping(name))
        return self._records.end(name, ended, told=True)

    def _was_told(self, trial_id: str, token: str) -> bool:
        """Whether this token told the end of one of the trial's attempts, released since."""
        names = (f"arl-{trial_id}.train-{index}" for index in range(MOST_ATTEMPTS))
        return any(self._records.was_told_by(name, _digest(token)) for name in names)

    def input_tree(self, trial_id: str, token: str, mount: str) -> str:
        """Tree digest of one of its inputs. Raises StaleFence, InvalidInput."""
        _, offer = self._held(trial_id, token)
        digest = offer["inputs"].get(mount)
        if digest is None:
            known = ", ".join(sorted(offer["inputs"])) or "none"
            raise InvalidInput(f"input {mount[:100]!r}: the trial has {known}")
        return str(digest)

    def _output(self, name: str) -> Path:
        return self._records.attempt(name) / layout.OUTPUT / MODEL

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
        raise StaleFence(
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


def _lay_out(store: ArtifactStore, uploads: Uploads, digest: str, output: Path) -> None:
    if not uploads.has(digest):
        raise InvalidInput(f"artifact {digest}: you did not send this tree; send it first")
    store.copy_tree(digest, output)


def _exit(told: Told, *, stopping: bool) -> Exit:
    if told.outcome == "failed":
        return Exit(cause=ExitCause.EXITED, code=told.exit_code or 1, detail=told.detail)
    if told.outcome == "stopped" and stopping:
        return Exit(cause=ExitCause.STOPPED, code=42, detail=told.detail)
    return Exit(cause=ExitCause.EXITED, code=0, detail=told.detail)
