"""What shows that a ledger says what it said: links to recompute elsewhere, and a check here."""

import json
import queue
import threading
from collections.abc import Generator
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse

from controller.api.access import Allowed, Principal
from controller.api.models.events import LinksOut
from controller.api.problems import documented
from controller.api.reading import Reader, TheService
from controller.api.routes.entries import LONGEST_SEQ, ChainName, head_named
from controller.api.routing import new_router
from controller.api.streams import Pieces
from controller.api.tokens import Scope
from controller.wiring import Service
from ledger.entry_pages import page_of_links
from ledger.errors import ArlError, Conflict
from ledger.verify import verify_ledger

router = new_router("entries")

NDJSON: Final = "application/x-ndjson"
_LINES: Final = {NDJSON: {"schema": {"type": "string"}}}
_ONE_AT_A_TIME: Final = threading.Lock()

Admin = Annotated[Principal, Depends(Allowed(Scope.ADMIN))]


@router.get("/chains/{chain}/links", response_model=LinksOut, responses=documented(404))
def list_links(
    reader: Reader,
    service: TheService,
    chain: ChainName,
    after: Annotated[int, Query(ge=0, le=LONGEST_SEQ, description="Beyond this place")] = 0,
    limit: Annotated[int, Query(ge=1, le=2000, description="Links of a page, at most")] = 500,
) -> dict[str, Any]:
    """Links as they are stored. Each digest is sha256 of the one before (64 zeros before the
    first) followed by the body, both as text: whoever has them can recompute the chain."""
    with service.ledger.read() as session:
        head = head_named(session, chain, reader)
        found = page_of_links(session, chain, after=after, limit=limit)
    items = [{"seq": o.seq, "kind": o.kind, "body": o.body, "digest": o.digest} for o in found]
    return {
        "chain": chain,
        "items": items,
        "head": {"seq": head.seq, "digest": head.digest},
        "next_after": found[-1].seq if len(found) == limit else None,
    }


@router.get(
    "/verify",
    response_class=StreamingResponse,
    responses={200: {"content": _LINES}, **documented(409)},
)
def verify(
    _: Admin,
    service: TheService,
    *,
    artifacts: Annotated[bool, Query(description="Whether to read every stored file, too")] = True,
) -> Pieces:
    """The whole ledger checked, rows and sums included. A line of JSON for each part that begins,
    `{"checking": "chain st-7f3a"}`, and a last one, `{"ok": true, "findings": []}`; one check at
    a time."""
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise Conflict("the ledger is being verified already: ask again once that is done")
    return Pieces(_Check(service, artifacts=artifacts).lines(), media_type=NDJSON, headers={})


class _Check:
    """Runs in a thread of its own, to its end, whether or not anybody still listens."""

    def __init__(self, service: Service, *, artifacts: bool) -> None:
        self._service = service
        self._store = service.store if artifacts else None
        self._said: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="verify", daemon=True).start()

    def lines(self) -> Generator[bytes, None, None]:
        while (document := self._said.get()) is not None:
            yield json.dumps(document).encode() + b"\n"

    def _run(self) -> None:
        heads = self._service.settings.heads_path
        try:
            found = verify_ledger(
                self._service.ledger,
                self._store,
                heads_path=heads,
                progress=lambda part: self._said.put({"checking": part}),
            )
            findings = [{"where": one.where, "problem": one.problem} for one in found]
            self._said.put({"ok": not findings, "findings": findings})
        except ArlError as error:
            self._said.put({"ok": False, "findings": [{"where": "ledger", "problem": str(error)}]})
        finally:
            _ONE_AT_A_TIME.release()
            self._said.put(None)
