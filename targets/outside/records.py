"""What is known of outside attempts, in files that the server and the study's worker share.

Below the root:
    records/<name>          its facts (`facts.py`), touched when its study's worker should look
    attempts/<name>/        made once its worker sends more than the end: heard.json,
                            reports.jsonl, log, output/
    logs/<name>.log         of released attempts
    told/<2 digits>         a line for each token with which the end of a released attempt was told
    gone/                   what released attempts sent, on its way out

Most trials are asked for and told and send nothing else: each is one file, gone before a disk has
seen it.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ledger.errors import InvalidInput, StaleFence
from targets import layout
from targets.disk_errors import disk_errors
from targets.outside import facts as f
from targets.outside import record_files as files
from targets.outside.facts import Document, Facts, add_fact, read_facts
from targets.outside.overdue import find_overdue
from targets.outside.stamps import elapsed_s, stamp
from targets.protocol import Exit, ExitCause

RECORDS: Final = "records"
_PARTS: Final = (RECORDS, "attempts", "logs", "told", "gone")
_LOG_FILE: Final = "log"
_HEARD: Final = "heard.json"
_FORGET_ABOVE: Final = 1000


class Seen(NamedTuple):
    """An attempt that has not ended."""

    since_ns: int
    name: str
    client: str | None
    """Digest of the client that fetched it; None while nobody has."""


class Records:
    """Thread-safe, and safe between processes. Methods that write raise DiskFull."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: dict[str, tuple[int, str | None, bool]] = {}
        """By attempt: how long its file was when `look` read it, whose it was and whether it had
        ended."""
        with disk_errors(f"making {root}"):
            for part in _PARTS:
                (root / part).mkdir(parents=True, exist_ok=True, mode=0o700)

    def attempt(self, name: str) -> Path:
        """The directory of what its worker sent. Raises InvalidInput for what can be no
        attempt's name."""
        return self.root / "attempts" / _checked(name)

    def _record(self, name: str) -> Path:
        return self.root / RECORDS / _checked(name)

    def read(self, name: str) -> Facts:
        """Empty for one that was never offered here, or was released."""
        return read_facts(self._record(name)) or Facts()

    # --- offering --------------------------------------------------------------------------------

    def offer(self, name: str, document: Document) -> None:
        """Put the attempt out, unless it was before."""
        if self.read(name).offer is None:
            with disk_errors(f"offering {name}"):
                add_fact(self._record(name), f.OFFER, document, create=True)

    def look(self, prefix: str) -> list[Seen]:
        """Attempts whose name begins so and that have not ended, the oldest first."""
        found, here = [], 0
        for entry in os.scandir(self.root / RECORDS):
            here += 1
            if entry.name.startswith(prefix):
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue
                client, is_over = self._look_at(entry.name, status.st_size)
                if not is_over:
                    found.append(Seen(status.st_mtime_ns, entry.name, client))
        if len(self._seen) > 2 * here + _FORGET_ABOVE:
            self._seen = {}
        return sorted(found, key=lambda one: one[:2])

    def _look_at(self, name: str, size: int) -> tuple[str | None, bool]:
        """Who has an attempt whose file is so long, and whether it ended: the file is read again
        only once it has grown."""
        known_size, client, is_over = self._seen.get(name, (-1, None, False))
        if known_size != size:
            known = self.read(name)
            client = None if known.claim is None else str(known.claim["client"])
            is_over = known.end is not None
            self._seen[name] = (size, client, is_over)
        return client, is_over

    def read_offer(self, name: str) -> Document | None:
        return self.read(name).offer

    # --- what its worker does --------------------------------------------------------------------

    def claim(self, name: str, client: str, token_digest: str) -> Document | None:
        """The offer of an attempt that is this client's now; else None. Its own one it may claim
        again: the token it had before opens nothing any more. One that was told of and released
        since it was seen, by a client that was faster, is nobody's."""
        known = self.read(name)
        if known.offer is None or (known.claim is not None and known.claim["client"] != client):
            return None
        claim = {"client": client, "token": token_digest, "at": stamp()}
        try:
            with disk_errors(f"claiming {name}", missing_ok=True):
                add_fact(self._record(name), f.CLAIM, claim)
        except FileNotFoundError:
            return None
        first = self.read(name).claim
        return known.offer if first is not None and first["client"] == client else None

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """What a worker sends of one attempt is taken one after the other. Raises StaleFence:
        it was released meanwhile."""
        with ExitStack() as held:
            try:
                with disk_errors(f"hearing of {name}", missing_ok=True):
                    held.enter_context(files.locked(self._record(name)))
            except FileNotFoundError:
                raise StaleFence(f"attempt {name} is over: ask for another") from None
            yield

    def hear(
        self,
        name: str,
        number: int | None = None,
        sent: Mapping[str, tuple[bytes, int]] | None = None,
    ) -> None:
        """Its worker lives, and adds `sent` to its files, of which each ends at so many bytes,
        once for each rising number.

        Where each file ends is noted together with the number, before anything is added: one
        that was cut short is put where it was to be when it is sent again.
        """
        directory, sent = self.attempt(name), sent or {}
        with disk_errors(f"reports of {name}"):
            heard = files.read_document(directory / _HEARD) or {}
            last, ends = heard.get("number"), heard.get("ends", {})
            if number is None or last is None or number > last:
                starts = {file: files.size_of(directory / file) for file in sent}
                if number is not None:
                    last, ends = number, starts
            else:
                starts = ends if number == last else {}
            directory.mkdir(mode=0o700, exist_ok=True)
            now = {"at": stamp(), "number": last, "ends": ends}
            files.write_document(directory / _HEARD, now)
            for file, (data, limit) in sent.items():
                start = starts.get(file, limit)
                whole = data[: max(0, limit - start)]
                if files.size_of(directory / file) < start + len(whole):
                    files.write_at(directory / file, start, whole)

    # --- how it ended ----------------------------------------------------------------------------

    def end(self, name: str, ended: Exit, *, told: Sequence[Document] | None = None) -> bool:
        """State how it ended; False when that was stated before. `told`: by its worker, with
        these last values."""
        known = self.read(name)
        if known.end is not None:
            return False
        document = {
            "id": secrets.token_hex(8),
            "cause": str(ended.cause),
            "code": ended.code,
            "detail": layout.one_line(ended.detail),
            "told": None if told is None else list(told),
            "wall_s": 0.0 if known.claim is None else elapsed_s(known.claim["at"]),
        }
        try:
            with disk_errors(f"the end of {name}", missing_ok=True):
                add_fact(self._record(name), f.END, document)
        except FileNotFoundError:
            return False
        self.ring(name)
        first = self.read(name).end
        return first is not None and first["id"] == document["id"]

    def read_end(self, name: str) -> Exit | None:
        """How it ended; of one that was never offered here, LOST. Ends one that is over its time
        or whose worker fell silent. None while it goes on."""
        known = self.read(name)
        if known.end is None:
            if known.offer is None:
                return Exit(cause=ExitCause.LOST, code=None, detail="it was never offered here")
            over = find_overdue(known, known.offer, self.attempt(name) / _HEARD)
            if over is None:
                return None
            self.end(name, over)
            known = self.read(name)
        found = known.end or {"cause": ExitCause.LOST, "code": None, "detail": "", "wall_s": 0.0}
        return Exit(
            cause=ExitCause(found["cause"]),
            code=found["code"],
            detail=found["detail"],
            wall_s=found["wall_s"],
        )

    # --- asked of it -----------------------------------------------------------------------------

    def request_stop(self, name: str) -> None:
        known = self.read(name)
        if known.offer is not None and known.stop is None:
            with disk_errors(f"stopping {name}"):
                add_fact(self._record(name), f.STOP, stamp())
        self.ring(name)

    def is_stopping(self, name: str) -> bool:
        return self.read(name).stop is not None

    # --- news ------------------------------------------------------------------------------------

    def ring(self, name: str) -> None:
        """Wake whoever waits for news. It is only touched: what there is to see is in it."""
        with disk_errors("news"):
            try:
                os.utime(self._record(name))
            except FileNotFoundError:
                return

    # --- after it --------------------------------------------------------------------------------

    def release(self, name: str) -> None:
        """Delete all of it but its log. Idempotent."""
        with disk_errors(f"releasing {name}"):
            try:
                with files.locked(self._record(name)):
                    self._put_away(name)
            except FileNotFoundError:
                self._put_away(name)

    def _put_away(self, name: str) -> None:
        """Its record goes last: until then nobody can take it for one that has not ended."""
        directory, known = self.attempt(name), self.read(name)
        if (directory / _LOG_FILE).exists():
            (directory / _LOG_FILE).replace(self.root / "logs" / f"{name}.log")
        if known.end is not None and known.end["told"] is not None:
            files.add_line(self._told(known.token), f"{known.token} {name}")
        gone = self.root / "gone" / f"{name}.{secrets.token_hex(6)}"
        if directory.is_dir():
            directory.rename(gone)
        self._record(name).unlink(missing_ok=True)
        for left in (self.root / "gone").iterdir():  # of releases that were cut short, too
            shutil.rmtree(left, ignore_errors=True)

    def told_with(self, token_digest: str) -> str | None:
        """The released attempt whose end was told with this token."""
        return files.find_line(self._told(token_digest), f"{token_digest} ")

    def _told(self, token_digest: str) -> Path:
        return self.root / "told" / token_digest[:2]

    def log(self, name: str) -> Path:
        """The file of its log, before and after its release."""
        here = self.attempt(name) / _LOG_FILE
        return here if here.exists() else self.root / "logs" / f"{name}.log"

    def names(self) -> Iterable[str]:
        return sorted(os.listdir(self.root / RECORDS))


def _checked(name: str) -> str:
    if not layout.is_name(name):
        raise InvalidInput(f"attempt handle {name!r}: must be {layout.NAME_RULE}")
    return name
