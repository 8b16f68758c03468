"""Verbs that run studies: `run`, `resume`, `submit` and `worker`."""

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.driving import Interrupt, check_free, drive, is_driven
from controller.cli.log_lines import listen_to_the_worker
from controller.cli.naming import find_study
from controller.cli.opening import actor, remember_heads, service_opened
from controller.cli.output import OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.registry.signing import Signer
from controller.spec.loading import load_study
from controller.spec.study import StudySpec
from controller.steps import commands
from controller.steps.submit import Submission, submit_study
from controller.wiring import Service
from controller.worker.driver import StudyDriver
from controller.worker.leases import describe_holder
from controller.worker.loop import Callbacks, Worker
from ledger import reads, summaries
from ledger.errors import Conflict
from ledger.records import CommandVerb, Study
from ledger.states import STUDY_TERMINAL, FamilyState, StudyState


def _stop_with_stdin(worker: Worker) -> None:
    """Who started this worker holds the other end, and is gone once it closes."""
    while os.read(sys.stdin.fileno(), 4096):
        continue
    worker.stop()


StudyFile = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="the study file")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
New = Annotated[bool, typer.Option("--new", help="start another study of that name anyway")]


def run(study: StudyFile, new: New = False, as_json: AsJson = False) -> int:
    """Run a study in this process, with live progress, until it ends.

    The ledger is made where ARL_HOME says, ./.arl by default. Ctrl-C is safe: trials under way
    go on, and `arl resume` follows them again. Exit code 6: the study did not complete.
    """
    if server_named():
        from controller.cli.server_verbs import run as run_there

        return run_there(study, new=new, as_json=as_json)
    spec = load_study(study)
    with service_opened(create=True) as service:
        submission = _submit(service, spec, study, new=new)
        if not as_json:
            print(f"study {spec.name} is {submission.study_id}; Ctrl-C is safe", flush=True)
            _say_where(submission)
        return drive(service, [submission.study_id], as_json=as_json, tell=False)


def submit(study: StudyFile, new: New = False, as_json: AsJson = False) -> int:
    """Store a study and print its id. `arl worker` (or `arl resume ID`) runs it."""
    if server_named():
        from controller.cli.server_asking import submit as send

        sent = send(study, new=new)
        print_json(sent) if as_json else print(sent["study"])
        return OK
    spec = load_study(study)
    with service_opened(create=True) as service:
        submission = _submit(service, spec, study, new=new)
    if as_json:
        bundle = submission.bundle_digest or None
        print_json(
            {
                "study": submission.study_id,
                "name": submission.name,
                "bundle": bundle,
                "target": submission.target,
                "target_reason": submission.target_reason,
            }
        )
    else:
        print(submission.study_id)
        _say_where(submission)
    return OK


def _say_where(submission: Submission) -> None:
    """On standard error: what a program reads is on the other."""
    why = f" ({submission.target_reason})" if submission.target_reason else ""
    print(f"trials run on target {submission.target}{why}", file=sys.stderr, flush=True)


def _submit(service: Service, spec: StudySpec, file: Path, *, new: bool) -> Submission:
    """Record the study; an unfinished one of that name is gone on with, not run beside it."""
    if not new:
        with service.ledger.read() as session:
            named = summaries.studies_named(session, spec.name)
        for study in named:
            if study.state not in STUDY_TERMINAL:
                raise Conflict(
                    f"study {study.name} ({study.id}) is not finished, it is {study.state}"
                    f"{_holder(service, study)}: `arl resume {study.id}` goes on with it, "
                    "--new starts another of that name"
                )
    return submit_study(service, spec, file.parent, actor=actor(), alone=not new)


def _holder(service: Service, study: Study) -> str:
    return f" and driven by {describe_holder(study)}" if is_driven(service, study) else ""


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[STUDY]…", help="id, unique name or beginning of an id, or `last`"),
]


def resume(studies: Names = None, as_json: AsJson = False) -> int:
    """Go on with interrupted or paused studies; with none named, all that are not finished.

    Says what was found: attempts adopted, ended meanwhile, relaunched, lost. Asking twice is
    harmless. Exit code 4: the study is finished, or a live worker drives it.
    """
    if server_named():
        from controller.cli.server_verbs import resume as resume_there

        return resume_there(studies or [], as_json=as_json)
    with service_opened() as service:
        chosen = _named(service, studies) if studies else _unfinished(service)
        if not chosen:
            if as_json:
                print_json({"studies": []})
            else:
                print("nothing to resume: every study is finished or has a live worker")
            return OK
        for study in chosen:
            if studies and study.state is StudyState.PAUSED:
                commands.ask(service, study.id, CommandVerb.RESUME, {}, actor())
        driven = [s for s in chosen if is_driven(service, s)]
        waiting = [s.id for s in chosen if s not in driven]
        if driven:
            _tell_asked(driven, as_json=as_json and not waiting)
        return drive(service, waiting, as_json=as_json, tell=True) if waiting else OK


def _named(service: Service, names: list[str]) -> list[Study]:
    with service.ledger.read() as session:
        found = {study.id: study for study in (find_study(session, name) for name in names)}
    for study in found.values():
        if study.state in STUDY_TERMINAL:
            more = (
                f": `arl extend {study.id} --trials +20` searches on"
                if study.state is StudyState.COMPLETED
                else ""
            )
            reason = f" ({study.reason})" if study.reason is not None else ""
            raise Conflict(
                f"study {plain(study.name)} ({study.id}) is {study.state}{reason}; there is "
                f"nothing to resume{more}"
            )
        if study.state is not StudyState.PAUSED:
            check_free(service, study)
    return list(found.values())


def _unfinished(service: Service) -> list[Study]:
    """Every study that nobody drives and that is neither finished nor paused by an operator."""
    with service.ledger.read() as session:
        found = reads.workable_studies(session)
    return [
        study for study in found if not is_driven(service, study) and not _is_meant_to_rest(study)
    ]


def _is_meant_to_rest(study: Study) -> bool:
    return study.state is StudyState.PAUSED and study.paused_by == "operator"


def _tell_asked(studies: list[Study], *, as_json: bool) -> None:
    """Live workers drive these and were asked to resume them."""
    if as_json:
        print_json({"studies": [], "asked": [study.id for study in studies]})
        return
    for study in studies:
        told = f"{study.id}: asked {describe_holder(study)} to resume it"
        print(told, file=sys.stderr, flush=True)


def _signing(signer: Signer) -> Callbacks:
    """Sign what waits from before, and whatever a study promotes."""
    promoted: dict[str, int] = {}

    def on_tick(driver: StudyDriver) -> None:
        count = sum(f.state is FamilyState.PROMOTED for f in driver.view.families.values())
        if count and promoted.get(driver.study_id) != count:
            promoted[driver.study_id] = count
            signer.look()

    signer.look()
    return Callbacks(on_tick=on_tick)


UntilClosed = Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)]


def worker(as_json: AsJson = False, until_stdin_closes: UntilClosed = False) -> int:
    """Drive every study that waits, as it comes, until stopped with Ctrl-C or SIGTERM.

    Several workers may share a ledger. Stopping one leaves its attempts running; another worker
    adopts them.
    """
    with service_opened(create=True) as service:
        listen_to_the_worker(logging.INFO)
        signer = Signer(service.ledger, service.store, service.settings.home)
        driver = Worker(service, _signing(signer) if service.settings.sign_promotions else None)
        with Interrupt(driver).installed():
            if not as_json:
                print(f"working on {service.ledger.where}; Ctrl-C stops", flush=True)
            if until_stdin_closes:
                threading.Thread(target=_stop_with_stdin, args=(driver,), daemon=True).start()
            driver.run()
        signer.close()
        remember_heads(service)
    if as_json:
        print_json({"stopped": True})
    return OK
