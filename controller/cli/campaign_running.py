"""Runs cycles of a campaign in this process: one, or one after the other until it is stopped."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.campaigns.cycle import Cycle, lock_path
from controller.campaigns.log import CampaignLog
from controller.campaigns.opening import open_campaign
from controller.cli.driving import follow
from controller.cli.log_lines import listen_to_the_worker
from controller.cli.opening import actor, remember_heads, service_opened
from controller.cli.output import CHECK_FAILED, INTERRUPTED, OK, STUDY_FAILED, print_json
from controller.cli.text import plain
from controller.decisions.campaigns import StudyDecision
from controller.documents.campaigns import campaign_document
from controller.serving.into import Into, SwapOptions, locked
from controller.serving.server_process import Ended, ended_by_signals
from controller.spec.campaign_loading import Campaign, load_campaign
from controller.wiring import Service
from ledger import reads
from ledger.campaign_entries import CampaignAlarm, CampaignStudyEnded
from ledger.campaigns import CampaignFact, campaign_facts
from ledger.errors import ArlError
from ledger.states import StudyState


@dataclass(slots=True)
class _Running:
    """A campaign that this process works on, and nobody else."""

    service: Service
    log: CampaignLog
    cycle: Cycle
    began: int
    """Number of the campaign's latest entry when this process came."""

    def facts(self) -> list[CampaignFact]:
        with self.service.ledger.read() as session:
            return campaign_facts(session, self.log.name)

    def code(self) -> int:
        """By what was recorded since this process came."""
        new = [f.entry for f in self.facts() if f.entry.number > self.began]
        if any(isinstance(entry, CampaignAlarm) for entry in new):
            return CHECK_FAILED
        ends = [entry for entry in new if isinstance(entry, CampaignStudyEnded)]
        is_well = all(entry.state == StudyState.COMPLETED for entry in ends)
        return OK if is_well else STUDY_FAILED

    def report(self, *, as_json: bool, told: str = "") -> None:
        if as_json:
            print_json(campaign_document(self.facts()))
        elif told:
            print(plain(told))


def run_once(file: Path, *, again: bool, as_json: bool) -> int:
    """Do what is to be done now. Raises ArlError: a step failed; the next time goes on there."""
    with _opened(file, again=again, as_json=as_json) as running:
        try:
            with ended_by_signals():
                decision = running.cycle.run()
        except Ended:
            say("ended; the next time goes on from here")
            return INTERRUPTED
        running.report(as_json=as_json, told=_waits(running.log.name, decision))
        return running.code()


def run_campaign(file: Path, *, again: bool, look_s: float, as_json: bool) -> int:
    """Cycle after cycle, until it is stopped or this process is ended. A cycle that fails is told
    and tried again."""
    with _opened(file, again=again, as_json=as_json) as running:
        try:
            with ended_by_signals():
                _go_on(running, look_s)
        except Ended:
            say("ended; `arl campaign run` goes on from here, and what is served stays")
            running.report(as_json=as_json)
            return INTERRUPTED
        running.report(as_json=as_json, told=f"{running.log.name} was stopped")
        return running.code()


def _go_on(running: _Running, look_s: float) -> None:
    told = ""
    while running.log.reload().stopped is None:
        try:
            now = _waits(running.log.name, running.cycle.run())
        except ArlError as error:
            now = f"{error.code}: {error}; tried again every {look_s:g} s"
        if now != told:
            say(now)
            told = now
        remember_heads(running.service)
        time.sleep(look_s)


@contextmanager
def _opened(file: Path, *, again: bool, as_json: bool) -> Iterator[_Running]:
    campaign = load_campaign(file)
    name = campaign.spec.name
    listen_to_the_worker()
    with service_opened(create=True) as service:
        lock = lock_path(service.settings.home, name)
        busy = f"another process works on campaign {name} below this ARL_HOME: wait for it"
        with locked(lock, busy):
            into = Into(service, _options(campaign), actor(), say, field="server.url")
            opened = open_campaign(service, campaign, actor(), again=again)
            began = opened.log.state.number
            followed = _follower(service, as_json=as_json)
            cycle = Cycle(service, opened, into, actor(), followed, say)
            try:
                yield _Running(service, opened.log, cycle, began)
            finally:
                remember_heads(service)


def _follower(service: Service, *, as_json: bool) -> Callable[[str], None]:
    def followed(study_id: str) -> None:
        with service.ledger.read() as session:
            is_new = reads.get_study(session, study_id).state is StudyState.SUBMITTED
        interrupted, _ = follow(service, [study_id], as_json=as_json, tell=not is_new)
        if interrupted:
            raise Ended

    return followed


def _options(campaign: Campaign) -> SwapOptions:
    server = campaign.spec.server
    return SwapOptions(
        url=server.url,
        margin=server.margin,
        split=server.split,
        parallel=server.parallel,
        answer_timeout_s=server.answer_timeout_s,
        share=None if server.share is None else campaign.path(server.share),
        secret=server.secret,
    )


def _waits(name: str, decision: StudyDecision) -> str:
    return f"{name}: all is done; no study starts now: {decision.why}"


def say(text: str) -> None:
    print(plain(text), file=sys.stderr, flush=True)
