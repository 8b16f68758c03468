"""Gives a program in a container what it must be able to write and read, when root runs ARL."""

import os
from typing import Any

from targets.docker_container.skeleton import trial_user


def lend(directory: str, body: dict[str, Any]) -> None:
    """Make everything of the attempt in `directory` that its container mounts belong to the user
    in there. Nothing of the attempt ran yet. Raises OSError."""
    if os.geteuid() != 0:
        return  # the program is this very user
    user, group = trial_user()
    for mount in body["HostConfig"]["Mounts"]:
        source = mount["Source"]
        if not source.startswith(f"{directory}/"):
            continue
        if not os.path.isdir(source):
            os.chown(source, user, group, follow_symlinks=False)
        elif not mount["ReadOnly"]:
            _lend_tree(source, user, group)


def _lend_tree(top: str, user: int, group: int) -> None:
    for _, directories, files, descriptor in os.fwalk(top):
        for name in directories + files:
            os.chown(name, user, group, dir_fd=descriptor, follow_symlinks=False)
    os.chown(top, user, group)
