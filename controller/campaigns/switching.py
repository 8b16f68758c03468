"""Brings the server to what the registry names, and takes the pointer back after an alarm."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from controller.campaigns.log import Maker
from controller.campaigns.opening import Opened
from controller.decisions.campaigns import decide_alarm
from controller.registry.pointers import check_standing, roll_back
from controller.serving.files import Chosen, files_of
from controller.serving.forms import Form
from controller.serving.into import Into
from controller.serving.subjects import Subject, find_subject
from controller.wiring import Service
from ledger import reads
from ledger.campaign_entries import CampaignAlarm, CampaignRolledBack
from ledger.errors import ArlError
from ledger.records import Incumbent
from ledger.registry_reads import get_pointer
from ledger.service_entries import ServingSet
from ledger.serving import list_sets

Say = Callable[[str], None]


class Switching:
    """One campaign's model, in the registry and on its server."""

    def __init__(self, service: Service, opened: Opened, into: Into, actor: str, say: Say) -> None:
        self._service, self._opened, self._into = service, opened, into
        self._actor, self._say = actor, say
        self._model = opened.campaign.spec.model
        self._log = opened.log

    def serve(self) -> None:
        """Have the server serve the incumbent: through the gate, but for one that the pointer was
        rolled back to, which passed it before. Nothing was promoted yet: nothing is served.

        Raises what controller.serving.swap raises; nothing was switched then.
        """
        incumbent = self._incumbent()
        if incumbent is None:
            return
        pointer, subject = incumbent
        served = self._into.record.served(self._model)
        if served is not None and served.artifact_digest == subject.artifact:
            self._restore(served)
        elif served is not None and pointer.rolled_back_to is not None:
            self._into.put_back(subject, f"campaign {self._log.name}: the pointer went back")
            self._say(f"{self._model} serves {subject.own_name} again")
        else:
            if served is not None:
                self._restore(served)
            if not self._log.state.was_refused(pointer.seq):
                self._gate(pointer, subject, served)

    def served(self) -> ServingSet | None:
        return self._into.record.served(self._model)

    def served_before(self, artifact: str) -> ServingSet | None:
        """What had the name before this artifact took it the last time."""
        with self._service.ledger.read() as session:
            sets = list_sets(session, self._model)
        while sets and sets[0].artifact_digest != artifact:
            sets = sets[1:]
        return next((one for one in sets if one.artifact_digest != artifact), None)

    def alarm(self, alarm: str, detail: str, served_before: ServingSet | None) -> Maker:
        """The entry of an alarm about the incumbent, to be recorded with what it follows from."""
        with self._service.ledger.read() as session:
            history = reads.list_incumbents(session, self._model)
        decision = decide_alarm(
            alarm,
            detail,
            self._opened.campaign.spec.rollback,
            history,
            None if served_before is None else served_before.candidate_id,
        )
        self._say(f"alarm ({alarm}): {decision.detail}")
        return partial(
            CampaignAlarm,
            campaign=self._log.name,
            alarm=alarm,
            detail=decision.detail,
            action=str(decision.action),
            promotion=history[0].seq if history else None,
            back_to=decision.back_to,
        )

    def settle(self) -> None:
        """Take the pointer back as the open alarm says, in one transaction with its being settled.
        Every byte of what it goes back to is checked before, and the server is there.

        Raises Conflict, EndpointUnavailable, …: nothing was changed, and what is served stays.
        """
        alarm = self._log.state.pending
        if alarm is None or alarm.promotion is None or alarm.back_to is None:
            return
        incumbent = self._incumbent()
        if incumbent is None or incumbent[0].seq != alarm.promotion:
            self._settled(alarm, None, "the pointer was moved meanwhile, and stays where it is")
            return
        with self._service.ledger.read() as session:
            target = get_pointer(session, self._model, alarm.back_to)
        try:
            self._check_way_back(target)
        except ArlError:
            with suppress(ArlError):
                self._keep_served()
            raise
        self._roll_back(alarm, target)

    def _incumbent(self) -> tuple[Incumbent, Subject] | None:
        with self._service.ledger.read() as session:
            pointer = reads.latest_incumbent(session, self._model)
            return None if pointer is None else (pointer, find_subject(session, self._model))

    def _restore(self, served: ServingSet) -> None:
        if not self._into.is_served(served) and self._into.restore(served) is not None:
            self._say(f"{self._model}: {served.served_as} is on the server again")

    def _gate(self, pointer: Incumbent, subject: Subject, served: ServingSet | None) -> None:
        files = files_of(self._service.store, subject)
        if files.adapter is None:
            self._into.path_of(subject)  # it says what to do
        outcome = self._into.gate(Chosen(subject, files, Form.ADAPTER))
        if outcome.kept is not None:
            self._say(f"{self._model} serves {subject.own_name} now, number {pointer.seq}")
            return
        detail = f"{subject.own_name} did not pass on the server: {outcome.verdict.reason}"
        self._log.add(self.alarm("gate", detail, served))

    def _check_way_back(self, target: Incumbent) -> None:
        check_standing(self._service.ledger, self._service.store, target)
        with self._service.ledger.read() as session:
            subject = find_subject(session, f"{self._model}:{target.seq}")
        self._into.path_of(subject)
        endpoint = self._into.connect()
        try:
            endpoint.models()
        finally:
            endpoint.close()

    def _keep_served(self) -> None:
        served = self.served()
        if served is not None:
            self._restore(served)

    def _roll_back(self, alarm: CampaignAlarm, target: Incumbent) -> None:
        note = f"campaign {self._log.name}, alarm {alarm.number} ({alarm.alarm}): {alarm.detail}"
        with self._service.ledger.write() as session:
            moved = roll_back(
                session,
                target,
                expected=alarm.promotion or 0,
                actor=self._actor,
                note=note[:2000],
            )
            settled = self._entry(alarm, moved.seq, f"number {target.seq} is the incumbent again")
            self._log.add_within(session, settled)
        self._log.reload()
        self._say(f"{self._model}: the pointer is back at number {target.seq}")

    def _settled(self, alarm: CampaignAlarm, pointer: int | None, detail: str) -> None:
        self._log.add(self._entry(alarm, pointer, detail))
        self._say(f"{self._model}: {detail}")

    def _entry(self, alarm: CampaignAlarm, pointer: int | None, detail: str) -> Maker:
        return partial(
            CampaignRolledBack,
            campaign=self._log.name,
            alarm=alarm.number,
            pointer=pointer,
            detail=detail,
        )
