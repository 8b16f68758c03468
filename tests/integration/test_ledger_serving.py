"""What is served under a name is a history without gaps, and one of two switches at once wins."""

import threading
from dataclasses import replace

import pytest

from ledger import reads, serving, writes
from ledger.chain import SERVICE_CHAIN
from ledger.database import Ledger
from ledger.errors import Conflict
from ledger.hydration import parse_entry
from ledger.records import Split
from ledger.service_entries import ServingFailed, ServingJudged, ServingSet
from ledger.verify import verify_ledger

ENTRY = ServingSet(
    name="m",
    seq=1,
    served_as="m@aaaaaaaaaaaa",
    endpoint="http://host:8000",
    candidate_id="c",
    study_id="s",
    artifact_digest="a" * 64,
    judged=None,
    actor="ann",
    note="",
)
JUDGED = ServingJudged(
    name="m",
    served_as="m@aaaaaaaaaaaa",
    endpoint="http://host:8000",
    candidate_id="c",
    study_id="s",
    artifact_digest="a" * 64,
    form="adapter",
    bundle_digest="b" * 64,
    splits=(Split.HOLDOUT_A, Split.HOLDOUT_B),
    margin=0.02,
    shadow=False,
    passed=True,
    value=0.5,
    scores={"exact_match": 0.5},
    items=200,
    comparisons=({"against": "incumbent", "difference": 0.25, "holds": True},),
    measured={"candidate": {"latency_p50_s": 0.1}},
    answers_digest="d" * 64,
    actor="ann",
)


def served(ledger: Ledger, name: str = "m") -> ServingSet | None:
    with ledger.read() as session:
        found = serving.find_served(session, name)
    return None if found is None else found.entry


def append(ledger: Ledger, entry: ServingSet) -> None:
    with ledger.write() as session:
        serving.append_served(session, entry)


def test_the_latest_of_each_name_is_what_it_serves(ledger: Ledger) -> None:
    assert served(ledger) is None
    append(ledger, ENTRY)
    append(ledger, replace(ENTRY, name="n"))
    second = replace(ENTRY, seq=2, served_as="m@bbbbbbbbbbbb")
    append(ledger, second)
    assert served(ledger) == second
    assert served(ledger, "n") == replace(ENTRY, name="n")
    assert list(verify_ledger(ledger, None)) == []


def test_who_comes_second_is_told_who_was_first(ledger: Ledger) -> None:
    append(ledger, ENTRY)
    for seq in (1, 3):
        with pytest.raises(Conflict, match=r"number 1 \(m@aaaaaaaaaaaa\)"):
            append(ledger, replace(ENTRY, seq=seq, served_as="m@cccccccccccc"))
    assert served(ledger) == ENTRY


def test_of_many_switches_at_once_one_wins(ledger: Ledger) -> None:
    won, lost = [], []

    def switch(number: int) -> None:
        entry = replace(ENTRY, served_as=f"m@{number:012x}")
        try:
            append(ledger, entry)
            won.append(entry)
        except Conflict:
            lost.append(entry)

    threads = [threading.Thread(target=switch, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert served(ledger) == won[0]


def test_gates_are_read_back_as_they_were_written(ledger: Ledger) -> None:
    with ledger.write() as session:
        number = serving.append_judged(session, JUDGED)
        failed = ServingFailed(
            name="m",
            served_as="m@b",
            endpoint="http://host:8000",
            stage="switch",
            detail="gone",
            actor="ann",
        )
        serving.append_failed(session, failed)
        again = serving.append_judged(session, replace(JUDGED, value=0.75))
        serving.append_judged(session, replace(JUDGED, name="n"))
    with ledger.read() as session:
        entries = reads.list_entries(session, SERVICE_CHAIN)
    found = [
        (entry.seq, parse_entry(entry.kind, entry.payload))
        for entry in entries
        if entry.kind == ServingJudged.kind
    ]
    assert found[:2] == [(number, JUDGED), (again, replace(JUDGED, value=0.75))]
    assert list(verify_ledger(ledger, None)) == []


def test_a_gap_in_what_a_name_served_is_found_by_verify(ledger: Ledger) -> None:
    append(ledger, ENTRY)
    with ledger.write() as session:
        writes.append_service(session, [replace(ENTRY, seq=3)])
    (finding,) = verify_ledger(ledger, None)
    assert "number 3 comes where 2 should" in finding.problem
