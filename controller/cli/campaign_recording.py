"""`arl campaign record`: a recording server in front of a campaign's model, in the foreground."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from controller.campaigns.cycle import FOLDER
from controller.campaigns.proxy import RecordingProxy
from controller.campaigns.recording import Recorder
from controller.cli.campaign_running import say
from controller.cli.opening import service_opened
from controller.cli.output import OK, print_json
from controller.cli.text import plain
from controller.places import model_policy
from controller.serving.into import locked
from controller.serving.server_process import Ended, ended_by_signals
from controller.spec.campaign_loading import load_campaign
from controller.wiring import Service
from ledger.serving import find_served
from targets.outbound import GuardedTransport
from targets.outbound_addresses import check_url

PAUSE_S = 1.0
REMEMBER_S = 2.0


def record_experience(file: Path, *, host: str, port: int, as_json: bool) -> int:
    """Until this process is ended. Raises StudyRefused, AddressRefused, Conflict."""
    campaign = load_campaign(file)
    spec = campaign.spec
    check_url(spec.server.url, field="server.url")
    with service_opened(create=True) as service:
        lock = service.settings.home / FOLDER / f"{spec.name}.recording.lock"
        with locked(lock, f"another process records for campaign {spec.name}: end it first"):
            recorder = Recorder(campaign.path(spec.experience.inbox))
            proxy = RecordingProxy(
                spec.server.url,
                GuardedTransport(model_policy(service.settings)),
                recorder,
                model=spec.model,
                policy_of=_policy(service, spec.model),
                say=say,
            )
            left = recorder.finish_left()
            if left:
                say(f"{left} files of a recorder that was killed are in the inbox")
            _listen(proxy, recorder, host, port, as_json=as_json)
    counts = recorder.counts
    say(
        f"{counts.recorded} records, {counts.without_consent} without consent (not kept), "
        f"{counts.unfit} with consent that are not text answered by text"
    )
    return OK


def _listen(
    proxy: RecordingProxy, recorder: Recorder, host: str, port: int, *, as_json: bool
) -> None:
    try:
        with ended_by_signals(), proxy.listening(host, port) as url:
            if as_json:
                print_json({"url": url, "inbox": str(recorder.inbox)})
            else:
                print(f"recording at {plain(url)}/v1 (Ctrl-C ends it)")
            sys.stdout.flush()
            while True:
                time.sleep(PAUSE_S)
                recorder.rotate()
    except Ended:
        pass
    finally:
        recorder.rotate(now=True)


def _policy(service: Service, model: str) -> Callable[[], str]:
    """What has the name, asked of the record now and then."""
    known, until = "", 0.0

    def policy() -> str:
        nonlocal known, until
        now = time.monotonic()
        if now >= until:
            with service.ledger.read() as session:
                found = find_served(session, model)
            known = "" if found is None else found.entry.served_as
            until = now + REMEMBER_S
        return known

    return policy
