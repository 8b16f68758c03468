"""What is known of an outside attempt, in files that the server and the study's worker share.

Below the root:
    offers/<name>           an empty file while nobody has fetched the attempt
    attempts/<name>/        offer.json, claim.json, beat.json, stop, reports.jsonl, log, end.json,
                            output/, lock, taken.json
    clients/<digest>        name of the attempt that a client of a study last fetched
    news/<name>             touched whenever something happened to the attempt
    logs/<name>.log         of released attempts
    told/<digest>           name of the released attempt whose end was told with that token
    gone/                   released attempts on their way out

Every fact that only one may state (claim, end) is a hard link made once: the first one counts.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledger.errors import InvalidInput, StaleFence
from ledger.files import write_all
from targets import layout
from targets.disk_errors import disk_errors
from targets.outside.record_files import (
    Document,
    read_document,
    replace_file,
    write_document,
    write_once,
)
from targets.outside.stamps import elapsed_s, stamp
from targets.protocol import Exit, ExitCause

LEASE_S: Final = 120.0
"""An outside worker that is silent for so long is taken for dead."""
_PARTS: Final = ("offers", "attempts", "clients", "news", "logs", "told", "gone")
_LOG_FILE: Final = "log"


class Records:
    """Thread-safe, and safe between processes. Methods that write raise DiskFull."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with disk_errors(f"making {root}"):
            for part in _PARTS:
                (root / part).mkdir(parents=True, exist_ok=True, mode=0o700)

    def attempt(self, name: str) -> Path:
        """Its directory. Raises InvalidInput for what can be no attempt's name."""
        if not layout.is_name(name):
            raise InvalidInput(f"attempt handle {name!r}: must be {layout.NAME_RULE}")
        return self.root / "attempts" / name

    # --- offering --------------------------------------------------------------------------------

    def offer(self, name: str, document: Document) -> None:
        """Put the attempt out, unless it was before."""
        directory = self.attempt(name)
        with disk_errors(f"offering {name}"):
            directory.mkdir(mode=0o700, exist_ok=True)
            (directory / layout.OUTPUT).mkdir(exist_ok=True)
            if write_once(directory / "offer.json", document):
                (self.root / "offers" / name).touch()

    def offered(self, prefix: str) -> list[str]:
        """Attempts whose name begins so and that nobody has fetched, the oldest first."""
        found = []
        for entry in os.scandir(self.root / "offers"):
            if entry.name.startswith(prefix):
                try:
                    found.append((entry.stat().st_mtime_ns, entry.name))
                except FileNotFoundError:
                    continue
        return [name for _, name in sorted(found)]

    def read_offer(self, name: str) -> Document | None:
        return read_document(self.attempt(name) / "offer.json")

    # --- what its worker does --------------------------------------------------------------------

    def claim(self, name: str, client: str, token_digest: str) -> bool:
        """Whether the attempt is this client's now. Its own one it may claim again: the token it
        had before opens nothing any more. One that was told of and released since it was seen
        among the offers, by a client that was faster, is nobody's."""
        try:
            is_mine = self._claim(name, client, token_digest)
        except FileNotFoundError:
            return False
        if is_mine:
            self.ring(name)
        return is_mine

    def _claim(self, name: str, client: str, token_digest: str) -> bool:
        directory = self.attempt(name)
        claim = {"client": client, "token": token_digest, "at": stamp()}
        with disk_errors(f"claiming {name}", missing_ok=True):
            first = write_once(directory / "claim.json", claim)
            if not first:
                held = read_document(directory / "claim.json") or {}
                if held.get("client") != client:
                    return False
                write_document(directory / "claim.json", {**held, "token": token_digest})
            write_document(directory / "beat.json", stamp())
            (self.root / "offers" / name).unlink(missing_ok=True)
        return True

    def read_claim(self, name: str) -> Document | None:
        return read_document(self.attempt(name) / "claim.json")

    def beat(self, name: str) -> None:
        """Its worker lives."""
        with disk_errors(f"hearing of {name}"):
            write_document(self.attempt(name) / "beat.json", stamp())

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """What a worker sends of one attempt is taken one after the other. Raises StaleFence:
        it was released meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with disk_errors(f"hearing of {name}", missing_ok=True):
                descriptor = os.open(self.attempt(name) / "lock", flags, 0o600)
        except FileNotFoundError:
            raise StaleFence(f"attempt {name} is over: ask for another") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def is_repeated(self, name: str, number: int) -> bool:
        """Whether a report with this number, or a later one, was taken before."""
        last = read_document(self.attempt(name) / "taken.json")
        return last is not None and number <= int(last["number"])

    def take(self, name: str, number: int) -> None:
        """Remember that the report with this number was taken."""
        with disk_errors(f"reports of {name}"):
            write_document(self.attempt(name) / "taken.json", {"number": number})

    def append(self, name: str, file: str, data: bytes, limit: int) -> None:
        """Add to its reports or its log, which end at `limit` bytes."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with disk_errors(f"reports of {name}"):
            descriptor = os.open(self.attempt(name) / file, flags, 0o600)
            try:
                room = limit - os.fstat(descriptor).st_size
                write_all(descriptor, data[: max(0, room)])
            finally:
                os.close(descriptor)

    def end(self, name: str, ended: Exit, *, told: bool = False) -> bool:
        """State how it ended; False when that was stated before. `told`: by its worker."""
        claim = self.read_claim(name)
        document = {
            "cause": str(ended.cause),
            "code": ended.code,
            "detail": layout.one_line(ended.detail),
            "told": told,
            "wall_s": 0.0 if claim is None else elapsed_s(claim["at"]),
        }
        with disk_errors(f"the end of {name}"):
            first = write_once(self.attempt(name) / "end.json", document)
            (self.root / "offers" / name).unlink(missing_ok=True)
        self.ring(name)
        return first

    def read_end(self, name: str) -> Exit | None:
        """How it ended; of one that was never offered here, LOST. Ends one that is over its time
        or whose worker fell silent. None while it goes on."""
        directory = self.attempt(name)
        found = read_document(directory / "end.json")
        if found is None:
            offer = self.read_offer(name)
            if offer is None:
                return Exit(cause=ExitCause.LOST, code=None, detail="it was never offered here")
            over = self._overdue(name, offer)
            if over is None:
                return None
            self.end(name, over)
            found = read_document(directory / "end.json") or {}
        return Exit(
            cause=ExitCause(found["cause"]),
            code=found["code"],
            detail=found["detail"],
            wall_s=found["wall_s"],
        )

    def _overdue(self, name: str, offer: Document) -> Exit | None:
        directory = self.attempt(name)
        claim, beat = self.read_claim(name), read_document(directory / "beat.json")
        stop = read_document(directory / layout.STOP)
        if stop is not None and (claim is None or elapsed_s(stop) > offer["grace_s"]):
            return Exit(cause=ExitCause.KILLED, code=None, detail="it was asked to stop")
        if claim is None:
            return None
        if elapsed_s(claim["at"]) > offer["timeout_s"]:
            limit = f"it was not told of within {offer['timeout_s']:g} s"
            return Exit(cause=ExitCause.DEADLINE, code=None, detail=limit)
        if beat is not None and elapsed_s(beat) > offer["lease_s"]:
            silent = f"worker {claim['client']} was silent for {offer['lease_s']:g} s"
            return Exit(cause=ExitCause.LOST, code=None, detail=silent)
        return None

    # --- asked of it -----------------------------------------------------------------------------

    def request_stop(self, name: str) -> None:
        with disk_errors(f"stopping {name}"):
            if self.attempt(name).is_dir():
                write_once(self.attempt(name) / layout.STOP, stamp())
        self.ring(name)

    def is_stopping(self, name: str) -> bool:
        return (self.attempt(name) / layout.STOP).exists()

    # --- who fetched what ------------------------------------------------------------------------

    def fetched_by(self, client: str) -> str | None:
        """The attempt that the client fetched last; `client` is a digest."""
        try:
            return (self.root / "clients" / client).read_text(encoding="ascii")
        except FileNotFoundError:
            return None

    def remember(self, client: str, name: str) -> None:
        with disk_errors("remembering a client"):
            replace_file(self.root / "clients" / client, name.encode())

    # --- news ------------------------------------------------------------------------------------

    def ring(self, name: str) -> None:
        """Wake whoever waits for news."""
        with disk_errors("news"):
            (self.root / "news" / name).write_bytes(b"")

    # --- the end of it ---------------------------------------------------------------------------

    def release(self, name: str) -> None:
        """Delete all of it but its log. Idempotent."""
        directory = self.attempt(name)
        log = directory / _LOG_FILE
        if log.exists():
            log.replace(self.root / "logs" / f"{name}.log")
        claim = self.read_claim(name)
        if claim is not None and self.is_told(name):
            replace_file(self.root / "told" / claim["token"], name.encode())
        self._remove(directory)
        (self.root / "news" / name).unlink(missing_ok=True)
        (self.root / "offers" / name).unlink(missing_ok=True)

    def _remove(self, directory: Path) -> None:
        """Out of everyone's sight at once, then file by file: a half-deleted attempt would look
        like one that nobody has claimed and that has not ended."""
        gone = self.root / "gone" / f"{directory.name}.{secrets.token_hex(6)}"
        try:
            directory.rename(gone)
        except FileNotFoundError:
            pass
        for left in (self.root / "gone").iterdir():  # of releases that were cut short, too
            shutil.rmtree(left, ignore_errors=True)

    def is_told(self, name: str) -> bool:
        """Whether its worker stated its end, and nobody before it."""
        ended = read_document(self.attempt(name) / "end.json")
        return ended is not None and bool(ended["told"])

    def told_with(self, token_digest: str) -> str | None:
        """The released attempt whose end was told with this token."""
        try:
            return (self.root / "told" / token_digest).read_text(encoding="ascii")
        except FileNotFoundError:
            return None

    def log(self, name: str) -> Path:
        """The file of its log, before and after its release."""
        directory = self.attempt(name)
        return directory / _LOG_FILE if directory.is_dir() else self.root / "logs" / f"{name}.log"

    def names(self) -> Iterable[str]:
        return sorted(os.listdir(self.root / "attempts"))
