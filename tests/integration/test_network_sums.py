"""What a study's attempts asked of the network is summed once, and then only what is new."""

from collections.abc import Iterator, Mapping

import pytest

from controller.documents import network
from controller.documents.network import NetworkSums, network_document
from ledger import reads
from ledger.database import Ledger, ReadSession
from ledger.digests import json_digest
from ledger.entries import NetworkRequested
from ledger.records import Json, Study
from tests.ledger_builders import SPEC, Driven, claim, submit

REACHING: Mapping[str, Json] = {**SPEC, "target": {"egress": ["a.org:443"]}}


@pytest.fixture
def study(ledger: Ledger) -> Driven:
    submit(ledger, "s1", spec=REACHING)
    return Driven(ledger, "s1", claim(ledger, "s1"))


def asked(study: Driven, number: int, *hosts: str) -> None:
    """One batch of an attempt; the second request of each is refused."""
    requests: tuple[dict[str, Json], ...] = tuple(
        {
            "host": host,
            "port": 443,
            "allowed": place != 1,
            "detail": "",
            "sent": 10,
            "received": 20,
        }
        for place, host in enumerate(hosts)
    )
    study.record(
        NetworkRequested(
            attempt_id=study.train(number),
            trial_id=study.trial(number),
            sequence=0,
            count=len(requests),
            refused=sum(1 for one in requests if not one["allowed"]),
            sent_bytes=10 * len(requests),
            received_bytes=20 * len(requests),
            digest=json_digest(list(requests)),
            requests=requests,
        )
    )


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which place of the chain on requests are read, each time they are."""
    found: list[int] = []
    read = network.read_requests

    def noting(
        session: ReadSession, study: Study, *, after: int = 0
    ) -> Iterator[NetworkRequested]:
        found.append(after)
        return read(session, study, after=after)

    monkeypatch.setattr(network, "read_requests", noting)
    return found


def document(study: Driven, sums: NetworkSums | None) -> dict[str, Json] | None:
    with study.ledger.read() as session:
        return network_document(session, reads.get_study(session, "s1"), sums)


def test_sums_that_were_kept_are_those_of_the_whole_chain(study: Driven) -> None:
    sums = NetworkSums()
    study.run_study()
    for number in range(3):
        study.whole_trial(number, 0.5)
        asked(study, number, "a.org", "b.org")
        assert document(study, sums) == document(study, None)
    found = document(study, sums)
    assert found is not None
    assert (found["count"], found["refused"], found["sent_bytes"]) == (6, 3, 60)


def test_only_what_is_new_is_read(study: Driven, places: list[int]) -> None:
    sums = NetworkSums()
    study.run_study()
    study.whole_trial(0, 0.5)
    asked(study, 0, "a.org")
    document(study, sums)
    head = head_of(study)
    document(study, sums)
    asked(study, 0, "b.org")
    document(study, sums)
    assert places == [0, head]


def test_a_session_that_began_before_sees_what_there_was_then(study: Driven) -> None:
    sums = NetworkSums()
    study.run_study()
    study.whole_trial(0, 0.5)
    with study.ledger.read() as session:
        then = reads.get_study(session, "s1")
        asked(study, 0, "a.org")
        document(study, sums)
        earlier = network_document(session, then, sums)
    assert earlier is not None
    assert earlier["count"] == 0
    later = document(study, sums)
    assert later is not None
    assert later["count"] == 1


def head_of(study: Driven) -> int:
    with study.ledger.read() as session:
        return reads.get_study(session, "s1").head_seq
