"""One container of an attempt: made, started, followed and removed."""

import os
import signal
import time
from typing import Any, Final

from targets import layout
from targets.docker_container.attach import LogStream, NoContainer
from targets.docker_container.body import FENCE_LABEL, ROOT_LABEL, adapted
from targets.docker_container.calls import (
    CONFLICT,
    GONE,
    Answer,
    EngineCalls,
    Refusal,
    Trouble,
    labels_of,
)
from targets.docker_container.skeleton import REPOSITORY
from targets.docker_container.usage import (
    ControlGroups,
    Usage,
    find_first_process,
    is_neighbour,
    open_pidfd,
)
from targets.program_log import LogWriter, log_files

_NEVER: Final = "0001-01-01"
_PLAIN: Final = ("runc", "crun", "nvidia")
"""Runtimes whose first process is the container's own, and no sandbox around it."""
_JSON_ROOM: Final = 4
"""Bytes that the engine keeps a byte of output in, short lines counted."""
_LOST: Final = b"\n[... output was lost while nobody followed it ...]\n"


class TakenName(Exception):
    """A container of that name exists and is none of this attempt's."""


class Box:
    """One container. For one thread."""

    def __init__(self, calls: EngineCalls, info: Answer, plan: dict[str, Any]) -> None:
        """`plan` is a program's `container` in launch.json."""
        self._calls = calls
        self._info = info
        self.name: str = plan["name"]
        self.body: dict[str, Any] = plan["body"]
        self.image: str = self.body["Image"]
        self.shell: str = self.body["Entrypoint"][-1]
        self.id = ""
        """As the engine calls it; empty until it is known to be there."""
        self.log: LogStream | None = None
        self.pidfd = -1
        self.begun_at: float | None = None
        """When its first process began, by the monotonic clock, if that is known."""
        self.was_signalled = False
        """By this keeper over the engine."""
        self.was_tried = False
        """Whether it may have been started."""
        self.usage = Usage()
        self._groups: ControlGroups | None = None

    def has_image(self) -> bool:
        """Whether its image is here; the one of this machine's own system is made now.

        Raises Refusal, Trouble."""
        if self.image.startswith(f"{REPOSITORY}:"):
            return True
        return self._calls.find_volumes(self.image) is not None

    def forget_image(self) -> None:
        """It was here, and is not any more."""
        self._calls.forget_image(self.image)

    def create(self) -> None:
        """Make it unless it was made before. Raises Refusal (GONE: no image), Trouble,
        TakenName."""
        is_system = self.image.startswith(f"{REPOSITORY}:")
        volumes = () if is_system else self._calls.find_volumes(self.image)
        body = adapted(self.body, self._info, volumes or ())
        try:
            self.id = self._calls.create(self.name, body)
        except Refusal as refusal:
            if refusal.status == GONE and is_system:
                self._calls.make_system_image(self.image)
                self.id = self._calls.create(self.name, body)
            elif refusal.status == CONFLICT:
                self._adopt_name()
            else:
                raise

    def _adopt_name(self) -> None:
        """The name is taken: by this very container, made by a call whose answer was lost, or by
        what an earlier life of the attempt left, which is removed."""
        if self._find() is not None:
            return
        found = self._calls.inspect(self.name)
        if found is not None and labels_of(found).get(ROOT_LABEL) != self._label(ROOT_LABEL):
            raise TakenName(
                f"the engine has a container {self.name} that is not of this ARL: remove it"
            )
        if found is not None:
            self._calls.remove(found["Id"])
        raise Trouble(f"container {self.name} of an earlier attempt is being removed")

    def _label(self, name: str) -> str:
        return str(self.body["Labels"][name])

    def _find(self) -> Answer | None:
        """This very container, by the engine; None when there is none (any more)."""
        found = self._calls.inspect(self.id or self.name)
        if found is None or labels_of(found).get(FENCE_LABEL) != self._label(FENCE_LABEL):
            return None
        self.id = str(found["Id"])
        return found

    def attach(self, path: str, log: LogWriter, *, is_new: bool) -> LogStream | None:
        """Read its output from where the log's files end, and follow what comes; `is_new`: it was
        not started yet. None when there is no such container any more. Raises Trouble."""
        kept = int(self.body["HostConfig"]["LogConfig"]["Config"]["max-size"])
        known: int | None = log.total
        if log.total > kept // _JSON_ROOM:  # the engine has dropped what it would be told by
            known = None
            log.write(_LOST)
        self.drop_log()
        try:
            self.log = LogStream(
                path, self._calls.version, self.id or self.name, log.write, known, is_new=is_new
            )
        except NoContainer:
            return None
        except OSError as error:
            raise Trouble(str(error)) from error
        return self.log

    def drop_log(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None

    def start(self) -> None:
        """Start it unless it was started before: one that has ended is not started again.

        Raises Refusal, Trouble."""
        if self.was_tried and self._was_started():
            return
        self.was_tried = True
        self._calls.start(self.id or self.name)

    def _was_started(self) -> bool:
        state = self.inspect()
        return state is None or not state["StartedAt"].startswith(_NEVER)

    def inspect(self) -> Answer | None:
        """Its state by the engine; None when there is no such container."""
        found = self._find()
        if found is None:
            return None
        state: Answer = found["State"]
        return state

    def watch_process(self, pid: int) -> bool:
        """Its first process, as the engine numbers it, 0 when that is not known. Whether `pidfd`
        will tell of its end from now on: not where the engine numbers processes otherwise than
        this machine does, as beside a keeper that is in a container itself."""
        if pid <= 0 or self.pidfd >= 0 or not self._is_plain() or is_neighbour(pid):
            return False
        groups = ControlGroups(pid)
        self.pidfd = open_pidfd(pid)
        if self.pidfd < 0:
            return False
        self._groups = groups
        self.begun_at = _began_at(pid)
        self.measure()
        return True

    def find_process(self) -> int:
        """Its first process without asking the engine; 0 when there is none to be seen."""
        return find_first_process(self.id) if self.id else 0

    def _is_plain(self) -> bool:
        runtime = self.body["HostConfig"].get("Runtime") or self._info.get("DefaultRuntime", "")
        return any(name in runtime for name in _PLAIN)

    def measure(self) -> None:
        if self._groups is not None:
            self.usage = self.usage.merge(self._groups.read())

    def signal(self, number: signal.Signals) -> None:
        """To its first process, which passes it on: at once, also when the engine is hung.

        Raises Refusal, Trouble."""
        if self.pidfd >= 0:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
                return
            except ProcessLookupError:
                return
            except PermissionError:
                pass  # of another user: the engine may
        self.was_signalled = True
        self._calls.kill(self.id or self.name, number.name)

    def remove(self) -> None:
        """End it and delete it; none there is no error. Raises Refusal, Trouble."""
        if self.id or self._find() is not None:
            self._calls.remove(self.id)

    def close(self) -> None:
        self.drop_log()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def _began_at(pid: int) -> float | None:
    """When a process began, by the monotonic clock."""
    ticks = layout.process_start(pid)
    if ticks is None:
        return None
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() - max(since_boot - ticks / os.sysconf("SC_CLK_TCK"), 0.0)


class BoxLog(LogWriter):
    """The log of a container, which an earlier keeper may have begun."""

    def __init__(self, path: str, quota_bytes: int) -> None:
        super().__init__(path, quota_bytes)
        files = log_files(path)
        if files:
            start, last = files[-1]
            self.total = start + os.stat(last, follow_symlinks=False).st_size
            self._segments = [name for at, name in files if at]
            if start:
                self._file_ends_at = start + self._segment_bytes
