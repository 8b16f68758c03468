"""A typed client of the REST API."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import BaseModel

from controller.api.models.candidates import CandidateOut, LineageOut
from controller.api.models.commands import Command, StudySubmittedOut
from controller.api.models.events import EventOut
from controller.api.models.notifications import NotificationOut
from controller.api.models.outside import Handed
from controller.api.models.promotions import PromotionDetail, PromotionOut
from controller.api.models.studies import StudyListed, StudyOut
from controller.api.models.trials import TrialDetailOut, TrialListed, ValuesOut
from controller.client.connection import Connection, ServerUnavailable, problem_of_stream
from controller.client.models import ModelCalls
from controller.client.outside import OutsideTrial
from controller.client.uploading import Progress, Uploader
from controller.spec.loading import load_study, parse_study, resolved
from controller.spec.paths import named_paths
from controller.spec.study import StudySpec
from ledger.setting_entries import Setting

T = TypeVar("T", bound=BaseModel)
TERMINAL = frozenset({"completed", "failed", "cancelled"})
LONGEST_WAIT_S = 30.0
RECONNECT_S = 0.5


class Client(ModelCalls):
    """One server, named by `server` or ARL_SERVER, with the token `token` or ARL_TOKEN.

    Every method raises what an embedded ARL would (ledger.errors: NotFound, InvalidInput,
    Conflict …), `Unauthorized`, and `ServerUnavailable` once the server has not answered for
    several tries. What changes something happens once, however often it had to be sent.
    """

    def __init__(
        self, server: str | None = None, token: str | None = None, *, timeout_s: float = 60.0
    ) -> None:
        self.connection = Connection(server, token, timeout_s=timeout_s)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    # --- studies ---------------------------------------------------------------------------------

    def submit(
        self,
        study: Path | str | Mapping[str, Any],
        *,
        base: Path | None = None,
        new: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> StudySubmittedOut:
        """Send a study and every file it names; a worker of the server runs it.

        Args:
            study: a study file, or its content with paths relative to `base` (default: the
                working directory).
            new: start it although an unfinished study has that name.
            key: an idempotency key: the same one with the same study makes one study.
        """
        if isinstance(study, Mapping):
            beside = base or Path.cwd()
            spec = parse_study(dict(study), beside)
        else:
            beside = Path(study).parent
            spec = load_study(Path(study))
        uploader = Uploader(self.connection, progress)
        document = _sent(spec, beside, uploader)
        answer = self.connection.post("/studies", {"study": document, "new": new}, key=key)
        return StudySubmittedOut.model_validate(answer.json())

    def studies(self, **filters: Any) -> Iterator[StudyListed]:
        """Every study, page by page; filters as in the API: state, text, sort, order."""
        return self._pages("/studies", filters, StudyListed)

    def study(self, study: str) -> StudyOut:
        return StudyOut.model_validate(self.connection.get(f"/studies/{study}"))

    def wait(
        self,
        study: str,
        *,
        timeout_s: float | None = None,
        every_s: float = 1.0,
        on_look: Callable[[StudyOut], None] | None = None,
    ) -> StudyOut:
        """The study once it has ended. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = self.study(study)
            if on_look is not None:
                on_look(found)
            if str(found.state) in TERMINAL:
                return found
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"study {study} is {found.state} after {timeout_s:g} s")
            time.sleep(every_s)

    def pause(self, study: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        return self._ask(f"/studies/{study}/pause", None, wait_s)

    def resume(self, study: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        return self._ask(f"/studies/{study}/resume", None, wait_s)

    def stop(self, study: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        return self._ask(f"/studies/{study}/stop", None, wait_s)

    def cancel(self, study: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        return self._ask(f"/studies/{study}/cancel", None, wait_s)

    def extend(
        self, study: str, changes: Mapping[str, Any], *, wait_s: float = LONGEST_WAIT_S
    ) -> Command:
        """Budgets, `{"trials": {"by": 20}}` in the ledger's units; `parallel`, `weight`,
        `priority`; and `stop`, `{"no_improvement": 30}`, None for a rule less."""
        body = {str(n): value for n, value in changes.items() if n in set(Setting)}
        if budget := {n: value for n, value in changes.items() if n not in body}:
            body["budget"] = budget
        asked = {"wait": min(wait_s, LONGEST_WAIT_S)}
        answer = self.connection.patch(f"/studies/{study}", body, params=asked)
        return Command.model_validate(answer.json())

    def add_trial(
        self,
        study: str,
        params: Mapping[str, Any] | None = None,
        *,
        patch: str | None = None,
        parent: str | None = None,
        wait_s: float = LONGEST_WAIT_S,
    ) -> Command:
        """Try this next."""
        body = {"params": None if params is None else dict(params), "patch": patch}
        return self._ask(f"/studies/{study}/trials", {**body, "parent": parent}, wait_s)

    # --- trials and candidates -------------------------------------------------------------------

    def trials(self, study: str, **filters: Any) -> Iterator[TrialListed]:
        """Every trial of a study, page by page; filters as in the API: state, kind, sort …"""
        return self._pages(f"/studies/{study}/trials", filters, TrialListed)

    def trial(self, trial: str) -> TrialDetailOut:
        """By its id, or as STUDY/NUMBER."""
        study, slash, number = trial.rpartition("/")
        path = f"/studies/{study}/trials/{number}" if slash else f"/trials/{trial}"
        return TrialDetailOut.model_validate(self.connection.get(path))

    def values(self, trial: str, *, metric: str | None = None, points: int = 1000) -> ValuesOut:
        """What a trial reported while it ran, sampled to about so many points."""
        asked = {"metric": metric, "points": points}
        return ValuesOut.model_validate(self.connection.get(f"/trials/{trial}/values", asked))

    def candidate(self, candidate: str) -> CandidateOut:
        return CandidateOut.model_validate(self.connection.get(f"/candidates/{candidate}"))

    def lineage(self, candidate: str) -> LineageOut:
        path = f"/candidates/{candidate}/lineage"
        return LineageOut.model_validate(self.connection.get(path))

    # --- replays and promotions ------------------------------------------------------------------

    def replay(self, candidate: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        """Put a candidate before the promotion gate of its completed study."""
        return self._ask(f"/candidates/{candidate}/replay", None, wait_s)

    def convert(
        self, candidate: str, *, wait_s: float = LONGEST_WAIT_S, **wanted: bool | int | float | str
    ) -> Command:
        """Make something of a promoted candidate's model: `quantize="int8"`, `merge=True`, and
        the other keys of the study file's `convert`."""
        return self._ask(f"/candidates/{candidate}/convert", wanted, wait_s)

    def promotions(self, **filters: Any) -> Iterator[PromotionOut]:
        return self._pages("/promotions", filters, PromotionOut)

    def promotion(self, promotion: str) -> PromotionDetail:
        return PromotionDetail.model_validate(self.connection.get(f"/promotions/{promotion}"))

    def approve(
        self, promotion: str, *, note: str = "", wait_s: float = LONGEST_WAIT_S
    ) -> Command:
        return self._ask(f"/promotions/{promotion}/approve", {"note": note}, wait_s)

    def decline(self, promotion: str, *, wait_s: float = LONGEST_WAIT_S) -> Command:
        return self._ask(f"/promotions/{promotion}/decline", None, wait_s)

    def notifications(self, **filters: Any) -> Iterator[NotificationOut]:
        """What webhooks were told, the newest first; filters are `study` and `state`."""
        return self._pages("/notifications", filters, NotificationOut)

    def resend(self, notification: str) -> NotificationOut:
        """Have a worker send it again."""
        answer = self.connection.post(f"/notifications/{notification}/resend", None)
        return NotificationOut.model_validate(answer.json())

    # --- outside workers -------------------------------------------------------------------------

    def ask(self, study: str, client: str) -> OutsideTrial | None:
        """The next trial of a study with `target.name: outside`, or the one that this client
        has; None while none is ready. Raises Conflict once the study has ended."""
        answer = self.connection.post(
            f"/studies/{study}/ask", {"client": client}, is_repeatable=True
        )
        if answer.status_code == 202:
            return None
        return OutsideTrial(self.connection, Handed.model_validate(answer.json()))

    # --- events ----------------------------------------------------------------------------------

    def events(
        self, study: str, *, since: int = 0, patience_s: float = 600.0
    ) -> Iterator[EventOut]:
        """Everything that happens in a study, as it happens, from the one after place `since`;
        reconnects, losing and repeating nothing. Ends when the study has ended. Raises
        ServerUnavailable once the server has been away for `patience_s`."""
        away_since: float | None = None
        while True:
            try:
                for event in self._stream(study, since):
                    since = event.seq
                    away_since = None
                    yield event
                found = self.study(study)
            except ServerUnavailable:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > patience_s:
                    raise
                time.sleep(RECONNECT_S)
                continue
            if str(found.state) in TERMINAL and found.head.seq <= since:
                return

    def _stream(self, study: str, since: int) -> Iterator[EventOut]:
        import httpx

        headers = {"Accept": "text/event-stream"}
        path = f"/studies/{study}/events"
        try:
            with self.connection.stream(path, {"since": since}, headers) as answer:
                if not answer.is_success:
                    answer.read()
                    raise problem_of_stream(answer)
                for line in answer.iter_lines():
                    if line.startswith("data:"):
                        event = EventOut.model_validate(json.loads(line[5:]))
                        yield event
                        if _is_end(event):
                            return
        except httpx.TransportError as error:
            raise ServerUnavailable(f"{self.connection.server}: {error}") from error

    # --- how -------------------------------------------------------------------------------------

    def _ask(self, path: str, body: Any, wait_s: float) -> Command:
        params = {"wait": min(wait_s, LONGEST_WAIT_S)}
        return Command.model_validate(self.connection.post(path, body, params=params).json())

    def _pages(self, path: str, filters: Mapping[str, Any], model: type[T]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self.connection.get(path, {"limit": 200, **filters, "cursor": cursor})
            yield from (model.model_validate(item) for item in page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _is_end(event: EventOut) -> bool:
    return event.kind == "study_moved" and event.payload.get("new") in TERMINAL


def _sent(spec: StudySpec, base: Path, uploader: Uploader) -> dict[str, Any]:
    """The study's document with each path replaced by what was sent in its place."""
    document: dict[str, Any] = resolved(spec)
    for keys, value in named_paths(spec):
        place: dict[str, Any] = document
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = uploader.send(Path(base, value))
    return document
