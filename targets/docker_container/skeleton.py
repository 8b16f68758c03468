"""The image that stands for this machine's own system: empty places where it is mounted."""

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from functools import cache
from typing import Final

from targets import layout
from targets.sandbox import PLACE, system_links

REPOSITORY: Final = "arl-system"
TRIAL_USER: Final = 65532
"""Who a program is when root runs ARL: nobody on this machine."""
_DIRECTORIES: Final = ("dev", "etc", "proc", "sbin", "sys", "tmp", "usr", PLACE.lstrip("/"))
"""/sbin is one, whatever it is on this machine: the engine puts its init there."""
_MODES: Final = {"tmp": 0o1777}
"""What is mounted there gets the mode of what was there before."""


def trial_user() -> tuple[int, int]:
    """The user and group that programs run as: one that owns nothing when root runs ARL, else
    the very user, to whom alone the attempt's directory belongs."""
    if os.geteuid() == 0:
        return TRIAL_USER, TRIAL_USER
    return os.geteuid(), os.getegid()


@cache
def system_image() -> str:
    """The name of the image, by its content: made once in each engine."""
    digest = hashlib.sha256(system_archive()).hexdigest()
    return f"{REPOSITORY}:{digest[:12]}"


@cache
def system_archive() -> bytes:
    """A tar of it, the same bytes each time."""
    user, group = trial_user()
    home = f"{PLACE}/{layout.HOME}"
    files = {
        "etc/passwd": f"root:x:0:0::/:/bin/sh\narl:x:{user}:{group}::{home}:/bin/sh\n",
        "etc/group": f"root:x:0:\narl:x:{group}:\n",
    }
    links = {at.lstrip("/"): to for at, to in system_links().items() if at != "/sbin"}
    return _archive(_DIRECTORIES, files, links)


def _archive(
    directories: tuple[str, ...], files: Mapping[str, str], links: Mapping[str, str]
) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name in directories:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, _MODES.get(name, 0o755)
            archive.addfile(entry)
        for name, to in sorted(links.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, to
            archive.addfile(entry)
        for name, text in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return written.getvalue()
