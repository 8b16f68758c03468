"""Attempts as sandboxed processes: bubblewrap around each program, no daemon, no root needed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ledger.errors import TargetUnavailable
from targets import layout, seccomp
from targets.attempt_files import Store
from targets.bubblewrap_argv import Enclosure, bwrap_argv
from targets.cgroups import find_places
from targets.interpreters import is_below
from targets.local_process import LocalProcessTarget
from targets.local_promises import bubblewrap_promises
from targets.promises import Promises
from targets.protocol import AttemptSpec
from targets.sandbox import (
    SHARED_MEMORY_BYTES,
    Sandbox,
    options_of,
    system_links,
    system_mounts,
)

_PROBE_PATIENCE_S: Final = 20.0
_INSTEAD: Final = "or write target.name: local for programs you trust"


class BubblewrapTarget(LocalProcessTarget):
    """See targets.protocol.Target. Started, watched and recorded as local processes are, with
    bubblewrap between the subreaper and the program."""

    name = "bubblewrap"
    is_sandbox = True

    def __init__(
        self, root: Path, store: Store, *, host: str, open_ranges: Sequence[str] = ()
    ) -> None:
        """`open_ranges`: see targets.egress.access.lay_out."""
        self._works = False
        sandbox = Sandbox(os.path.abspath(root), open_ranges)
        super().__init__(root, store, host=host, sandbox=sandbox)

    def launch(self, spec: AttemptSpec) -> str:
        """As the local target's. Raises TargetUnavailable where there can be no sandbox, or no
        proxy for an attempt that may reach hosts."""
        if not self._works:
            reason = self.is_available() or _exposed(self._root)
            if reason is not None:
                raise TargetUnavailable(f"target bubblewrap: {reason}")
            self._works = True
        return super().launch(spec)

    @staticmethod
    def is_available() -> str | None:
        """Why no program can be sandboxed on this machine, and what to do; None when one can.

        Runs one, with every option that attempts get.
        """
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            return (
                "the program bwrap is not installed: install the package bubblewrap "
                f"(apt-get install bubblewrap), {_INSTEAD}"
            )
        if os.geteuid() == 0 and "--disable-userns" not in options_of(bwrap):
            return (
                f"{bwrap} is too old to be used by root: install bubblewrap 0.8 or newer, run "
                f"ARL as an ordinary user, {_INSTEAD}"
            )
        said = _try_one(bwrap)
        if said is None:
            return None
        return (
            f"{bwrap} cannot make a sandbox here ({said}): it needs user namespaces; allow them "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container a seccomp profile "
            f"that permits unshare and mount), {_INSTEAD}"
        )

    def promises(self) -> Promises:
        return bubblewrap_promises(find_places())

    @staticmethod
    def describe_limits() -> str:
        """The same for a person, one line for each subject."""
        said = bubblewrap_promises(find_places())
        return "\n".join(f"{what}: {by.words} ({by.kept_by})" for what, by in said.items())


def _try_one(bwrap: str) -> str | None:
    """Run nothing in a sandbox; what went wrong, None when nothing did."""
    judge = seccomp.filter_here()
    with tempfile.TemporaryFile() as file:
        file.write(judge or b"")
        file.seek(0)
        probe = Enclosure(
            argv=("/bin/sh", "-c", ":"),
            cwd="/",
            environment={},
            links=system_links(),
            read_only=system_mounts(network=False),
            shared_memory_bytes=SHARED_MEMORY_BYTES,
            filter_fd=None if judge is None else file.fileno(),
        )
        return _run_briefly(bwrap_argv(bwrap, probe, has=options_of(bwrap)), file.fileno())


def _run_briefly(argv: tuple[str, ...], kept: int) -> str | None:
    """What went wrong; None when it succeeded. It has the descriptor `kept`."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=_PROBE_PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=(kept,),
            env={"PATH": layout.CLEAN_PATH},
        )
    except (OSError, subprocess.SubprocessError) as error:
        return layout.one_line(str(error))
    if done.returncode == 0:
        return None
    said = layout.one_line(done.stderr.decode("utf-8", "replace"))
    return said or f"exit status {done.returncode}"


def _exposed(root: str) -> str | None:
    """A root inside of what every program may read would show it every attempt."""
    for path in system_mounts(network=False):
        if is_below(os.path.realpath(root), os.path.realpath(path)):
            return f"ARL's own directory {root} lies in {path}, which programs can read: move it"
    return None
