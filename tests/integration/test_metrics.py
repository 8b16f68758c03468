"""What Prometheus reads of the ledger: what it says, and that no history makes it dear."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import event

from controller.api.metrics import Metrics
from controller.wiring import Service
from ledger import endings, writes
from ledger.endings import Ended, EndingCounts
from ledger.gauges import read_gauges
from ledger.records import CommandVerb
from tests.acceptance.shell_study import drive, open_service, submit

GROWS = r"(trials|attempts|entries|candidates|value_batches|artifacts)\b"


@dataclass(frozen=True)
class Lived:
    """A ledger in which two studies ran after these had looked at it for the first time."""

    service: Service
    metrics: Metrics
    counts: list[EndingCounts]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    base = tmp_path_factory.mktemp("lived")
    service = open_service(base)
    metrics, counts = Metrics(service), [EndingCounts(), EndingCounts()]
    assert not [name for name in read(metrics) if "_ended_total" in name]
    for one in counts:
        assert not look(service, one).trials
    broken = {"kind": "command", "argv": ["/bin/sh", "-c", "exit 3"]}
    for changes in ({"program": broken}, {"budget": {"trials": 1}}):
        study = submit(service, base, **changes)
        assert read(metrics)["arl_studies_unclaimed"] == 1
        drive(service, study)
    yield Lived(service, metrics, counts)
    service.close()


def read(metrics: Metrics) -> dict[str, float]:
    lines = metrics.text().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def look(service: Service, counts: EndingCounts) -> Ended:
    with service.ledger.read() as session:
        return counts.look(session)


def test_what_ended_is_counted_by_why_from_the_first_look_on(lived: Lived) -> None:
    found = read(lived.metrics)
    why = 'fault="candidate",kind="baseline",reason="exit_nonzero",state="failed"'
    assert found[f"arl_trials_ended_total{{{why}}}"] >= 1
    fine = 'fault="none",kind="baseline",reason="measured",state="complete"'
    assert found[f"arl_trials_ended_total{{{fine}}}"] == 2
    assert found['arl_studies_ended_total{reason="baseline_failed",state="failed"}'] == 1
    assert found["arl_worker_claims_total"] == 2
    assert found["arl_studies_unclaimed"] == 0
    assert read(lived.metrics)[f"arl_trials_ended_total{{{fine}}}"] == 2, "counted once"
    later = read(Metrics(lived.service))
    assert not [name for name in later if "_ended_total" in name], "it began to look just now"


def test_what_waits_is_told_with_its_age_its_budget_and_who_drives_it(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study = submit(service, tmp_path, budget={"trials": 7})
    with service.ledger.write() as session:
        writes.claim_study(session, study, "host-7/1/2", 60.0, dead=False)
    with service.ledger.write() as session:
        writes.insert_command(session, study, CommandVerb.PAUSE, {}, "me")
    found = read(Metrics(service))
    service.close()
    assert found['arl_workers{host="host-7",state="driving"}'] == 1
    assert 50 < found["arl_lease_remaining_seconds"] <= 60
    assert found["arl_studies_unclaimed"] == 0
    assert found["arl_commands_pending"] == 1
    assert 0 <= found["arl_command_oldest_seconds"] < 60
    assert found[f'arl_budget_limit{{resource="trials",study="{study}"}}'] == 7
    assert found["arl_ledger_size_bytes"] > 100_000
    assert 0 < found["arl_disk_free_bytes"] < found["arl_disk_size_bytes"]
    assert any(name.startswith("arl_build_info{") for name in found)


def test_a_worker_with_nothing_to_do_is_told_of_until_it_was_silent_for_a_lease(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path)
    study = submit(service, tmp_path)
    with service.ledger.write() as session:
        for owner in ("host-7/1/2", "host-7/1/3", "host-8/1/4"):
            writes.see_worker(session, owner, owner.split("/")[0], 900.0)
        writes.claim_study(session, study, "host-7/1/2", 60.0, dead=False)
    told = {name: value for name, value in read(Metrics(service)).items() if "_workers{" in name}
    with service.ledger.write() as session:
        writes.forget_worker(session, "host-8/1/4")
    assert told == {
        'arl_workers{host="host-7",state="driving"}': 1,
        'arl_workers{host="host-7",state="idle"}': 1,
        'arl_workers{host="host-8",state="idle"}': 1,
    }
    assert 'arl_workers{host="host-8",state="idle"}' not in read(Metrics(service))
    with service.ledger.read() as session:
        silent = read_gauges(session, 0.0).driven.workers
    service.close()
    assert silent == {("host-7", "driving"): 1}


def test_a_failure_that_alerts_wait_for_is_told_before_the_first_one(lived: Lived) -> None:
    found = read(Metrics(lived.service))
    for state, reason, fault in (
        ("lost", "attempt_lost", "infrastructure"),
        ("rejected", "evaluator_error", "evaluator"),
    ):
        labels = f'fault="{fault}",reason="{reason}",state="{state}"'
        assert found[f"arl_attempts_failed_total{{{labels}}}"] == 0


def test_a_long_history_is_counted_in_several_looks(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "MOST", 3)
    seen = [look(lived.service, lived.counts[0]) for _ in range(10)]
    trials = [sum(ended.trials.values()) for ended in seen]
    assert trials == sorted(trials)
    assert trials[0] < trials[-1]
    assert seen[-1] == look(lived.service, lived.counts[0])
    monkeypatch.undo()
    assert seen[-1] == look(lived.service, lived.counts[1]), "as in one look"


@contextmanager
def statements(service: Service) -> Iterator[list[tuple[str, object]]]:
    """What is asked of the database meanwhile."""
    said: list[tuple[str, object]] = []

    def note(_c: object, _cursor: object, text: str, values: object, *_: object) -> None:
        said.append((text, values))

    reader = service.ledger._reader
    event.listen(reader, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(reader, "before_cursor_execute", note)


def test_the_metrics_scan_no_table_that_grows_with_trials(lived: Lived) -> None:
    service, counts = lived.service, EndingCounts()
    look(service, counts)
    assert counts._heads is not None
    counts._heads = dict.fromkeys(counts._heads, 0)
    with statements(service) as said, service.ledger.read() as session:
        read_gauges(session, 30.0)
        counts.look(session)
        asked = [one for one in said if one[0].startswith("SELECT")]
        assert any("entries" in text for text, _ in asked)
        for text, values in asked:
            plan = session.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)  # type: ignore[arg-type]  # as it was executed
            for row in plan:
                assert re.search(rf"SCAN {GROWS}", row[3]) is None, (row[3], text)
                found = re.search(rf"SEARCH {GROWS} .*\((.*)\)", row[3])
                assert found is None or " AND " in found[2], "all of a study's: " + row[3]
