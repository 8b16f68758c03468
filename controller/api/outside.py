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
        seen = self._records.look(f"arl-{study.id}-")
        ready = [one.name for one in seen if one.client == own]
        if study.state is not StudyState.PAUSED:  # nothing new begins; what one has goes on
            ready += [one.name for one in seen if one.client is None]
        for name in ready:
            if self._records.read_end(name) is not None:
                continue
            offer = self._records.claim(name, own, _digest(token))
            if offer is not None:
                return name, offer, token
        return None

    def report(self, trial_id: str, token: str, report: Report) -> bool:
        """Record what a report says, once, and that its worker lives; whether to stop. Raises
        StaleFence."""
        name, offer = self._held(trial_id, token)
        sent = {}
        if report.values:
            lines = "".join(f"{json.dumps(value.line())}\n" for value in report.values)
            sent[layout.REPORTS] = (lines.encode(), offer["report_bytes"])
        if report.log:
            sent[LOG] = (report.log.encode(errors="replace"), offer["log_bytes"])
        with self._records.alone(name):
            self._records.hear(name, report.number, sent)
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
        name, _ = self._held(trial_id, token, ended_too=True)
        with self._records.alone(name):
            if self._records.read_end(name) is None:
                if told.artifact is not None:
                    self._lay_out(uploads, told.artifact, name)
                values = [
                    {"step": told.step, "metric": metric, "value": value}
                    for metric, value in told.metrics.items()
                ]
                ended = _exit(told, stopping=self._records.is_stopping(name))
                if self._records.end(name, ended, told=values):
                    return True
            end = self._records.read(name).end
            if end is not None and end["told"] is not None:
                return False
        raise _stale(trial_id)

    def _lay_out(self, uploads: Uploads, digest: str, name: str) -> None:
        """The told artifact as the attempt's output, in place of what a cut try left there."""
        if not uploads.has(digest):
            raise InvalidInput(f"artifact {digest}: you did not send this tree; send it first")
        output = self._records.attempt(name) / layout.OUTPUT / MODEL
        remove_tree(output)
        output.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
            known = self._records.read(name)
            if known.offer is None or known.token != wanted:
                continue
            if ended_too or self._records.read_end(name) is None:
                return name, known.offer
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


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _exit(told: Told, *, stopping: bool) -> Exit:
    if told.outcome == "failed":
        return Exit(cause=ExitCause.EXITED, code=told.exit_code or 1, detail=told.detail)
    if told.outcome == "stopped" and stopping:
        return Exit(cause=ExitCause.STOPPED, code=42, detail=told.detail)
    return Exit(cause=ExitCause.EXITED, code=0, detail=told.detail)
