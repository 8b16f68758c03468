"""What attempts asked of the network, as a document."""

from collections.abc import Iterable, Mapping

from ledger.database import ReadSession
from ledger.entries import NetworkRequested
from ledger.network_reads import may_reach_hosts, read_requests
from ledger.records import Json, Study

_HOSTS_SHOWN = 100
_OTHERS = "others"


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


def network_document(
    session: ReadSession, study: Study, trial_id: str | None = None
) -> dict[str, Json] | None:
    """Sums, by host too; null where a study reaches no host. Of a trial it has every request, of
    a study those of its preparing."""
    if not may_reach_hosts(study):
        return None
    batches = list(read_requests(session, study, trial_id))
    listed: list[Json] = [
        {"attempt": batch.attempt_id, **request}
        for batch in batches
        if trial_id is not None or batch.trial_id is None
        for request in batch.requests
    ]
    every, hosts = tallies(batches)
    return {
        **every.document(),
        "hosts": {host: tally.document() for host, tally in hosts.items()},
        "requests": listed,
    }


def tallies(batches: Iterable[NetworkRequested]) -> tuple[Tally, dict[str, Tally]]:
    """Of all, and by `host:port`; a flood, and hosts past the first hundred, are others."""
    every = Tally()
    hosts: dict[str, Tally] = {}
    for batch in batches:
        every.count += batch.count
        every.refused += batch.refused
        every.sent += batch.sent_bytes
        every.received += batch.received_bytes
        if not batch.requests:
            flood = hosts.setdefault(_OTHERS, Tally())
            flood.count += batch.count
            flood.refused += batch.refused
            flood.sent += batch.sent_bytes
            flood.received += batch.received_bytes
        for request in batch.requests:
            name = f"{request['host']}:{request['port']}" if request["host"] else "none"
            if name not in hosts and len(hosts) >= _HOSTS_SHOWN:
                name = _OTHERS
            hosts.setdefault(name, Tally()).add(request)
    return every, hosts
