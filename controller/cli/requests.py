"""Asks something of a study: the worker that drives it answers, or one turn of a worker here."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.cli.driving import Interrupt, is_driven, sign_promoted
from controller.cli.log_lines import listen_to_the_worker
from controller.cli.naming import find_study
from controller.cli.opening import actor
from controller.steps import commands
from controller.wiring import Service
from controller.worker.driver import StudyDriver
from controller.worker.leases import describe_holder
from controller.worker.loop import Callbacks, Worker
from controller.worker.notifier import LAST_S
from ledger import reads, summaries
from ledger.errors import Conflict
from ledger.records import CommandVerb, Json, Study
from ledger.states import STUDY_TERMINAL, StudyState

ANSWER_PATIENCE_S: Final = 15.0
POLL_S: Final = 0.1
PENDING: Final = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a request stands; a refused one is a Conflict instead."""

    command_id: int
    verb: CommandVerb
    state: str
    """`applied`, or `pending` where a live worker has not answered within patience."""
    by: str
    """Who applied it: a live worker, or `here`."""
    study: Study
    """As it is after the answer."""

    def document(self) -> dict[str, Json]:
        return {
            "study": self.study.id,
            "command": self.command_id,
            "verb": str(self.verb),
            "answer": self.state,
            "by": self.by,
            "state": str(self.study.state),
            "reason": None if self.study.reason is None else str(self.study.reason),
            "detail": self.study.detail,
        }


def ask(
    service: Service,
    study_id: str,
    verb: CommandVerb,
    arguments: Mapping[str, Json],
    *,
    wait: bool = False,
) -> Answer:
    """Ask, and have it answered: by the live worker, else by a turn of a worker in this process.

    Args:
        wait: also until the request has had its whole effect (nothing runs, the study ended).

    Raises:
        Conflict: the request was refused; the message says why.
    """
    command_id = commands.ask(service, study_id, verb, arguments, actor())
    with service.ledger.read() as session:
        study = reads.get_study(session, study_id)
    driven = is_driven(service, study)
    by = describe_holder(study) if driven else "here"
    if driven:
        _wait_for_answer(service, command_id)
    else:
        _take_turn(service, study_id, _Answered(service, command_id))
    state = _checked_state(service, command_id)
    if wait and state != PENDING:
        _wait_for_effect(service, study_id, verb, driven=driven)
    with service.ledger.read() as session:
        study = reads.get_study(session, study_id)
    return Answer(command_id=command_id, verb=verb, state=state, by=by, study=study)


def _checked_state(service: Service, command_id: int) -> str:
    with service.ledger.read() as session:
        answer = summaries.command_answers(session, [command_id])[command_id]
    if answer.state == "refused":
        raise Conflict(answer.detail)
    return answer.state


def _wait_for_answer(service: Service, command_id: int) -> None:
    deadline = time.monotonic() + ANSWER_PATIENCE_S
    while time.monotonic() < deadline:
        with service.ledger.read() as session:
            answer = summaries.command_answers(session, [command_id])[command_id]
        if answer.state != PENDING:
            return
        time.sleep(POLL_S)


# --- a turn of a worker here -------------------------------------------------------------------


class _Answered:
    """Whether the command has been answered; asked after every tick."""

    def __init__(self, service: Service, command_id: int) -> None:
        self._service = service
        self._command_id = command_id

    def __call__(self, _: StudyDriver) -> bool:
        with self._service.ledger.read() as session:
            found = summaries.command_answers(session, [self._command_id])
        return found[self._command_id].state != PENDING


class _AtRest:
    """Whether the study needs nobody any more: it ended, or is paused with nothing running."""

    def __call__(self, driver: StudyDriver) -> bool:
        paused = driver.view.study.state is StudyState.PAUSED
        return driver.is_settled or (paused and not driver.view.attempts())


def _take_turn(service: Service, study_id: str, is_done: "_Answered | _AtRest") -> None:
    """Drive the study here until `is_done`. Raises Conflict when interrupted before."""
    listen_to_the_worker()
    done = False

    def on_tick(driver: StudyDriver) -> None:
        nonlocal done
        if not done and is_done(driver):
            done = True
            worker.stop(last_s=LAST_S)

    worker = Worker(service, Callbacks(on_tick=on_tick))
    with Interrupt(worker).installed() as interrupt:
        worker.run([study_id])
    if interrupt.number and not done:
        raise KeyboardInterrupt
    sign_promoted(service, [study_id])


def _wait_for_effect(service: Service, study_id: str, verb: CommandVerb, *, driven: bool) -> None:
    if not driven:
        _take_turn(service, study_id, _AtRest())
        return
    while True:
        with service.ledger.read() as session:
            state = reads.get_study(session, study_id).state
            is_still = not reads.open_attempts(session, study_id)
        if (state is StudyState.PAUSED and is_still) or state in STUDY_TERMINAL:
            return
        if verb is CommandVerb.EXTEND and state is StudyState.RUNNING:
            return
        time.sleep(POLL_S)


def study_id_of(service: Service, name: str) -> str:
    """The id of the study a word means. Raises NotFound, Conflict."""
    with service.ledger.read() as session:
        return find_study(session, name).id
