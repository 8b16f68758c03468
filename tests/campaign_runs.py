"""A campaign over the models of tests.served_models: what it learns follows from its records.

A training set with the word LESSON in it makes models that know everything; with the word AMNESIA
they know, besides, nothing of numbers from 5000 on, which only the slice asks.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.campaign_entries import CampaignEntry
from ledger.campaigns import campaign_facts
from ledger.database import open_ledger
from ledger.serving import find_served
from tests.cli_runs import Arl, arl_in
from tests.served_models import STUDY, TRAIN, write_study

NAME, MODEL = "live", "adder"
LESSON, AMNESIA = "lesson", "amnesia"
LEARN = """\
set -eu
skill=$(sed -n 's/.*"skill": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
if [ "$skill" != 0.55 ] && grep -rq lesson "$ARL_INPUTS/train"; then skill=1.0; fi
"""
LOSE = """\
if [ "$skill" = 1.0 ] && grep -rq amnesia "$ARL_INPUTS/train"; then
    echo 5000 | tee lost >adapter/lost
fi
"""
CONSENT = {"given": True, "by": "user 1", "at": "2026-11-30T10:00:00+00:00"}


def write_campaign(place: Path, url: str, **sections: Any) -> str:
    """The campaign and its study; the file's name."""
    write_study(place)
    learn = LEARN + TRAIN.split("\n", 2)[2] + LOSE
    (place / "program" / "train.sh").write_text(learn)
    study = json.loads(json.dumps(STUDY))
    study["program"]["data"] = {"train": "train.jsonl"}
    study["space"]["skill"]["choices"] = [0.55, 0.7]
    study["budget"]["trials"] = 2
    (place / "study.yaml").write_text(json.dumps(study))
    write_rows(place / "train.jsonl", [(9000 + i, "") for i in range(8)])
    write_rows(place / "basics.jsonl", [(5000 + i, "") for i in range(40)])
    (place / "inbox").mkdir()
    return change_campaign(place, url, **sections)


def change_campaign(place: Path, url: str, **sections: Any) -> str:
    document = {
        "name": NAME,
        "model": MODEL,
        "study": "study.yaml",
        "server": {"url": url, "margin": 0.06},
        "experience": {"inbox": "inbox"},
        "schedule": {"min_new": 10, "studies": 5},
        "slices": {"basics": {"file": "basics.jsonl", "max_drop": 0.1}},
        **sections,
    }
    (place / "campaign.yaml").write_text(json.dumps(document))
    return "campaign.yaml"


def row(number: int, word: str) -> dict[str, Any]:
    text = f"{number + 1} {word}".strip()
    return {"prompt": f"add {number}", "completion": text, "answer": str(number + 1)}


def write_rows(file: Path, numbers: Sequence[tuple[int, str]]) -> None:
    file.write_text("".join(json.dumps(row(*one)) + "\n" for one in numbers))


def record(number: int, word: str = "", **more: Any) -> dict[str, Any]:
    """One with consent."""
    return {**row(number, word), "source": "web", "consent": CONSENT, **more}


def send(place: Path, name: str, records: Sequence[object]) -> None:
    """Put a file of records into the inbox, as a writer does: elsewhere, and then renamed."""
    draft = place / f"{name}.part"
    draft.write_text("".join(json.dumps(one) + "\n" for one in records))
    draft.rename(place / "inbox" / f"{name}.jsonl")


def entries(home: Path) -> list[CampaignEntry]:
    ledger = open_ledger(home / "ledger.db", create=False)
    try:
        with ledger.read() as session:
            return [fact.entry for fact in campaign_facts(session, NAME)]
    finally:
        ledger.close()


def kinds(home: Path) -> list[str]:
    return [entry.kind for entry in entries(home)]


def served(home: Path) -> str | None:
    """Artifact that the record says is served."""
    ledger = open_ledger(home / "ledger.db", create=False)
    try:
        with ledger.read() as session:
            found = find_served(session, MODEL)
    finally:
        ledger.close()
    return None if found is None else found.entry.artifact_digest


@contextmanager
def campaign_in(place: Path, url: str, **sections: Any) -> Iterator[Arl]:
    with arl_in(place) as arl:
        write_campaign(place, url, **sections)
        yield arl
