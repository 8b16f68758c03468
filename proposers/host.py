"""What stands around a call of a proposer: where its randomness comes from, and the check of
what it gives back."""

import hashlib
import random
from collections.abc import Mapping
from typing import Final

from ledger.errors import ProposerFailed
from ledger.search import History, Proposal, Proposals
from proposers.protocol import Proposer
from proposers.search_space import SearchSpace, faults

STATE_BYTES: Final = 64 * 1024 * 1024
"""A longer state is refused: it is stored with every call."""
RATIONALE_BYTES: Final = 32 * 1024
ID_BYTES: Final = 200
PATCH_BYTES: Final = 1024 * 1024


def number_rng(seed: int, number: int) -> random.Random:
    """The generator of one proposal: it depends on the study's seed and the proposal's number
    and on nothing that was drawn before, so a resume has nothing to restore."""
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def ask(
    proposer: Proposer,
    history: History,
    *,
    space: SearchSpace,
    count: int,
    seed: int,
    state: bytes | None,
) -> Proposals:
    """Call the proposer and hand on what it gives, if it keeps to its contract.

    Raises:
        ProposerFailed: it raised, or returned too many proposals, a point outside the space or
            something of the wrong type; the message says which.
    """
    try:
        proposals = proposer.propose(history, count=count, seed=seed, state=state)
    except ProposerFailed:  # it says itself what happened
        raise
    # A proposer is someone else's code: it may raise anything, even ask the process to exit.
    except (Exception, SystemExit) as error:
        raise ProposerFailed(f"it raised {type(error).__name__}: {error}") from error
    fault = _fault(proposals, space, count)
    if fault is not None:
        raise ProposerFailed(fault)
    return proposals


def _fault(returned: object, space: SearchSpace, count: int) -> str | None:
    if not isinstance(returned, Proposals):
        return f"it returned {_kind(returned)}; write Proposals(items=[…], state=…)"
    items: object = returned.items
    state: object = returned.state
    if not isinstance(items, list | tuple):
        return f"items is {_kind(items)}; write a list of proposals"
    if len(items) > count:
        return f"it returned {len(items)} proposals where {count} were asked for"
    if not isinstance(state, bytes | None):
        return f"state is {_kind(state)}; write bytes or None"
    if state is not None and len(state) > STATE_BYTES:
        return f"state has {len(state)} bytes; at most {STATE_BYTES} are kept"
    found = (_proposal_fault(item, space) for item in items)
    return next(
        (f"proposal {n} of {len(items)}: {fault}" for n, fault in enumerate(found, 1) if fault),
        None,
    )


def _proposal_fault(proposal: object, space: SearchSpace) -> str | None:
    if not isinstance(proposal, Proposal):
        return f"it is {_kind(proposal)}; write Proposal(params={{…}})"
    params: object = proposal.params
    if not isinstance(params, Mapping):
        return f"params is {_kind(params)}; write a mapping of names to values"
    if not _is_text(proposal.rationale, RATIONALE_BYTES):
        return f"rationale must be text of at most {RATIONALE_BYTES} bytes"
    if proposal.parent_id is not None and not _is_text(proposal.parent_id, ID_BYTES):
        return "parent_id must be a candidate's id or None"
    if proposal.patch is not None and not _is_text(proposal.patch, PATCH_BYTES):
        return f"patch must be text of at most {PATCH_BYTES} bytes"
    return "; ".join(faults(space, params)) or None


def _is_text(value: object, limit: int) -> bool:
    return isinstance(value, str) and len(value.encode(errors="replace")) <= limit


def _kind(value: object) -> str:
    return type(value).__name__
