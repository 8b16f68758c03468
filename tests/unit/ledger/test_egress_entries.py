"""An entry about network requests agrees with itself, or is refused."""

from dataclasses import replace
from typing import Any

import pytest

from ledger.digests import canonical_json, json_digest
from ledger.entries import NetworkRequested, payload
from ledger.errors import InvalidInput
from ledger.hydration import parse_entry
from ledger.project_network import project_requests

NOWHERE: Any = None
"""The rows that it changes: none."""


def requested(*allowed: bool) -> NetworkRequested:
    requests = tuple({"host": "a.org", "port": 443, "allowed": one} for one in allowed)
    return NetworkRequested(
        attempt_id="s1-2.t-0",
        trial_id="s1-2",
        sequence=0,
        count=len(requests),
        refused=sum(1 for one in allowed if not one),
        sent_bytes=10,
        received_bytes=20,
        digest=json_digest(list(requests)),
        requests=requests,
    )


def test_what_agrees_is_taken_and_comes_back_as_it_was() -> None:
    entry = requested(True, False)
    project_requests(entry, NOWHERE)
    again = parse_entry(entry.kind, payload(entry))
    assert again == entry
    assert canonical_json(payload(entry)).count("a.org") == 2


def test_a_flood_has_sums_and_a_digest_and_no_requests() -> None:
    flood = replace(requested(False), count=9000, refused=8999, requests=())
    project_requests(flood, NOWHERE)
    assert parse_entry(flood.kind, payload(flood)) == flood


@pytest.mark.parametrize("change", [{"count": 3}, {"refused": 0}, {"digest": "0" * 64}])
def test_a_sum_or_digest_that_disagrees_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="network_requested"):
        project_requests(replace(requested(True, False), **change), NOWHERE)


def test_a_request_that_was_changed_is_refused() -> None:
    entry = requested(True, False)
    forged = ({**entry.requests[0], "host": "b.org"}, entry.requests[1])
    with pytest.raises(InvalidInput, match="digest"):
        project_requests(replace(entry, requests=forged), NOWHERE)
