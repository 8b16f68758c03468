"""Checks entries about network requests: they change no row and must agree with themselves."""

from ledger.digests import json_digest
from ledger.entries import NetworkRequested
from ledger.errors import InvalidInput
from ledger.projection import Projection


def project_requests(entry: NetworkRequested, _to: Projection) -> None:
    """Raises InvalidInput unless the digest and the sums are those of the requests, where they
    are given; of a flood there are only the sums."""
    if not entry.requests:
        return
    requests = list(entry.requests)
    refused = sum(1 for request in requests if not request["allowed"])
    if (entry.count, entry.refused) != (len(requests), refused):
        raise InvalidInput(
            f"network_requested: says {entry.count} requests, {entry.refused} of them refused, "
            f"and holds {len(requests)}, {refused} of them refused"
        )
    found = json_digest([dict(request) for request in requests])
    if found != entry.digest:
        raise InvalidInput(
            f"network_requested: the digest of its requests is {found}, it says {entry.digest}"
        )
