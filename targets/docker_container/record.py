"""What a keeper writes down about one attempt, for itself, its successors and controllers."""

import os
from collections.abc import Sequence

from targets import layout, linux
from targets.docker_container.usage import Usage
from targets.docker_container.verdict import Verdict


class Record:
    """The record of the attempt in a directory, which was begun before."""

    def __init__(self, directory: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(f"{directory}/{layout.RECORD}", flags)
        self.facts = layout.read_record(directory) or {}
        """Those that were there already."""

    def note(self, fact: layout.Fact) -> None:
        """What a later keeper would otherwise have to find out from the engine."""
        try:
            layout.append_fact(self._descriptor, fact)
        except OSError:
            pass  # no space: it will find out

    def end(self, verdict: Verdict, usages: Sequence[Usage], wall_s: float, boot: str) -> None:
        """How the attempt ended, and what its programs used."""
        exit_fact = {
            "cause": verdict.cause,
            "code": verdict.code,
            "detail": layout.one_line(verdict.detail),
            "wall_s": round(wall_s, 6),
            "cpu_s": round(sum(usage.cpu_s for usage in usages), 6),
            "max_rss_bytes": max((usage.peak_bytes for usage in usages), default=0),
            "boot": boot,
        }
        try:
            layout.append_fact_surely(self._descriptor, {"exit": exit_fact})
        except OSError:
            pass  # no space to say so: a client that asks hears that it does not run

    def make_durable(self) -> None:
        """Sync what the attempt wrote, then say so."""
        if linux.sync_file_system(self._descriptor):
            self.note({"durable": True})

    def close(self) -> None:
        os.close(self._descriptor)
