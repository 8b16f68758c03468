"""Shared by the tests of the command line: the `arl` command in a place of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.documents.studies import study_document
from controller.documents.trials import trial_document
from ledger import reads, summaries
from ledger.database import open_ledger
from ledger.errors import LedgerUnavailable
from tests.target_runs import end_supervisor

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 60.0

TRAIN = """\
set -eu
value=$(sed -n 's/.*"x": *\\([0-9.e+-]*\\).*/\\1/p' "$ARL_PARAMS")
echo "x is $value"
echo "{\\"step\\": 1, \\"metric\\": \\"train/loss\\", \\"value\\": $value}" >>"$ARL_REPORTS"
TRIAL_BODY
mkdir -p "$ARL_OUTPUT/model"
echo "$value" >"$ARL_OUTPUT/model/value"
"""
EVALUATE = """\
set -eu
read -r value <"$ARL_INPUTS/artifact/value"
printf '{"metrics": {"score": %s}}' "$value" >&"$ARL_SCORE_FD"
"""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output, which must be one JSON document without NaN."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


@dataclass(frozen=True)
class Arl:
    """The command, run in `place`, its ledger in `place/.arl`."""

    place: Path

    @property
    def home(self) -> Path:
        return self.place / ".arl"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
            "ARL_CPUS": "4",
            "ARL_TARGET": "local",
            "ARL_SIGN": "0",
            **more,
        }

    def start(
        self, *arguments: str, before: Sequence[str] = (), **more: str
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*before, sys.executable, "-m", "controller.cli", *arguments],
            cwd=self.place,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **more: str) -> Done:
        with self.start(*arguments, **more) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Done(process.returncode, out, err)

    def ok(self, *arguments: str, **more: str) -> Done:
        done = self.run(*arguments, **more)
        assert done.code == 0, f"arl {' '.join(arguments)}: {done.code}\n{done.out}\n{done.err}"
        return done

    def show(self, subject: str = "last") -> Any:
        return self.ok("show", subject, "--json").json()

    def wait_until(self, is_so: Callable[[Any], bool], study_id: str = "") -> Any:
        """Look at a study (the newest by default) until it is as asked: its `show` document,
        read straight from the ledger, with its trials."""
        deadline = time.monotonic() + PATIENCE_S
        found = None
        while time.monotonic() < deadline:
            found = self._document(study_id)
            if found is not None and is_so(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"the study did not come to be so: {found}")

    def _document(self, study_id: str) -> Any:
        if not (self.home / "ledger.db").exists():
            return None
        try:
            ledger = open_ledger(self.home / "ledger.db", create=False)
        except LedgerUnavailable:  # it is just being made
            return None
        try:
            with ledger.read() as session:
                study = summaries.newest_study(session)
                if study_id:
                    study = reads.get_study(session, study_id)
                if study is None:
                    return None
                document: Any = study_document(session, study)
                page = reads.list_trials(session, study.id)
                document["trials"] = [trial_document(i.trial, i.candidate) for i in page.items]
                return document
        finally:
            ledger.close()

    def study(
        self,
        name: str = "tiny",
        *,
        body: str = "",
        evaluate: str = EVALUATE,
        file: str = "study.yaml",
        **sections: Any,
    ) -> str:
        """Write a study of shell programs that takes a moment; the file's name."""
        source, bundle = self.place / f"{name}-program", self.place / f"{name}-evaluator"
        source.mkdir(exist_ok=True)
        bundle.mkdir(exist_ok=True)
        (source / "train.sh").write_text(TRAIN.replace("TRIAL_BODY", body))
        (bundle / "evaluate.sh").write_text(evaluate)
        document = {
            "name": name,
            "objective": {"metric": "score", "direction": "maximize"},
            "program": {
                "kind": "command",
                "argv": ["/bin/sh", "train.sh"],
                "source": source.name,
            },
            "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
            "evaluator": {
                "bundle": bundle.name,
                "argv": ["/bin/sh", "{bundle}/evaluate.sh"],
                "metrics": {"score": {"low": 0, "high": 1}},
            },
            "noise": {"baseline_trials": 2},
            "resources": {"wall_time": "60s"},
            "budget": {"trials": 3, "wall_time": "10m"},
            **sections,
        }
        (self.place / file).write_text(json.dumps(document))  # JSON is YAML
        return file


@contextmanager
def arl_in(place: Path) -> Iterator[Arl]:
    """The command; whatever it left running is ended."""
    place.mkdir(parents=True, exist_ok=True)
    arl = Arl(place)
    try:
        yield arl
    finally:
        if (arl.home / "local").is_dir():
            end_supervisor(arl.home / "local")


def interrupt(process: "subprocess.Popen[str]", number: int = signal.SIGINT) -> Done:
    """Send a signal and wait for the end."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)
