"""The ledger's chains: their entries, where they end, and whether they are whole."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Request

from controller.api.access import Principal, forbidden
from controller.api.models.events import ChainOut, EntriesOut
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, Limit, Order, Reader, TheService
from controller.api.routing import new_router
from controller.api.tokens import Scope
from controller.documents.events import entry_document
from controller.documents.finite import flagged
from controller.documents.plain_text import plain
from ledger.chain import SERVICE_CHAIN
from ledger.chain_progress import ChainProgress, check_further
from ledger.database import ReadSession
from ledger.entry_pages import ChainHead, find_head, kinds_of, page_of_entries
from ledger.errors import NotFound
from ledger.recent import Recent

router = new_router("entries")

LONGEST_SEQ: Final = 2**62
LINKS_AT_ONCE: Final = 5000
"""Recomputed at one request: some fifty milliseconds."""
CHAINS_KEPT: Final = 1000

CHAIN: Final = "A study's id, or `service` (scope admin)"
ChainName = Annotated[str, Path(max_length=LONGEST_NAME, description=CHAIN)]
Seq = Annotated[int | None, Query(ge=0, le=LONGEST_SEQ, description="Beyond this place")]


class Verified:
    """How far each chain was recomputed by this process. Safe to share between threads."""

    def __init__(self) -> None:
        self._done: Recent[ChainProgress] = Recent(CHAINS_KEPT)

    def further(self, session: ReadSession, head: ChainHead) -> ChainProgress:
        done = self._done.find(head.chain) or ChainProgress()
        done = check_further(session, head, done, limit=LINKS_AT_ONCE)
        self._done.keep(head.chain, done)
        return done


def verified_of(request: Request) -> Verified:
    """The app's own, made at its first use."""
    state = request.app.state
    if not hasattr(state, "verified"):
        state.verified = Verified()
    found: Verified = state.verified
    return found


def head_named(session: ReadSession, chain: str, reader: Principal) -> ChainHead:
    """Raises NotFound; Refused for the service's chain, which holds tokens and the audit."""
    if chain == SERVICE_CHAIN and not reader.may(Scope.ADMIN):
        raise forbidden(reader, Scope.ADMIN)
    head = None if "\0" in chain else find_head(session, chain)
    if head is None:
        raise NotFound(
            f"no chain is called {plain(chain)}: write a study's id, or {SERVICE_CHAIN}"
        )
    return head


@router.get("/entries", response_model=EntriesOut, responses=documented(404))
def list_entries(
    reader: Reader,
    service: TheService,
    chain: Annotated[str, Query(max_length=LONGEST_NAME, description=CHAIN)],
    kind: Annotated[
        list[Annotated[str, Query(max_length=64)]] | None, Query(description="Only these kinds")
    ] = None,
    after: Seq = None,
    order: Order = "asc",
    limit: Limit = 100,
) -> dict[str, Any]:
    """Links of a chain, of some kinds or all, in either direction."""
    kinds = None if kind is None else [name for name in kind if "\0" not in name] or [""]
    with service.ledger.read() as session:
        head = head_named(session, chain, reader)
        found = page_of_entries(
            session,
            chain,
            kinds=kinds,
            after=after,
            descending=order == "desc",
            limit=limit + 1,
        )
    more = found[limit - 1].seq if len(found) > limit else None
    return {
        "chain": chain,
        "items": [flagged(entry_document(entry)) for entry in found[:limit]],
        "head_seq": head.seq,
        "next_after": more,
    }


@router.get("/chains/{chain}", response_model=ChainOut, responses=documented(404))
def show_chain(
    request: Request,
    reader: Reader,
    service: TheService,
    chain: ChainName,
) -> dict[str, Any]:
    """Where a chain ends. Each request recomputes some thousand links more, from the last."""
    with service.ledger.read() as session:
        head = head_named(session, chain, reader)
        done = verified_of(request).further(session, head)
        kinds = list(kinds_of(session, chain))
    at_end = (done.seq, done.digest) == (head.seq, head.digest)
    return {
        "chain": chain,
        "seq": head.seq,
        "digest": head.digest,
        "kinds": kinds,
        "verified_seq": done.seq,
        "is_whole": False if done.problem else (True if at_end else None),
        "problem": done.problem,
    }
