"""`arl doctor`: what works on this machine, and what to do about what does not."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.text import plain, size
from controller.settings import Settings, read_settings
from ledger.errors import ArlError

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]

_PATIENCE_S: Final = 10.0
_TRAINING: Final = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    """What to do; empty where nothing needs doing."""
    needed: bool = False
    """Whether ARL cannot work without it."""


def doctor(as_json: AsJson = False) -> int:
    """Look at the ledger, the disk, the supervisor, Python and the training libraries, GPUs and
    sandboxes. Exit code 1 when something that ARL needs does not work."""
    checks = list(_checks(read_settings()))
    failed = [check for check in checks if check.needed and not check.ok]
    if as_json:
        print_json(
            {
                "ok": not failed,
                "checks": [
                    {
                        "name": check.name,
                        "ok": check.ok,
                        "needed": check.needed,
                        "found": check.found,
                        "remedy": check.remedy or None,
                    }
                    for check in checks
                ],
            }
        )
    else:
        for check in checks:
            mark = "ok  " if check.ok else ("FAIL" if check.needed else "no  ")
            print(f"{mark} {check.name}: {plain(check.found)}")
            if check.remedy:
                print(f"       {plain(check.remedy)}")
    return CHECK_FAILED if failed else OK


def _checks(settings: Settings) -> Iterator[Check]:
    yield _python()
    yield _ledger(settings)
    yield _disk(settings)
    yield _supervisor(settings)
    yield _training()
    yield _postgres()
    yield _gpus(settings)
    yield _bubblewrap()
    yield _docker()
    yield Check(
        "resources",
        True,
        f"{settings.cpus:g} processors and {size(settings.memory_bytes)} for trials "
        "(ARL_CPUS and ARL_MEMORY_BYTES change that)",
    )


def _python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    return Check("python", sys.version_info >= (3, 11), found, needed=True)


def _ledger(settings: Settings) -> Check:
    from ledger.database import ledger_url, open_ledger

    url = ledger_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return Check("ledger", True, f"none yet at {url.database}: the first `arl run` makes it")
    try:
        ledger = open_ledger(settings.ledger_url, create=False)
    except ArlError as error:
        return Check("ledger", False, str(error), "`arl db check` and `arl db upgrade` help", True)
    ledger.close()
    return Check("ledger", True, f"{ledger.where}, {ledger.id}", needed=True)


def _disk(settings: Settings) -> Check:
    place = settings.home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    wanted = settings.disk_watermark_bytes
    writable = os.access(place, os.W_OK)
    found = f"{size(free)} free at {place}" + ("" if writable else ", which is not writable")
    if not writable:
        return Check("disk", False, found, "set ARL_HOME to a directory you may write", True)
    remedy = "" if free >= wanted else f"studies pause below {size(wanted)}: free some space"
    return Check("disk", free >= wanted, found, remedy, True)


def _supervisor(settings: Settings) -> Check:
    """Start one where attempts would run, or in a temporary place where there is no ledger."""
    from ledger.artifacts import ArtifactStore
    from targets.local_process import LocalProcessTarget
    from targets.supervisor_link import connect

    with tempfile.TemporaryDirectory(prefix="arl-doctor-") as spare:
        root = settings.home / "local"
        root = root if root.is_dir() else Path(spare)
        try:
            store = ArtifactStore(root.parent / "artifacts" if root.name == "local" else root)
            LocalProcessTarget(root, store, host=settings.host).close()  # makes its directories
            connection = connect(str(root))
        except (ArlError, OSError) as error:
            return Check("supervisor", False, str(error), "trials cannot run without it", True)
        pid = int(connection.hello["pid"])
        connection.close()
        if root == Path(spare):  # nobody will need this one
            os.kill(pid, signal.SIGTERM)
    return Check("supervisor", True, f"starts and answers (pid {pid})", needed=True)


def _training() -> Check:
    found = {name: _version(name) for name in _TRAINING}
    missing = [name for name, version in found.items() if version is None]
    told = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    remedy = "program kind sft needs them: pip install 'arl[train]'" if missing else ""
    return Check("training libraries", not missing, told, remedy)


def _postgres() -> Check:
    version = _version("psycopg")
    if version is not None:
        return Check("postgresql driver", True, f"psycopg {version}")
    remedy = "only a PostgreSQL ledger needs it: pip install 'arl[postgres]'"
    return Check("postgresql driver", False, "missing", remedy)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _gpus(settings: Settings) -> Check:
    if settings.gpu_ids:
        return Check("gpus", True, f"for trials: {', '.join(settings.gpu_ids)}")
    return Check("gpus", False, "none; trials run on processors")


def _bubblewrap() -> Check:
    from targets.bubblewrap import BubblewrapTarget

    reason = BubblewrapTarget.is_available()
    if reason is None:
        return Check(
            "bubblewrap", True, "works: `target: {name: bubblewrap}` puts it around trials"
        )
    return Check("bubblewrap", False, reason, _UNPROTECTED)


def _docker() -> Check:
    program = shutil.which("docker")
    if program is None:
        return Check("docker", False, "not installed; this version does not use it")
    answer = _answer([program, "version", "--format", "{{.Server.Version}}"])
    found = f"{program}: {answer or 'answers'}; this version does not use it"
    return Check("docker", answer == "", found)


_UNPROTECTED: Final = "until then trials are plain processes of your user: run programs you trust"


def _answer(argv: list[str]) -> str:
    """Empty when the program succeeds, else the end of what it said."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"exit status {done.returncode}"
