"""One cycle of a campaign: take in, watch, settle, follow, serve, measure, and start a study.

Each step looks at what is recorded and does what is missing, so that a cycle that was interrupted
anywhere is finished by the next. What a step is about to do is recorded before, or in the same
transaction.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from controller.campaigns.inbox import Inbox
from controller.campaigns.log import CampaignLog
from controller.campaigns.opening import Opened
from controller.campaigns.switching import Switching
from controller.campaigns.training import TrainingSet, write_training_set
from controller.campaigns.watching import Watching
from controller.decisions.campaigns import StudyDecision, decide_study
from controller.serving.into import Into, alone
from controller.spec.files import resolve
from controller.spec.study import StudySpec
from controller.steps.submit import Submission, submit_study
from controller.wiring import Service
from ledger import reads
from ledger.campaign_entries import (
    CampaignEntry,
    CampaignFailed,
    CampaignStudyEnded,
    CampaignStudySubmitted,
)
from ledger.database import WriteSession
from ledger.errors import ArlError, DiskFull, LedgerUnavailable
from ledger.records import Study
from ledger.states import STUDY_TERMINAL

FOLDER: Final = "campaigns"
"""Below ARL_HOME: a lock for each campaign, and training sets while they are made."""
Say = Callable[[str], None]
Follow = Callable[[str], None]
"""Drives a study in this process until it is settled; raises to end the cycle."""


class Cycle:
    """One campaign, as often as it is run."""

    def __init__(
        self, service: Service, opened: Opened, into: Into, actor: str, follow: Follow, say: Say
    ) -> None:
        self._service, self._opened, self._actor = service, opened, actor
        self._follow, self._say = follow, say
        self._log: CampaignLog = opened.log
        self._switching = Switching(service, opened, into, actor, say)
        self._watching = Watching(service, opened, into, self._switching, say)
        campaign = opened.campaign
        self._spec = campaign.spec
        self._place = service.settings.home / FOLDER / f"{opened.log.name}.training"
        self._inbox = Inbox(
            campaign.path(campaign.spec.experience.inbox),
            service.store,
            campaign.spec.experience,
            opened.held_out.protected,
        )

    def run(self) -> StudyDecision:
        """Do all that is to be done now, and say what it waits for then.

        Raises ArlError: a step failed, is recorded, and is tried again by the next cycle.
        """
        shutil.rmtree(self._place, ignore_errors=True)  # what a killed cycle left
        problem = self._gather()
        self._finish()  # what is served does not wait for what comes in
        if problem is not None:
            raise problem
        if self._decision().starts:
            with self._step("submit"):
                self._submit()
            self._finish()
        return self._decision()

    def _gather(self) -> ArlError | None:
        """What went wrong with it."""
        try:
            with self._step("experience"):
                self._inbox.take_in(self._log, self._say)
            with self._step("shift"):
                self._watching.compare_prompts()
        except (LedgerUnavailable, DiskFull):
            raise
        except ArlError as error:
            return error
        return None

    def _decision(self) -> StudyDecision:
        with self._service.ledger.read() as session:
            now = session.now()
        return decide_study(self._log.state, self._spec, now)

    def _finish(self) -> None:
        """A study that is under way, and what follows from it, down to a roll back."""
        with self._step("study"):
            self._end_study()
        while True:
            with self._step("roll_back"), alone(self._service):
                self._switching.settle()
            with self._step("serve"), alone(self._service):
                self._switching.serve()
            with self._step("measure"), alone(self._service):
                self._watching.measure()
            if self._log.state.pending is None:
                return

    def _end_study(self) -> None:
        study_id = self._log.state.running
        if study_id is None:
            return
        study = self._study(study_id)
        if study.state not in STUDY_TERMINAL:
            self._follow(study_id)
            study = self._study(study_id)
        if study.state not in STUDY_TERMINAL:
            self._say(f"study {study_id} is {study.state}: {study.detail}")
            return
        promotion = self._promotion_of(study_id)
        told = "promoted nothing" if promotion is None else f"promoted number {promotion}"
        self._say(f"study {study_id} is {study.state} and {told}")
        self._log.add(partial(_ended, self._log.name, study, promotion))

    def _study(self, study_id: str) -> Study:
        with self._service.ledger.read() as session:
            return reads.get_study(session, study_id)

    def _promotion_of(self, study_id: str) -> int | None:
        with self._service.ledger.read() as session:
            held = reads.list_incumbents(session, self._spec.model)
        found = [p.seq for p in held if p.study_id == study_id and p.rolled_back_to is None]
        return max(found, default=None)

    def _submit(self) -> None:
        """Store the study and the campaign's entry about it in one transaction."""
        state = self._log.state
        number = 1 if state.study is None else state.study.study + 1
        after = state.batches[-1].number if state.batches else 0
        campaign, experience = self._opened.campaign, self._spec.experience
        named = campaign.study.program.data.get(experience.input)
        made = write_training_set(
            self._service.store,
            state.batches,
            experience,
            self._opened.held_out,
            None if named is None else resolve(campaign.study_base, named),
            self._place,
        )
        entry = partial(_submitted, self._log.name, number, made, after)
        spec = self._study_spec(number, made)

        def within(session: WriteSession, submission: Submission) -> None:
            self._log.add_within(session, partial(entry, submission.study_id))

        submission = submit_study(
            self._service, spec, campaign.study_base, actor=self._actor, alone=True, within=within
        )
        self._log.reload()
        shutil.rmtree(self._place, ignore_errors=True)
        left_out = f", {made.left_out} of the template's left out" if made.left_out else ""
        self._say(
            f"study {spec.name} is {submission.study_id}: {made.records} records gathered, "
            f"{made.rows} rows in all{left_out}"
        )

    def _study_spec(self, number: int, made: TrainingSet) -> StudySpec:
        template = self._opened.campaign.study
        data = {**template.program.data, self._spec.experience.input: str(made.directory)}
        return template.model_copy(
            update={
                "name": f"{self._log.name}-{number}",
                "program": template.program.model_copy(update={"data": data}),
            }
        )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """What goes wrong is recorded, once until something is done again, and raised."""
        try:
            yield
        except (LedgerUnavailable, DiskFull):
            raise
        except ArlError as error:
            detail = str(error)[:2000]
            state = self._log.reload()
            failed, is_told = state.failed, state.stopped is not None
            if failed is not None:
                is_told = is_told or (failed.step, failed.detail) == (name, detail)
            if not is_told:
                self._log.add(partial(_failed, self._log.name, name, detail))
            raise


def lock_path(home: Path, name: str) -> Path:
    return home / FOLDER / f"{name}.lock"


def _ended(campaign: str, study: Study, promotion: int | None, number: int) -> CampaignEntry:
    return CampaignStudyEnded(
        campaign=campaign,
        number=number,
        study_id=study.id,
        state=str(study.state),
        promotion=promotion,
    )


def _submitted(
    campaign: str, study: int, made: TrainingSet, after: int, study_id: str, number: int
) -> CampaignEntry:
    return CampaignStudySubmitted(
        campaign=campaign,
        number=number,
        study_id=study_id,
        study=study,
        records=made.records,
        rows=made.rows,
        after=after,
    )


def _failed(campaign: str, step: str, detail: str, number: int) -> CampaignEntry:
    return CampaignFailed(campaign=campaign, number=number, step=step, detail=detail)
