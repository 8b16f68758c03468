"""The log of `arl serve` and `arl worker` on standard error: a line for people, or JSON."""

import contextlib
import json
import logging
import sys
from typing import Final

from controller.cli.text import plain
from controller.documents.finite import NON_FINITE, flagged
from controller.documents.times import iso
from controller.settings import log_format, log_level, wants_debug
from controller.worker.telling import ABOUT, study_of
from ledger.records import Json

FIELDS: Final = ("event", "study", *ABOUT, "said", "request", "method", "path", "status", "ms")
"""What a record may say beside its message; a JSON line has those that it says."""


class OneLine(logging.Formatter):
    """A log record on one safe line, without a traceback unless ARL_DEBUG asks for it."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"arl: {record.levelname.lower()}: {plain(record.getMessage())}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line += f": {type(error).__name__}: {plain(str(error))}"
            if wants_debug():
                line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLine(logging.Formatter):
    """A log record as one JSON object on one line, with the ids of what it is about."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Json] = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        study = study_of(record)
        if study is not None:
            line["study"] = study
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = {"type": type(error).__name__, "detail": str(error)}
            if wants_debug():
                line["traceback"] = self.formatException(record.exc_info)
        told = flagged(line)
        if not told[NON_FINITE]:
            del told[NON_FINITE]
        return json.dumps(told, ensure_ascii=True, allow_nan=False)


class _StandardError(logging.Handler):
    """To standard error as it is at that moment: the live panel stands in for it for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        # A reader who went away, or a full disk behind it, must not stop what is logged about.
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def listen_to_the_worker(level: int = logging.WARNING) -> None:
    """What the worker warns of goes to standard error, as ARL_LOG_FORMAT says; ARL_LOG_LEVEL
    says more than `level`. Raises InvalidInput naming the variable."""
    handler = _StandardError()
    handler.setFormatter(JsonLine() if log_format() == "json" else OneLine())
    wanted = log_level()
    wanted = level if wanted is None else wanted
    # Other libraries' steps on the way are nobody's business, and may name what is secret.
    logging.basicConfig(level=max(level, wanted), handlers=[handler])
    logging.getLogger("arl").setLevel(wanted)
    # Its line for each request names the whole address, which may be a key of its own.
    logging.getLogger("httpx").setLevel(logging.WARNING)
