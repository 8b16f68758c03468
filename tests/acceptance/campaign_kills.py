"""Kills a cycle of a campaign at one point, lets a fresh one go on, and judges what is then."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.cli import front
from ledger import reads
from ledger.campaign_entries import ExperienceTakenIn
from ledger.database import open_ledger
from ledger.verify import verify_ledger
from tests import campaign_runs as runs
from tests.acceptance import fault_points, forked
from tests.acceptance.fault_points import Point
from tests.target_runs import end_supervisor
from tests.vllm_server import _free_port

ONCE = ("campaign", "once", "campaign.yaml")


class OtherServer:
    """The stand-in in a process of its own: a process that forks must have no threads."""

    def __init__(self, place: Path) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        words = ["--model", str(place), "--served-model-name", "base", "--port", str(port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.served_models", *words],
            cwd=fault_points.ROOT,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self) -> None:
        for _ in range(200):
            with suppress(OSError):
                self.adapters()
                return
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        raise AssertionError("the server does not answer")

    def adapters(self) -> dict[str, str]:
        cards = self._ask("/v1/models")["data"]
        return {card["id"]: card["root"] for card in cards if card["parent"]}

    def hold(self, adapters: dict[str, str]) -> None:
        """Exactly these."""
        for name in self.adapters():
            self._ask("/v1/unload_lora_adapter", {"lora_name": name})
        for name, path in adapters.items():
            self._ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data)
        with urllib.request.urlopen(request, timeout=5) as answer:
            text = answer.read()
        return json.loads(text) if path == "/v1/models" else text


@dataclass
class Scene:
    """A campaign in some state, to which it goes back before each kill."""

    place: Path
    server: OtherServer
    adapters: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.place / ".arl"

    def keep(self) -> None:
        """This is the state to go back to."""
        end_supervisor(self.home / "local")
        for name in (".arl", "inbox"):
            shutil.copytree(self.place / name, self.place / f"kept{name}", symlinks=True)
        self.adapters = self.server.adapters()

    def go_back(self) -> None:
        end_supervisor(self.home / "local")
        for name in (".arl", "inbox"):
            runs.remove(self.place / name)
            shutil.copytree(self.place / f"kept{name}", self.place / name, symlinks=True)
        self.server.hold(self.adapters)

    def once(self, at: Point | None = None, *, faults: bool = False) -> int:
        """One cycle in a process of its own; its exit code, negative for a signal."""

        def cycle() -> None:
            os.chdir(self.place)
            os.environ |= {"ARL_HOME": str(self.home), "ARL_TARGET": "local"}
            os.environ |= {"ARL_SIGN": "0", "ARL_CPUS": "4"}
            if faults:
                fault_points.install(at, self.place / "journal")
            os._exit(front.run(ONCE))

        (self.place / "journal").unlink(missing_ok=True)
        return forked.run(cycle, self.place / "output")

    def points(self, choose: Callable[[str], bool]) -> list[Point]:
        """Those of a cycle in which the campaign itself does something."""
        code = self.once(faults=True)
        assert code == 1, (self.place / "output").read_text()[-3000:]
        found, missed = fault_points.read_journal(self.place / "journal")
        assert [line for line in missed if "controller/campaigns/" in line] == []
        return [p for p in found if _is_the_campaigns(p.identity) and choose(p.identity)]

    def die_at(self, point: Point) -> bool:
        """Whether it died there: what comes by it is a matter of timing now and then."""
        code = self.once(point, faults=True)
        assert code in (1, -signal.SIGKILL), (self.place / "output").read_text()[-3000:]
        return code == -signal.SIGKILL

    def judge(self) -> list[str]:
        """What is wrong after the cycle that went on."""
        found = self._judge_server() + self._judge_ledger()
        left = [path.name for path in (self.place / "inbox").iterdir() if path.name != "taken"]
        if left or (self.home / "campaigns" / f"{runs.NAME}.training").exists():
            found.append(f"left over: {left} or a training set")
        return found

    def _judge_server(self) -> list[str]:
        artifact = runs.served(self.home) or "none"
        adapters = self.server.adapters()
        wanted = {runs.MODEL, f"{runs.MODEL}@{artifact[:12]}"}
        is_well = set(adapters) == wanted and artifact in adapters[runs.MODEL]
        return [] if is_well else [f"the record says {artifact}, the server {adapters}"]

    def _judge_ledger(self) -> list[str]:
        ledger = open_ledger(self.home / "ledger.db", create=False)
        try:
            found = [f"verify: {f.where}: {f.problem}" for f in verify_ledger(ledger, None)]
            with ledger.read() as session:
                studies = [s.study.name for s in reads.list_studies(session)]
                pointers = reads.list_incumbents(session, runs.MODEL)
        finally:
            ledger.close()
        if sorted(studies) != ["live-1", "live-2"]:
            found.append(f"studies: {studies}")
        history = [(p.seq, p.rolled_back_to) for p in pointers]
        if history != [(3, 1), (2, None), (1, None)]:
            found.append(f"pointers: {history}")
        kinds = Counter(runs.kinds(self.home))
        once = ("campaign_alarm", "campaign_rolled_back")
        if any(kinds[kind] != 1 for kind in once) or kinds["slice_measured"] != 2:
            found.append(f"entries: {kinds}")
        batches = [e for e in runs.entries(self.home) if isinstance(e, ExperienceTakenIn)]
        if [b.training + b.held_out for b in batches] != [30, 30]:
            found.append(f"experience: {batches}")
        return found


def _is_the_campaigns(identity: str) -> bool:
    return "controller/campaigns/" in identity and "controller/worker/" not in identity


@contextmanager
def scene_in(place: Path) -> Iterator[Scene]:
    """The first study promoted, is served and measured; a second one is due, which will forget."""
    place.mkdir()
    server = OtherServer(place)
    try:
        server.wait()
        runs.write_campaign(place, server.url)
        scene = Scene(place, server)
        runs.send(place, "first", [runs.record(20_000 + i) for i in range(30)])
        assert scene.once() == 0, (place / "output").read_text()
        words = f"{runs.LESSON} {runs.AMNESIA}"
        runs.send(place, "second", [runs.record(30_000 + i, words) for i in range(30)])
        yield scene
    finally:
        server.close()
        end_supervisor(place / ".arl" / "local")
