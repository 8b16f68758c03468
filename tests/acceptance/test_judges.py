"""Whatever is broken, the judges say so; they share no code with what they judge."""

import ast
import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger.records import CommandVerb
from tests.acceptance import promises
from tests.acceptance.lab import Lab
from tests.acceptance.witness import Witness

HERE = Path(__file__).parent
PROPOSERS = {"proposers", "ledger"}
"""What is repeated for R, and the records that it is handed."""


@pytest.fixture
def ended(lab: Lab) -> tuple[Lab, Witness]:
    """A lab with one study that ended, of which a copy may be broken."""
    lab.run(budget={"trials": 3}, proposer={"name": "random"})
    copy = lab.base / "copy"
    shutil.copytree(lab.home, copy, ignore=shutil.ignore_patterns("supervisor*", "local"))
    return lab, Witness(str(copy / "ledger.db"), copy)


def change(witness: Witness, *statements: str) -> None:
    """Write to the copy as somebody does who has the file and no scruples."""
    with closing(sqlite3.connect(witness.address)) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type='trigger'"
        ):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement
        connection.commit()


def judged(lab: Lab, witness: Witness) -> str:
    return "\n".join(promises.broken(witness, lab.ran()))


SEARCH = "(SELECT id FROM trials WHERE kind = 'search' AND number = 3)"
CHANGES = {
    "L: trials": f"UPDATE trials SET state = 'running' WHERE id = {SEARCH}",
    "L: attempts": "UPDATE attempts SET state = 'running' WHERE kind = 'train'",
    "L: studies": "UPDATE studies SET state = 'running'",
    "B: ": "UPDATE budgets SET spent = 2 WHERE resource = 'trials'",
    "4.0 + 0": "UPDATE budgets SET spent = 4 WHERE resource = 'trials'",
    "is not what was hashed": "UPDATE entries SET body = replace(body, '\"value\":0', "
    "'\"value\":1') WHERE kind = 'trial_evaluated'",
    "comes after": "DELETE FROM entries WHERE seq = 4 AND chain != 'service'",
    "its head is": "UPDATE studies SET head_seq = head_seq - 1",
    "its chain says": f"UPDATE trials SET reason = 'crashed' WHERE id = {SEARCH}",
    "ran without an intent": "UPDATE attempts SET id = id || 'x' WHERE kind = 'evaluate'",
    "R: entry": "UPDATE entries SET body = replace(body, '\"seed\":', '\"seed\":1') "
    "WHERE kind = 'proposals_made'",
    "another state": "UPDATE entries SET body = replace(body, '\"state_digest\":null', "
    "'\"state_digest\":\"0\"') WHERE kind = 'proposals_made'",
}


def test_a_whole_ledger_breaks_no_promise_and_every_change_of_it_is_told(
    ended: tuple[Lab, Witness],
) -> None:
    lab, witness = ended
    assert judged(lab, witness) == ""
    original = Path(witness.address).read_bytes()
    for said, statement in CHANGES.items():
        change(witness, statement)
        assert said in judged(lab, witness), statement
        Path(witness.address).write_bytes(original)
    assert judged(lab, witness) == ""


def test_a_program_that_ran_twice_or_unasked_is_told(ended: tuple[Lab, Witness]) -> None:
    lab, witness = ended
    ran = lab.ran()
    assert "was started 2 times" in "\n".join(promises.broken(witness, [*ran, ran[0]]))
    assert "without an intent" in "\n".join(promises.broken(witness, [*ran, "arl-stranger"]))


def test_whatever_lies_around_and_every_damaged_file_is_told(ended: tuple[Lab, Witness]) -> None:
    lab, witness = ended
    for place in ("local/attempts/arl-x", "artifacts/incoming/half", "local/trash/1-2"):
        left = witness.home / place
        left.mkdir(parents=True)
        assert f"O: {place} is left" in judged(lab, witness)
        left.rmdir()
    environment = {**os.environ, "ARL_ATTEMPT": "stray", "ARL_OUTPUT": f"{witness.home}/x"}
    with subprocess.Popen(["sleep", "60"], env=environment) as stray:
        until = time.monotonic() + 10
        while "of attempt stray still runs" not in judged(lab, witness):
            assert time.monotonic() < until
        stray.kill()
    ((digest,),) = witness.rows("SELECT min(digest) FROM artifacts")
    stored = witness.home / "artifacts" / "objects" / digest[:2] / digest[2:]
    stored.chmod(0o600)
    stored.write_bytes(stored.read_bytes() + b" ")
    assert f"I: tree {digest} is missing or damaged" in judged(lab, witness)
    stored.unlink()
    assert f"I: tree {digest} is missing or damaged" in judged(lab, witness)


def test_a_budget_that_was_passed_for_one_moment_only_is_told() -> None:
    from tests.acceptance.budget_sums import overdrawn
    from tests.acceptance.witness import Fact

    said: list[tuple[str, dict[str, Any]]] = [
        ("study_submitted", {"budgets": {"trials": 1}}),
        ("candidate_proposed", {"trial_kind": "search"}),
        ("candidate_proposed", {"trial_kind": "search"}),
        ("trial_ended", {"trial_kind": "search", "reason": "invalid_plan"}),
        ("trial_decided", {"trial_kind": "search"}),
    ]
    facts = [Fact("s", n, kind, 0.0, payload) for n, (kind, payload) in enumerate(said)]
    nothing = (None, 0.0, 0.0, 0.0)
    stored = dict.fromkeys(("gpu_s", "llm_tokens", "llm_cost_usd"), nothing)
    found = list(overdrawn(facts, {**stored, "trials": (1, 1.0, 0.0, 0.0)}))
    assert found == ["s/2 candidate_proposed: trials: 0.0 + 2.0 > 1"]


@pytest.mark.parametrize(
    ("judge", "may"),
    [
        ("witness.py", set()),
        ("budget_sums.py", set()),
        ("promises.py", set()),
        ("reproduction.py", PROPOSERS),
    ],
)
def test_a_judge_shares_no_code_with_the_controller(judge: str, may: set[str]) -> None:
    tree = ast.parse((HERE / judge).read_text(encoding="utf-8"))
    names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    ours = {"controller", "ledger", "targets", "evaluator", "proposers", "inner_trials"}
    assert {name.partition(".")[0] for name in names} & ours <= may
    modules = {n for n in names if n.startswith("tests.")}
    assert modules <= {f"tests.acceptance.{m}" for m in ("witness", "budget_sums", "reproduction")}


def test_a_command_that_was_never_answered_is_told(ended: tuple[Lab, Witness]) -> None:
    lab, witness = ended
    insert = (
        "INSERT INTO commands (study_id, verb, arguments, actor, state, detail, created_at) "
        f"SELECT id, '{CommandVerb.PAUSE}', '{{}}', 'x', 'pending', '', 0 FROM studies"
    )
    change(witness, insert)
    assert "L: commands 1 is pending" in judged(lab, witness)
