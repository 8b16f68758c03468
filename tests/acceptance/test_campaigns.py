"""A whole campaign: records, a study, a promotion, a swap, what is forgotten, and the way back.

The server is a stand-in that keeps to vLLM's protocol; everything else is real.
"""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ledger.campaign_entries import CampaignAlarm, CampaignFailed, SliceMeasured
from ledger.database import open_ledger
from ledger.verify import verify_ledger
from tests import campaign_runs as runs
from tests.campaign_runs import Lab
from tests.cli_runs import interrupt
from tests.served_models import model_server

LOAD = "/v1/load_lora_adapter"


@dataclass
class Story:
    """What was seen while the campaign came to serve a model that forgot."""

    lab: Lab
    first: dict[str, Any]
    before: str
    """Artifact that was served first."""
    after: str
    """Artifact that was about to be switched to when the cycle was killed."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One cycle with a study, a promotion and a swap; a second one killed in the middle of its
    swap. That is the state to go back to."""
    place = tmp_path_factory.mktemp("campaign") / "place"
    with model_server() as server, runs.campaign_in(place, server.url) as arl:
        lab = Lab(arl, server)
        runs.send(place, "first", [runs.record(20_000 + i) for i in range(30)])
        first = lab.once()
        assert first.code == 0, first.err
        before = runs.served(arl.home)
        assert before is not None
        words = f"{runs.LESSON} {runs.AMNESIA}"
        runs.send(place, "second", [runs.record(30_000 + i, words) for i in range(30)])
        after = killed_at_the_switch(lab)
        lab.keep()
        yield Story(lab, first.json(), before, after)


def killed_at_the_switch(lab: Lab) -> str:
    """A cycle that dies when the server has switched and the ledger does not know it yet."""
    reached, switched = threading.Event(), ""
    loads = 0

    def load(request: BaseHTTPRequestHandler) -> None:
        nonlocal loads, switched
        loads += 1
        body = vars(request)["body"]
        lab.server.adapters[body["lora_name"]] = body["lora_path"]
        if loads == 2:
            switched = body["lora_path"]
            reached.set()
            request.close_connection = True
            return
        request.send_response(200)
        request.send_header("content-length", "2")
        request.end_headers()
        request.wfile.write(b"ok")

    lab.server.instead[LOAD] = load
    words = ("campaign", "once", "campaign.yaml")
    with lab.arl.start(*words, ARL_HOME=str(lab.arl.home)) as process:
        assert reached.wait(150)
        done = interrupt(process, signal.SIGKILL)
    lab.server.instead.clear()
    assert done.code == -signal.SIGKILL
    return next(part for part in switched.split("/") if len(part) == 64)


@pytest.fixture
def lab(story: Story) -> Lab:
    story.lab.go_back()
    return story.lab


def test_a_campaign_learns_from_what_came_in_and_serves_what_it_promoted(story: Story) -> None:
    first = story.first
    assert (first["study"]["state"], first["study"]["promotion"]) == ("completed", 1)
    assert first["experience"]["training"] + first["experience"]["held_out"] == 30
    assert first["study"]["records"] == first["experience"]["training"]
    (measured,) = first["slices"]
    assert (measured["slice"], measured["value"]) == ("basics", 1.0)
    assert story.before[:12] in measured["served_as"]


def test_a_cycle_killed_in_its_switch_goes_on_and_takes_back_what_forgot(
    story: Story, lab: Lab
) -> None:
    assert runs.served(lab.arl.home) == story.before, "the record names the incumbent"
    done = lab.once()
    assert done.code == 1, done.err
    (alarm,) = done.json()["alarm_list"]
    assert (alarm["alarm"], alarm["promotion"], alarm["back_to"]) == ("forgetting", 2, 1)
    assert alarm["pointer"] == 3
    measured = [e for e in runs.entries(lab.arl.home) if isinstance(e, SliceMeasured)]
    assert [m.artifact_digest for m in measured] == [story.before, story.after]
    assert (measured[1].value, measured[1].against) == (0.0, story.before)
    assert measured[1].comparison["drop"] == pytest.approx(1.0)
    assert lab.serves(story.before)
    assert lab.pointers() == [(3, 1), (2, None), (1, None)]
    assert runs.kinds(lab.arl.home).count("campaign_study_submitted") == 2
    lab.server.adapters["adder@0123456789ab"] = lab.kept["adder"]
    again = lab.once()
    assert (again.code, len(again.json()["alarm_list"])) == (0, 1), "nothing is left to do"
    assert lab.serves(story.before), "what a killed switch left is taken out"
    ledger = open_ledger(lab.arl.home / "ledger.db", create=False)
    assert verify_ledger(ledger, None) == []
    ledger.close()


def test_a_way_back_that_is_gone_leaves_all_as_it_is_until_it_is_there_again(
    story: Story, lab: Lab
) -> None:
    tree = lab.arl.home / "artifacts" / "objects" / story.before[:2] / story.before[2:]
    content = tree.read_bytes()

    def lose(request: BaseHTTPRequestHandler) -> None:
        """Between the swap and the look at the slice."""
        if story.after in lab.server.adapters.get(runs.MODEL, ""):
            with suppress(FileNotFoundError):
                tree.unlink()
        lab.server.usual(request, vars(request)["body"])

    lab.server.instead["/v1/completions"] = lose
    done = lab.once()
    assert done.code == 4, done.err
    assert "nothing was changed" in done.err
    assert lab.pointers() == [(2, None), (1, None)]
    assert lab.serves(story.after), "what is served is the incumbent still"
    shown = lab.run("campaign", "show", runs.NAME, "--json").json()
    assert shown["open_alarm"] == shown["alarm_list"][0]["number"]
    assert shown["failed"]["step"] == "roll_back"
    assert lab.once().code == 4
    entries = runs.entries(lab.arl.home)
    assert sum(isinstance(entry, CampaignFailed) for entry in entries) == 1, "it is told once"
    assert sum(isinstance(entry, CampaignAlarm) for entry in entries) == 1
    tree.write_bytes(content)
    lab.server.instead.clear()
    assert lab.once().code == 0
    assert lab.serves(story.before)


@pytest.mark.slow
def test_a_server_that_dies_on_the_way_back_is_brought_there_by_the_next_cycle(
    story: Story, lab: Lab
) -> None:
    def die(request: BaseHTTPRequestHandler) -> None:
        """Once the model before is to have the name again."""
        body = vars(request)["body"]
        if story.before in body["lora_path"] and story.after in lab.server.adapters[runs.MODEL]:
            lab.server.adapters.clear()
            request.close_connection = True
        else:
            lab.server.usual(request, body)

    # The killed cycle's switch is taken back first; from then on the way back is the second load.
    lab.server.adapters = {
        name: path.replace(story.after, story.before) for name, path in lab.kept.items()
    }
    lab.server.instead[LOAD] = die
    done = lab.once()
    assert done.code == 5, done.err
    assert runs.served(lab.arl.home) == story.after, "the record says what was served last"
    assert lab.pointers()[0] == (3, 1)
    lab.server.instead.clear()
    assert lab.once().code == 0
    assert lab.serves(story.before)
    assert json.loads(lab.run("verify", "--json").out)["findings"] == []
