"""`arl verify` finds damage: one flipped byte anywhere, a cut chain, a budget that is off."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from ledger import writes
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, open_ledger
from ledger.digests import sha256_hex
from ledger.entries import (
    BudgetChanged,
    CommandApplied,
    HoldoutUsed,
    ModelCallsReserved,
    ProposalsMade,
)
from ledger.heads import read_heads, write_heads
from ledger.records import CommandVerb, Resource, Verdict
from ledger.service_entries import AliasSet, IncumbentSet, PromotionSigned, SigningKeyMade
from ledger.states import Reason, StudyState, TrialState
from ledger.tables import Base
from ledger.verify import verify_ledger
from ledger.writes import append_service
from tests.ledger_builders import BUNDLE, Driven, driven

REGISTERED = (
    IncumbentSet(
        model="other",
        seq=1,
        candidate_id="s1-c0",
        study_id="s1",
        family_id="s1-f1",
        comparison="c" * 64,
        approver="gate",
        note="",
    ),
    IncumbentSet(
        model="other",
        seq=2,
        candidate_id="s1-c0",
        study_id="s1",
        family_id="s1-f1",
        comparison="c" * 64,
        approver="ann",
        note="better",
        rolled_back_to=1,
    ),
    AliasSet(model="other", alias="live", revision=1, promotion=2, actor="ann", note="now"),
    SigningKeyMade(key_id="e" * 64, public_key="PEM", actor="ann"),
    PromotionSigned(
        model="other", seq=1, number=1, tree="f" * 64, key_id="e" * 64, actor="worker"
    ),
)
"""Something in every table of the model registry."""


def fill(ledger: Ledger) -> Driven:
    """A study with something in every table that a study's chain describes."""
    study = driven(ledger, budgets={Resource.TRIALS: 10, Resource.GPU_S: 100.0})
    study.run_study()
    study.record(
        ProposalsMade(
            first_number=0,
            asked=3,
            given=3,
            watermark=0,
            seed=1,
            state_digest=sha256_hex(b"rng"),
            state=b"rng",
        )
    )
    study.whole_trial(0, 2.0)
    study.whole_trial(1, 1.0, verdict=Verdict.KEEP)
    study.record(study.proposed(2, patch="--- a\n+++ b\n"), study.launching(2, gpu_s=5.0))
    study.record(study.started(2), study.exited(2, gpu_s=3.0), active_s=7.0)
    study.record(study.ended(2, TrialState.RUNNING))
    study.record(study.proposed(3), study.launching(3, gpu_s=4.0))
    with ledger.write() as session:
        number = writes.insert_command(
            session, "s1", CommandVerb.EXTEND, {"trials": 12}, "operator"
        )
    study.record(
        CommandApplied(
            command_id=number,
            verb=CommandVerb.EXTEND,
            arguments={"trials": 12},
            actor="operator",
            refused=False,
            detail="extended",
        ),
        BudgetChanged(resource=Resource.TRIALS, limit=12),
    )
    study.record(study.family(1, candidates=("s1-c1",)))
    study.record(
        HoldoutUsed(family_id="s1-f1", bundle_digest=BUNDLE, use=1, limit=20),
        study.promotion(1),
    )
    with ledger.write() as session:
        append_service(session, REGISTERED)
    return study


def without_triggers(ledger: Ledger) -> None:
    with ledger.write() as session:
        run = session.connection.execute
        if session.dialect.name == "sqlite":
            names = run(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars()
            for name in names.all():
                run(text(f"DROP TRIGGER {name}"))
        else:
            run(text("SET session_replication_role = replica"))
            run(text("DROP FUNCTION arl_refuse_change CASCADE"))


def flipped(value: Any) -> Any:
    """The value with one byte changed, of the same type."""
    if isinstance(value, bytes | memoryview):
        data = bytearray(bytes(value))
        data[len(data) // 2] ^= 1
        return bytes(data)
    if value == "":
        return "x"
    if isinstance(value, str):
        middle = len(value) // 2
        other = "0" if value[middle] != "0" else "1"
        return value[:middle] + other + value[middle + 1 :]
    return value + 1000


# Not described by the chain: the lease, other people's pending requests, and what verify
# checks in another way (active_s against the wall-time budget).
UNCHECKED = {
    ("studies", "lease_owner"),
    ("studies", "lease_expires_at"),
    ("commands", "created_at"),
}
TABLES = (
    "studies",
    "budgets",
    "candidates",
    "trials",
    "attempts",
    "value_batches",
    "latest_values",
    "artifacts",
    "evaluations",
    "decisions",
    "proposer_states",
    "families",
    "holdout_uses",
    "incumbents",
    "model_aliases",
    "signing_keys",
    "promotion_signatures",
    "commands",
    "entries",
    "service_head",
)
CELLS = [
    (table, column.name)
    for table in TABLES
    for column in Base.metadata.tables[table].c
    if (table, column.name) not in UNCHECKED
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "ledger.db"
    ledger = open_ledger(path, create=True)
    fill(ledger)
    assert verify_ledger(ledger, None) == []
    without_triggers(ledger)
    ledger.close()
    return path


@pytest.fixture
def copied(filled: Path, tmp_path: Path) -> Iterator[Ledger]:
    """A copy of the filled ledger without its triggers: someone who can write the file."""
    path = tmp_path / "ledger.db"
    source, target = sqlite3.connect(filled), sqlite3.connect(path)
    source.backup(target)
    source.close()
    target.close()
    ledger = open_ledger(path, create=False)
    yield ledger
    ledger.close()


def tamper(ledger: Ledger, *statements: str) -> None:
    with ledger.write() as session:
        if session.dialect.name == "sqlite":
            session.connection.execute(text("PRAGMA defer_foreign_keys=ON"))
            session.connection.execute(text("PRAGMA ignore_check_constraints=ON"))
        for statement in statements:
            session.connection.exec_driver_sql(statement)


@pytest.mark.parametrize(("table", "column"), CELLS, ids=[f"{t}.{c}" for t, c in CELLS])
def test_one_changed_cell_is_found(copied: Ledger, table: str, column: str) -> None:
    with copied.read() as session:
        rows = session.connection.execute(
            text(f'SELECT rowid, "{column}" FROM {table} WHERE "{column}" IS NOT NULL')
        ).all()
        if not rows:
            rows = session.connection.execute(text(f"SELECT rowid, '' FROM {table}")).all()
    assert rows, f"{table} is empty: fill it"
    row = rows[len(rows) // 2]
    raw = sqlite3.connect(copied.where)
    raw.execute("PRAGMA ignore_check_constraints=ON")
    raw.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?', (flipped(row[1]), row[0]))
    raw.commit()
    raw.close()
    findings = verify_ledger(copied, None)
    assert findings, f"{table}.{column} was changed and nothing was found"


@pytest.mark.parametrize("table", [t for t in TABLES if t not in ("studies", "service_head")])
def test_a_deleted_row_is_found(copied: Ledger, table: str) -> None:
    raw = sqlite3.connect(copied.where)
    raw.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
    raw.commit()
    raw.close()
    assert verify_ledger(copied, None)


def test_the_first_wrong_entry_is_named(copied: Ledger) -> None:
    tamper(copied, "UPDATE entries SET body = body || ' ' WHERE chain = 's1' AND seq >= 5")
    findings = verify_ledger(copied, None)
    assert [f.where for f in findings if f.where.startswith("entries")] == ["entries s1/5"]


def test_a_gap_in_the_chain_is_named(copied: Ledger) -> None:
    tamper(copied, "DELETE FROM entries WHERE chain = 's1' AND seq = 4")
    findings = verify_ledger(copied, None)
    assert findings[0].where == "entries s1/5"
    assert findings[0].problem == "the entry after 3 is missing"


def test_a_cut_chain_with_a_forged_head_is_found_from_the_file(
    copied: Ledger, tmp_path: Path
) -> None:
    heads = tmp_path / "heads.jsonl"
    with copied.read() as session:
        write_heads(session, heads)
    tamper(
        copied,
        "DELETE FROM entries WHERE chain = 'service'",
        "DELETE FROM incumbents",
        "UPDATE service_head SET seq = 0, digest = '" + "0" * 64 + "'",
    )
    findings = verify_ledger(copied, None, heads_path=heads)
    assert any(f.where == "entries service/1" and "recorded" in f.problem for f in findings)


def test_a_study_that_vanished_is_found_from_the_file(copied: Ledger, tmp_path: Path) -> None:
    heads = tmp_path / "heads.jsonl"
    with copied.read() as session:
        write_heads(session, heads)
    raw = sqlite3.connect(copied.where)
    for table in reversed(Base.metadata.sorted_tables):
        if table.name not in ("ledger", "service_head"):
            raw.execute(f"DELETE FROM {table.name}")
    raw.execute("UPDATE service_head SET seq = 0, digest = ?", ("0" * 64,))
    raw.commit()
    raw.close()
    assert verify_ledger(copied, None) == []
    found = {f.where for f in verify_ledger(copied, None, heads_path=heads)}
    assert {"entries s1", "entries service/1"} <= found


def test_heads_are_appended_when_they_changed(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    heads = tmp_path / "heads.jsonl"
    study = driven(sqlite_ledger)
    for _ in range(2):
        with sqlite_ledger.read() as session:
            write_heads(session, heads)
    assert [h.seq for h in read_heads(heads)] == [2]
    study.record(study.proposed(0))
    with sqlite_ledger.read() as session:
        write_heads(session, heads)
    assert [h.seq for h in read_heads(heads)] == [2, 3]
    assert verify_ledger(sqlite_ledger, None, heads_path=heads) == []
    heads.write_bytes(heads.read_bytes() + b'{"chain": "s1", "se')  # a crash while appending
    assert [h.seq for h in read_heads(heads)] == [2, 3]
    study.record(study.proposed(1))
    with sqlite_ledger.read() as session:
        write_heads(session, heads)
    assert [h.seq for h in read_heads(heads)] == [2, 3, 4]
    assert verify_ledger(sqlite_ledger, None, heads_path=heads) == []


def test_a_budget_that_is_off_is_found(copied: Ledger) -> None:
    tamper(copied, "UPDATE budgets SET spent = spent - 1 WHERE resource = 'trials'")
    findings = verify_ledger(copied, None)
    assert any("add up to" in f.problem for f in findings)


def test_a_study_that_is_over_sets_nothing_aside_for_a_model(sqlite_ledger: Ledger) -> None:
    study = driven(sqlite_ledger)
    study.run_study()
    study.record(ModelCallsReserved(first_number=0, tokens=100.0, cost_usd=0.5))
    assert verify_ledger(sqlite_ledger, None) == []
    study.move(StudyState.RUNNING, StudyState.CANCELLED, Reason.CANCELLED_BY_OPERATOR)
    found = [f.problem for f in verify_ledger(sqlite_ledger, None)]
    assert found == [
        "reserved is 0.5, its rows add up to 0",
        "reserved is 100, its rows add up to 0",
    ]


def test_wall_time_must_agree_with_its_budget(copied: Ledger) -> None:
    tamper(copied, "UPDATE studies SET active_s = active_s + 100")
    assert any(f.where == "budgets s1/wall_s" for f in verify_ledger(copied, None))


def test_a_forged_promotion_is_found(copied: Ledger) -> None:
    tamper(copied, "UPDATE incumbents SET candidate_id = 's1-c0'")
    assert any(f.where == "incumbents demo-model/1" for f in verify_ledger(copied, None))


def test_a_raised_score_is_found(copied: Ledger) -> None:
    tamper(copied, "UPDATE trials SET value = 0.001 WHERE id = 's1-t0'")
    findings = verify_ledger(copied, None)
    assert [f.where for f in findings] == ["trials s1-t0"]
    assert findings[0].problem == "value is 0.001, the chain says 2.0"


def test_a_damaged_artifact_is_found(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    weights = tmp_path / "model"
    weights.mkdir()
    (weights / "weights.bin").write_bytes(b"12345")
    tree = store.put_tree(weights)
    study = driven(sqlite_ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0), study.exited(0))
    study.record(study.saved(0, digest=tree))
    found = verify_ledger(sqlite_ledger, store)
    assert [f.where for f in found] == ["studies s1 bundle"], "only the made-up bundle is missing"
    digest = store.manifest(tree)[0][3]
    stored = tmp_path / "store" / "objects" / digest[:2] / digest[2:]
    stored.chmod(0o644)
    stored.write_bytes(b"12346")
    found = verify_ledger(sqlite_ledger, store)
    assert "artifacts s1-t0-train0" in [f.where for f in found]


def test_a_flipped_byte_of_the_file_itself_is_found_or_harmless(
    filled: Path, tmp_path: Path
) -> None:
    """Every byte of a page may be hit: then it is reported, or no row reads differently."""
    clean = tmp_path / "clean.db"
    source, target = sqlite3.connect(filled), sqlite3.connect(clean)
    source.backup(target)
    source.close()
    target.close()
    whole = clean.read_bytes()
    reference = dump(clean)
    found = 0
    written = [position for position in range(100, len(whole)) if whole[position]]
    for position in written[:: len(written) // 60]:
        path = tmp_path / f"flip{position}.db"
        damaged = bytearray(whole)
        damaged[position] ^= 0x04
        path.write_bytes(bytes(damaged))
        if problems(path):
            found += 1
        else:
            assert dump(path) == reference, f"byte {position} changed a row and was not found"
        path.unlink()
    assert found > 10


def problems(path: Path) -> list[str]:
    from ledger.errors import ArlError

    try:
        ledger = open_ledger(path, create=False)
    except ArlError as error:
        return [str(error)]
    try:
        return [str(f) for f in verify_ledger(ledger, None)]
    finally:
        ledger.close()


def dump(path: Path) -> list[Any]:
    raw = sqlite3.connect(path)
    try:
        return [
            raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in TABLES
            if table != "commands"
        ]
    finally:
        raw.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trials SET value = 0.001 WHERE id = 's1-t0'",
        "UPDATE evaluations SET scores = '{\"loss\":0.001}' WHERE trial_id = 's1-t0'",
        "UPDATE entries SET body = replace(body, '2.0', '2.5') WHERE chain = 's1'",
        "DELETE FROM entries WHERE chain = 's1' AND seq = (SELECT max(seq) FROM entries)",
        "UPDATE candidates SET params = '{\"lr\":1.0}' WHERE id = 's1-c0'",
        "UPDATE budgets SET spent = 0 WHERE resource = 'trials'",
    ],
)
def test_both_databases_are_checked(ledger: Ledger, statement: str) -> None:
    fill(ledger)
    assert verify_ledger(ledger, None) == []
    without_triggers(ledger)
    if "max(seq)" in statement:
        statement = "DELETE FROM entries WHERE chain = 's1' AND seq = 5"
    tamper(ledger, statement)
    assert verify_ledger(ledger, None)


def test_progress_is_told(sqlite_ledger: Ledger) -> None:
    driven(sqlite_ledger)
    said: list[str] = []
    tell: Callable[[str], None] = said.append
    assert verify_ledger(sqlite_ledger, None, progress=tell) == []
    assert "rows of study s1" in said
