"""How code that a model wrote is started: in bubblewrap, or as a plain process with limits.

`bubblewrap` holds against adversaries: no network, no file of the machine but the interpreter's,
and a private /tmp in memory. `process` contains accidents only, and is for trials that are
sandboxed as a whole. In both the code can start no process (`code_limits.py`), so that one kill
ends it.
"""

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

Isolation: TypeAlias = Literal["bubblewrap", "process"]

PATH: Final = "/usr/bin:/bin"
"""Where programs are looked for that are named alone."""
TMP_BYTES: Final = 16 * 1024 * 1024
PROBE_S: Final = 20.0


class IsolationError(Exception):
    """Code cannot be isolated here as asked; one line says why."""


@functools.cache
def launcher(isolation: Isolation) -> tuple[str, ...]:
    """The command line up to the interpreter's script, once it was seen to work.

    Raises:
        IsolationError: bubblewrap is not here, or may not make namespaces.
    """
    python = (sys.executable, "-I", "-S", "-B", "-c")
    argv = (*_sandbox(), *python) if isolation == "bubblewrap" else python
    limits = (Path(__file__).parent / "code_limits.py").read_text(encoding="utf-8")
    try:
        process = start(argv, f"{limits}\nforbid_processes()\nprint('works')")
        printed, _ = process.communicate(timeout=PROBE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise IsolationError(f"{isolation} does not work here: {error}"[:300]) from None
    if printed != b"works\n":
        raise IsolationError(f"{isolation} does not work here (are user namespaces allowed?)")
    return argv


def _sandbox() -> tuple[str, ...]:
    program = shutil.which("bwrap")
    if program is None:
        raise IsolationError("bubblewrap (bwrap) is not installed")
    options = [
        program,
        *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"),
        *("--cap-drop", "ALL", "--hostname", "sandbox"),
    ]
    for path in ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"):
        options += ["--ro-bind-try", path, path]
    for path in sorted({sys.prefix, sys.base_prefix} - {"/usr", "/"}):
        options += ["--ro-bind", path, path]
    options += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    return (*options, "--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp")


def start(argv: Sequence[str], script: str) -> "subprocess.Popen[bytes]":
    """Start with pipes for standard input and output, in a session of its own."""
    return subprocess.Popen(
        [*argv, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )
