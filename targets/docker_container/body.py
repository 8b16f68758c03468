"""What the engine is asked to create for one program: pure, from what it may see, use and do."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from targets.bubblewrap_argv import HOST_NAME
from targets.protocol import Limits

MIB: Final = 1024**2
OWNER_LABEL: Final = "arl.owner"
ATTEMPT_LABEL: Final = "arl.attempt"
STUDY_LABEL: Final = "arl.study"
ROOT_LABEL: Final = "arl.root"
FENCE_LABEL: Final = "arl.fence"

CANNOT_EXECUTE: Final = frozenset({126, 127})
"""Exit codes of a shell that could not execute what it was told to."""

_SHARED_MEMORY_BYTES: Final = 1024 * MIB
_TMP_BYTES: Final = 1024 * MIB
_LOG_FILES: Final = 2
_LEAST_CPUS: Final = 0.01
_STUDY = re.compile(r"arl-([^-.]+)")

Body = dict[str, Any]
"""JSON of the engine's API: POST /containers/create."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a program finds in its container. Paths are those it sees, mapped to this
    machine's."""

    argv: tuple[str, ...]
    streams: tuple[str, ...]
    """Redirections of a shell, like `3>/arl/score`, before the program is executed."""
    cwd: str
    environment: Mapping[str, str]
    """Added to the image's own."""
    read_only: Mapping[str, str]
    writable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """By which a container is found again."""

    owner: str
    attempt: str
    root: str
    fence: str
    """Drawn when the attempt was laid out: a container of the same name with another one is
    what is left of an earlier life of the attempt."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a container is made of besides its program, and held by besides Limits."""

    image: str
    user: tuple[int, int]
    """And group."""
    processes: int
    """At once, threads counted."""
    open_files: int
    """Of each process."""
    longest_file: int | None = None
    """In bytes."""
    runtime: str | None = None
    network_of: str | None = None
    """Another container whose network it shares; None: it has none."""


def container_body(shown: Shown, marks: Marks, limits: Limits, terms: Terms) -> Body:
    """A container in which nothing is allowed but what is named here."""
    other = terms.network_of
    return {
        "Image": terms.image,
        "Entrypoint": ["/bin/sh", "-c", _script(shown.streams), shell_name(marks.fence)],
        "Cmd": list(shown.argv),
        "WorkingDir": shown.cwd,
        "Env": [f"{name}={value}" for name, value in shown.environment.items()],
        "User": f"{terms.user[0]}:{terms.user[1]}",
        **({"Hostname": HOST_NAME} if other is None else {}),
        "Labels": _labels(marks),
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **_hardening(),
            **_limits(limits, terms),
            "Mounts": _mounts(shown),
            "NetworkMode": "none" if other is None else f"container:{other}",
            **({} if terms.runtime is None else {"Runtime": terms.runtime}),
        },
    }


def _script(streams: tuple[str, ...]) -> str:
    """The descriptors of the program, then the program in the shell's place."""
    return f'exec "$@" {" ".join(streams)}'.rstrip()


def shell_name(fence: str) -> str:
    """What the shell calls itself when it cannot execute the program, which never learns it."""
    return f"{HOST_NAME}-{fence}"


def _labels(marks: Marks) -> dict[str, str]:
    study = _STUDY.match(marks.attempt)
    return {
        **marks.labels,
        OWNER_LABEL: marks.owner,
        ATTEMPT_LABEL: marks.attempt,
        STUDY_LABEL: study[1] if study is not None else "",
        ROOT_LABEL: marks.root,
        FENCE_LABEL: marks.fence,
    }


def _hardening() -> dict[str, Any]:
    return {
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={seccomp_profile()}"],
        "IpcMode": "private",
        "Init": True,
        "Privileged": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "OomScoreAdj": 500,
    }


def _limits(limits: Limits, terms: Terms) -> dict[str, Any]:
    lengths = (("nofile", terms.open_files), ("core", 0), ("fsize", terms.longest_file))
    memory = {}
    if limits.memory_bytes is not None:
        memory = {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    tmp = min(limits.scratch_bytes or _TMP_BYTES, limits.memory_bytes or _TMP_BYTES)
    log = max(limits.log_bytes // _LOG_FILES, MIB)
    return {
        **memory,
        "NanoCpus": int(max(limits.cpus, _LEAST_CPUS) * 1e9),
        "PidsLimit": terms.processes,
        "ShmSize": min(limits.memory_bytes or _SHARED_MEMORY_BYTES, _SHARED_MEMORY_BYTES),
        "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={tmp}"},
        "Ulimits": [
            {"Name": name, "Soft": most, "Hard": most}
            for name, most in lengths
            if most is not None
        ],
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(log), "max-file": str(_LOG_FILES)},
        },
        **_gpus(limits),
    }


def _gpus(limits: Limits) -> dict[str, Any]:
    if not limits.gpu_ids:
        return {}
    wanted = {"DeviceIDs": list(limits.gpu_ids), "Capabilities": [["gpu"]]}
    return {"DeviceRequests": [wanted]}


def _mounts(shown: Shown) -> list[dict[str, Any]]:
    """By path, so that nothing mounted is hidden by what contains it."""
    mounts = [
        {"Type": "bind", "Source": of, "Target": at, "ReadOnly": read_only}
        for read_only, places in ((True, shown.read_only), (False, shown.writable))
        for at, of in places.items()
    ]
    return sorted(mounts, key=lambda mount: str(mount["Target"]).rstrip("/").split("/"))


def adapted(body: Body, info: Mapping[str, Any], volumes: Collection[str]) -> Body:
    """The same for the engine that `info` tells of. `volumes` of the image are of memory and
    small: the engine would make directories without a limit."""
    host = dict(body["HostConfig"])
    options = ",".join(info.get("SecurityOptions") or ())
    changed: Body = {**body, "HostConfig": host}
    host["NanoCpus"] = min(host["NanoCpus"], int(info.get("NCPU") or 1) * 10**9)
    host["Tmpfs"] = {**{path: host["Tmpfs"]["/tmp"] for path in volumes}, **host["Tmpfs"]}
    if str(info.get("CgroupVersion")) == "2":
        host["CgroupnsMode"] = "private"
    if "name=userns" in options:
        host["UsernsMode"] = "host"  # else it owns nothing of what it is lent
    if "name=rootless" in options:
        changed["User"] = "0:0"  # which is the very user who runs the engine
    if "name=seccomp" not in options:
        host["SecurityOpt"] = [o for o in host["SecurityOpt"] if not o.startswith("seccomp")]
    return changed


@cache
def seccomp_profile() -> str:
    """System calls that no program needs, each refused as if it were not allowed to root."""
    return Path(__file__).with_name("seccomp.json").read_text(encoding="utf-8")
