"""A campaign over the models of tests.served_models: what it learns follows from its records.

A training set with the word LESSON in it makes models that know everything; with the word AMNESIA
they know, besides, nothing of numbers from 5000 on, which only the slice asks.
"""

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controller.cli import front
from ledger.campaign_entries import CampaignEntry
from ledger.campaigns import campaign_facts
from ledger.database import open_ledger
from ledger.serving import find_served
from tests.cli_runs import Arl, Done, arl_in
from tests.served_models import STUDY, TRAIN, ModelServer, write_study
from tests.target_runs import end_supervisor

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
    study["noise"]["baseline_trials"] = 5
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
        "server": {"url": url, "margin": 0.06, "split": "search"},
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


# --- a campaign that comes to serve what forgot ------------------------------------------------


@dataclass
class Lab:
    """A campaign in a place of its own, its server in this process, and a state to go back to."""

    arl: Arl
    server: ModelServer
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.arl.place

    def run(self, *words: str) -> Done:
        """The verb in this process, which is much quicker than one of its own."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.arl.environment({}).items():
                patch.setenv(name, value)
            patch.setenv("ARL_HOME", str(self.arl.home))
            patch.chdir(self.place)
            code = front.run(words)
        return Done(code, out.getvalue(), err.getvalue())

    def once(self) -> Done:
        return self.run("campaign", "once", "campaign.yaml", "--json")

    def keep(self) -> None:
        end_supervisor(self.arl.home / "local")
        for name in (".arl", "inbox"):
            shutil.copytree(self.place / name, self.place / f"kept{name}", symlinks=True)
        self.kept = dict(self.server.adapters)

    def go_back(self) -> None:
        end_supervisor(self.arl.home / "local")
        self.server.instead.clear()
        for name in (".arl", "inbox"):
            remove(self.place / name)
            shutil.copytree(self.place / f"kept{name}", self.place / name, symlinks=True)
        self.server.adapters = dict(self.kept)

    def pointers(self) -> list[tuple[int, int | None]]:
        history = self.run("models", "show", MODEL, "--json").json()["history"]
        return [(one["seq"], one["rolled_back_to"]) for one in history]

    def serves(self, artifact: str) -> bool:
        """Both the record and the server say so, and nothing else is left there."""
        names = {MODEL, f"{MODEL}@{artifact[:12]}"}
        is_served = artifact in self.server.adapters.get(MODEL, "")
        return (
            served(self.arl.home) == artifact and is_served and set(self.server.adapters) == names
        )


def remove(place: Path) -> None:
    """With read-only directories in it."""
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place)
