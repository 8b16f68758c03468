"""A lab whose attempts are containers of a private engine. It is judged by what the engine itself
told while it ran and by what is left on the machine, never by what the target believes."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller.decisions import retries
from controller.worker import driver
from targets.supervisor_link import Connection
from tests.acceptance import promises, shell_study
from tests.acceptance.lab import GRID, READ_X, SAVE, SCORE, Lab, cases
from tests.private_engine import Engine, private_engine
from tests.target_runs import end_supervisor, wait_until

_LAYER = re.compile(r"/overlay2/([0-9a-f]+)/")
CGROUPS = Path("/sys/fs/cgroup")
SUBMITTED: Mapping[str, Any] = {
    "target": {"name": "docker"},
    "noise": {"baseline_trials": 2},
    "resources": {"cpus": 1.0},
    **GRID,
}
"""An engine gives a container no more processor time than it has asked for."""


def train(behaviours: Mapping[float, str] | None = None, *, every: str = "") -> dict[str, Any]:
    """As lab.train; a container cannot write down on the lab's disk that it ran."""
    script = READ_X + every + cases(behaviours or {}) + SAVE
    return {"kind": "command", "argv": ["/bin/sh", "-c", script]}


def evaluate(behaviours: Mapping[float, str] | None = None, **more: Any) -> dict[str, Any]:
    script = 'read -r x < "$ARL_INPUTS/artifact/x"; ' + cases(behaviours or {}) + SCORE
    return {
        "bundle": "./evaluator",
        "argv": ["/bin/sh", "-c", script],
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        **more,
    }


@dataclass(frozen=True)
class Event:
    """One thing that the engine said about a container."""

    action: str
    id: str
    name: str
    at: float
    exit_code: int | None


class Listener:
    """What an engine tells of its containers, over its own restarts."""

    def __init__(self, engine: Engine) -> None:
        self.events: list[Event] = []
        self._host = engine.host
        self._seen: set[tuple[str, str, int]] = set()
        self._closed = threading.Event()
        self._since = f"{time.time():.6f}"
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._closed.is_set():
            argv = ["docker", "--host", self._host, "events", "--format", "{{json .}}"]
            self._process = subprocess.Popen(
                [*argv, "--filter", "type=container", "--since", self._since],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._hear(json.loads(line))
            self._process.stdout.close()
            self._process.wait()
            self._closed.wait(0.05)

    def _hear(self, told: Any) -> None:
        actor, at = told["Actor"], told["timeNano"]
        key = (told["Action"], actor["ID"], at)
        self._since = f"{at / 1e9:.9f}"
        if key not in self._seen:
            self._seen.add(key)
            code = actor["Attributes"].get("exitCode")
            name = actor["Attributes"].get("name", "")
            code = None if code is None else int(code)
            self.events.append(Event(told["Action"], actor["ID"], name, at / 1e9, code))

    def of(self, action: str, name: str = "") -> list[Event]:
        """Events of that kind, of all containers or of the one with that name."""
        return [e for e in self.events if e.action == action and name in ("", e.name)]

    def close(self) -> None:
        self._closed.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join(10)


class ContainerLab(Lab):
    def __init__(self, base: Path, engine: Engine) -> None:
        super().__init__(base)
        self.engine = engine
        self.environment.update(ARL_TARGET="docker", DOCKER_HOST=engine.host, ARL_CPUS="8")
        self.listener = Listener(engine)
        self.before = Leftovers(engine)

    def submit(self, **changes: Any) -> str:
        return super().submit(
            **{**SUBMITTED, "program": train(), "evaluator": evaluate(), **changes}
        )

    @property
    def place(self) -> Path:
        """Where the target keeps its things."""
        (found,) = self.home.glob("docker*")
        return found

    def ran(self) -> list[str]:
        """Names of the containers that were started, once for each time."""
        return [event.name for event in self.listener.of("start")]

    def containers(self) -> list[str]:
        """Names of those that run now."""
        listed = ["docker", "--host", self.engine.host, "ps", "--format", "{{.Names}}"]
        done = subprocess.run(listed, capture_output=True, text=True, check=False)
        return done.stdout.split()

    def kill_keeper(self) -> int:
        """SIGKILL whoever follows the containers; how many that were."""
        try:
            link = Connection(str(self.place))
        except (OSError, ValueError):
            return 0
        pid: int = link.hello["pid"]
        link.close()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return 0
        return 1

    def broken(self) -> list[str]:
        with self.service() as service:
            for target in service.used_targets():  # its next keeper removes what a killed one left
                target.list_owned(service.ledger.id)
            found = shell_study.own_findings(service, ended=False)
            witness = shell_study.witness(service)
            found += promises.broken(witness, self.ran(), ended=False)
            if self.expects_ends:
                found += [*promises.lost(witness), *self.left()]
            return found

    def left(self) -> list[str]:
        """O: nothing of an attempt is on the machine, once what is being deleted is."""
        until = time.monotonic() + 15.0
        while found := [*Leftovers(self.engine).beyond(self.before), *self._left_files()]:
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        return [f"O: {what} is left" for what in found]

    def _left_files(self) -> Iterator[str]:
        yield from map(str, (self.place / "attempts").glob("*"))
        yield from map(str, (self.home / "artifacts" / "incoming").glob("*"))

    def close(self) -> None:
        super().close()
        for place in self.home.glob("docker*"):
            end_supervisor(place)
        self.listener.close()


class Leftovers:
    """What an engine has now, as the machine shows it."""

    def __init__(self, engine: Engine) -> None:
        assert engine.directory is not None
        self._engine = engine
        self.found = {
            "container": self._listed("ps", "--all", "--format", "{{.Names}}"),
            "volume": self._listed("volume", "ls", "--quiet"),
            "network": self._listed("network", "ls", "--format", "{{.Name}}"),
            "mount": self._mounts(engine.directory),
            "cgroup": self._groups(f"{engine.namespace}"),
            "layer": self._files(engine.directory / "data" / "overlay2") - self._image_layers(),
            "record": self._files(engine.directory / "data" / "containers"),
            "task": self._files(engine.directory / "exec" / "runtime-runc" / "moby"),
            "process": self._shims(engine.directory),
        }

    def beyond(self, before: "Leftovers") -> Iterator[str]:
        """What was not there before."""
        for kind, names in self.found.items():
            for name in sorted(names - before.found[kind]):
                yield f"{kind} {name}"

    def _listed(self, *argv: str) -> set[str]:
        asked = ["docker", "--host", self._engine.host, *argv]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    def _image_layers(self) -> set[str]:
        """An image is made once and kept."""
        images = self._listed("image", "ls", "--all", "--quiet")
        places = "{{json .GraphDriver.Data}}"
        told = [self._listed("image", "inspect", "--format", places, i) for i in images]
        return {part for line in told for word in line for part in _LAYER.findall(word)}

    def _mounts(self, directory: Path) -> set[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return {line.split()[1] for line in lines if f" {directory}/" in line}

    def _groups(self, name: str) -> set[str]:
        """Of containers: those below the engine's own."""
        places = [CGROUPS, *CGROUPS.iterdir()]
        return {str(p) for place in places for p in (place / name).glob("*/") if p.is_dir()}

    def _files(self, directory: Path) -> set[str]:
        return set(os.listdir(directory)) if directory.exists() else set()

    def _shims(self, directory: Path) -> set[str]:
        found = set()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                argv = entry.read_bytes()
            except OSError:
                continue
            if b"containerd-shim" in argv and f"{directory}/".encode() in argv:
                found.add(entry.parent.name)
        return found


def wait_for_container(lab: ContainerLab, name: str, patience_s: float = 30.0) -> None:
    wait_until(lambda: name in lab.containers(), f"container {name} runs", patience_s)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """One of the module's own: its tests may kill it."""
    with private_engine() as made:
        yield made


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 0.02)
    monkeypatch.setattr(driver, "COMMANDS_EVERY_S", 0.02)
    monkeypatch.setattr(driver, "CONDITION_EVERY_S", 0.1)


def open_lab(base: Path, engine: Engine) -> Iterator[ContainerLab]:
    made = ContainerLab(base, engine)
    yield made
    try:
        broken = made.broken() if made.home.exists() else []
    finally:
        made.close()
    assert broken == [], broken
    assert made.complaints() == []


@pytest.fixture
def lab(
    memory_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ContainerLab]:
    hurry(monkeypatch)
    if not engine.is_answering():  # an earlier test failed while it was dead
        engine.start()
    yield from open_lab(memory_path, engine)
