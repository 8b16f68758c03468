"""What attempts asked of the network, as a document."""

import copy
from collections.abc import Mapping
from typing import Final

from ledger.database import ReadSession
from ledger.entries import NetworkRequested
from ledger.network_reads import may_reach_hosts, read_requests
from ledger.recent import Recent
from ledger.records import Json, Study

_HOSTS_SHOWN: Final = 100
_OTHERS: Final = "others"
_KEPT: Final = 500
"""Studies whose sums a process keeps."""


class Tally:
    """What went to one host, or to all."""

    def __init__(self) -> None:
        self.count = self.refused = self.sent = self.received = 0
        self.why = ""
        """Of the last one that was refused."""

    def add(self, request: Mapping[str, Json]) -> None:
        self.count += 1
        self.sent += _number(request["sent"])
        self.received += _number(request["received"])
        if not request["allowed"]:
            self.refused += 1
            self.why = str(request["detail"])

    def document(self) -> dict[str, Json]:
        return {
            "count": self.count,
            "refused": self.refused,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
        }


def _number(value: Json) -> int:
    return int(value) if isinstance(value, int | float) else 0


class _Sums:
    """Of all that a study's attempts asked, up to a place in its chain."""

    def __init__(self) -> None:
        self.last = 0
        self.every = Tally()
        self.hosts: dict[str, Tally] = {}
        self.preparing: list[Json] = []

    def add(self, batch: NetworkRequested) -> None:
        """A flood, and hosts past the first hundred, are others."""
        self.every.count += batch.count
        self.every.refused += batch.refused
        self.every.sent += batch.sent_bytes
        self.every.received += batch.received_bytes
        if not batch.requests:
            flood = self.hosts.setdefault(_OTHERS, Tally())
            flood.count += batch.count
            flood.refused += batch.refused
            flood.sent += batch.sent_bytes
            flood.received += batch.received_bytes
        for request in batch.requests:
            name = f"{request['host']}:{request['port']}" if request["host"] else "none"
            if name not in self.hosts and len(self.hosts) >= _HOSTS_SHOWN:
                name = _OTHERS
            self.hosts.setdefault(name, Tally()).add(request)
        if batch.trial_id is None:
            self.preparing += _listed(batch)

    def document(self, requests: list[Json]) -> dict[str, Json]:
        return {
            **self.every.document(),
            "hosts": {host: tally.document() for host, tally in self.hosts.items()},
            "requests": requests,
        }


class NetworkSums:
    """Those of studies that are asked for again and again: only what is new is read. Safe to share
    between threads."""

    def __init__(self) -> None:
        self._known: Recent[_Sums] = Recent(_KEPT)

    def of(self, session: ReadSession, study: Study) -> _Sums:
        """As this session sees the study."""
        known = self._known.find(study.id)
        if known is None or known.last > study.head_seq:
            known = _Sums()
        if known.last == study.head_seq:
            return known
        found = copy.deepcopy(known)
        for batch in read_requests(session, study, after=known.last):
            found.add(batch)
        found.last = study.head_seq
        self._known.keep(study.id, found)
        return found


def network_document(
    session: ReadSession, study: Study, sums: NetworkSums | None = None
) -> dict[str, Json] | None:
    """Sums, by host too, and every request of its preparing; null where a study reaches no
    host. `sums`, of a process that asks again and again, save reading all of it."""
    if not may_reach_hosts(study):
        return None
    found = (sums or NetworkSums()).of(session, study)
    return found.document(found.preparing)


def trial_network_document(
    session: ReadSession, study: Study, trial_id: str
) -> dict[str, Json] | None:
    """The same of one trial, with every request; null where its study reaches no host."""
    if not may_reach_hosts(study):
        return None
    found = _Sums()
    requests: list[Json] = []
    for batch in read_requests(session, study, trial_id):
        found.add(batch)
        requests += _listed(batch)
    return found.document(requests)


def _listed(batch: NetworkRequested) -> list[Json]:
    return [{"attempt": batch.attempt_id, **request} for request in batch.requests]
