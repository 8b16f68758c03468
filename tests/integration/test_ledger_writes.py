"""Fences, guards, budgets and the chain, on both databases."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text

from ledger import reads, tokens, writes
from ledger.chain import GENESIS, link
from ledger.database import Ledger
from ledger.digests import json_digest, sha256_hex
from ledger.entries import (
    CommandApplied,
    InputsFrozen,
    ProposalsMade,
    StudySubmitted,
)
from ledger.errors import (
    Conflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleFence,
)
from ledger.records import CommandVerb, PausedBy, Split, Verdict
from ledger.rows import ENTRIES
from ledger.service_entries import IncumbentSet, TokenCreated, TokenRevoked
from ledger.states import (
    AttemptState,
    CandidateState,
    Reason,
    StudyState,
    TrialState,
)
from ledger.verify import verify_ledger
from tests.ledger_builders import SECRET, SPEC, claim, driven, everything, submit


def test_stale_fence_changes_nothing(ledger: Ledger) -> None:
    study = driven(ledger)
    claim(ledger, owner="w2", dead=True)
    before = everything(ledger)
    with pytest.raises(StaleFence):
        study.record(study.proposed(0), study.launching(0), active_s=5.0)
    assert everything(ledger) == before


def test_a_batch_that_fails_half_way_changes_nothing(ledger: Ledger) -> None:
    study = driven(ledger)
    before = everything(ledger)
    with pytest.raises(IllegalTransition):
        study.record(study.proposed(0), study.launching(0), study.exited(0), active_s=5.0)
    assert everything(ledger) == before


def test_an_unknown_study_is_not_found(ledger: Ledger) -> None:
    study = driven(ledger)
    study.study_id = "nobody"
    with pytest.raises(NotFound):
        study.record(study.proposed(0))


def test_another_studys_rows_cannot_be_moved(ledger: Ledger) -> None:
    ours, theirs = driven(ledger, "s1"), driven(ledger, "s2")
    ours.record(ours.proposed(0), ours.launching(0))
    started = ours.started(0)
    with pytest.raises(IllegalTransition):
        theirs.record(started)


def test_a_whole_trial_leaves_the_rows_its_entries_say(ledger: Ledger) -> None:
    study = driven(ledger)
    study.whole_trial(0, 1.5, verdict=Verdict.KEEP)
    with ledger.read() as session:
        detail = reads.get_trial(session, study.trial(0))
    assert detail.trial.state is TrialState.COMPLETE
    assert detail.trial.value == 1.5
    assert detail.trial.finish_seq == 1
    assert detail.trial.verdict is Verdict.KEEP
    assert detail.candidate.state is CandidateState.KEPT
    assert detail.candidate.params == {"lr": 0.001, "layers": 0}
    assert [a.state for a in detail.attempts] == [AttemptState.COLLECTED] * 2
    assert [e.items for e in detail.evaluations] == [(0.5, 1.5)]
    assert [(v.metric, v.step, v.value) for v in detail.latest] == [("loss", 2, 1.5)]
    assert detail.decision is not None
    assert detail.decision.margin == 0.25
    assert detail.attempts[0].wall_s == 0.5


def test_entries_are_chained_in_order(ledger: Ledger) -> None:
    study = driven(ledger)
    study.whole_trial(0, 1.5)
    with ledger.read() as session:
        rows = session.connection.execute(
            select(ENTRIES).where(ENTRIES.c.chain == "s1").order_by(ENTRIES.c.seq)
        ).all()
        head = reads.get_study(session, "s1")
    previous = GENESIS
    for number, row in enumerate(rows, start=1):
        assert row.seq == number
        assert json.loads(row.body)["seq"] == number
        previous = link(previous, row.body)
        assert row.digest == previous
    assert (head.head_seq, head.head_digest) == (len(rows), previous)
    assert [row.kind for row in rows[:3]] == [
        "study_submitted",
        "worker_claimed",
        "candidate_proposed",
    ]


def test_times_are_seconds_of_utc(ledger: Ledger) -> None:
    import time

    before = time.time()
    driven(ledger)
    with ledger.read() as session:
        created_at = reads.get_study(session, "s1").created_at
        entry = reads.list_entries(session, "s1")[0]
    assert before - 2 <= created_at <= time.time() + 2
    assert entry.at == created_at


@pytest.mark.parametrize("verb", ["UPDATE entries SET body = '{}'", "DELETE FROM entries"])
def test_the_database_itself_refuses_to_change_entries(ledger: Ledger, verb: str) -> None:
    driven(ledger)
    before = everything(ledger)
    with pytest.raises(Conflict, match="append-only"), ledger.write() as session:
        session.connection.execute(text(verb))
    assert everything(ledger) == before


@pytest.mark.parametrize("table", ["incumbents", "holdout_uses"])
def test_histories_that_only_grow_refuse_deletion(ledger: Ledger, table: str) -> None:
    study = driven(ledger)
    study.whole_trial(0, 1.0)
    study.record(study.family(), study.promotion(0))
    with ledger.write() as session:
        session.connection.execute(text("INSERT INTO holdout_uses VALUES ('b', 1, 's1-f1', 1.0)"))
    with pytest.raises(Conflict, match="append-only"), ledger.write() as session:
        session.connection.execute(text(f"DELETE FROM {table}"))


def test_sqlite_refuses_to_replace_an_entry(sqlite_ledger: Ledger) -> None:
    driven(sqlite_ledger)
    with pytest.raises(Conflict, match="append-only"), sqlite_ledger.write() as session:
        session.connection.execute(
            text("INSERT OR REPLACE INTO entries VALUES ('s1', 1, 'x', '{}', 'y')")
        )


@pytest.mark.postgres
def test_postgres_refuses_to_truncate_entries(postgres_ledger: Ledger) -> None:
    driven(postgres_ledger)
    with pytest.raises(Conflict, match="append-only"), postgres_ledger.write() as session:
        session.connection.execute(text("TRUNCATE entries"))


def test_an_evaluation_is_accepted_once(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0))
    study.record(study.started(0), study.exited(0), study.saved(0))
    study.record(study.launching(0, split=Split.SEARCH), study.started(0, split=Split.SEARCH))
    study.record(study.exited(0, split=Split.SEARCH), study.scored(0, 1.0, last=False))
    before = everything(ledger)
    with pytest.raises((Conflict, IllegalTransition)):
        study.record(study.scored(0, 2.0, last=False))
    assert everything(ledger) == before


def test_a_batch_of_values_is_accepted_once(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0))
    study.record(study.values(0, 0, [(1, "loss", 1.0)]))
    with pytest.raises(Conflict):
        study.record(study.values(0, 0, [(1, "loss", 2.0)]))
    with ledger.read() as session:
        assert [v.value for v in reads.read_values(session, study.trial(0))] == [1.0]


def test_non_finite_values_come_back_as_they_were_said(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0))
    said = [(1, "loss", float("nan")), (2, "up", float("inf")), (3, "down", float("-inf"))]
    study.record(study.values(0, 0, said))
    with ledger.read() as session:
        read = [(v.step, v.metric, repr(v.value)) for v in reads.read_values(session, "s1-t0")]
        stored = session.connection.execute(text("SELECT payload FROM value_batches")).scalar_one()
        latest = {v.metric: repr(v.value) for v in reads.get_trial(session, "s1-t0").latest}
    assert read == [(s, m, repr(v)) for s, m, v in said]
    assert latest == {"loss": "nan", "up": "inf", "down": "-inf"}

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(stored, parse_constant=refuse)[0] == [1, "loss", "nan"]


def test_an_entry_that_json_cannot_carry_is_refused(ledger: Ledger) -> None:
    study = driven(ledger)
    with pytest.raises(InvalidInput, match="candidate_proposed"):
        study.record(study.proposed(0, params={"lr": 0.1}, rationale="\ud800"))


def test_a_nul_character_does_not_break_a_row(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0, rationale="a\x00b"))
    with ledger.read() as session:
        assert reads.get_candidate(session, "s1-c0").rationale == "a\ufffdb"
    assert verify_ledger(ledger, None) == []


def test_unsealed_fields_must_match_their_digest(ledger: Ledger) -> None:
    from dataclasses import replace

    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0))
    batch = study.values(0, 0, [(1, "loss", 1.0)])
    with pytest.raises(InvalidInput, match="values"):
        study.record(replace(batch, digest="0" * 64))
    with pytest.raises(InvalidInput, match="count"):
        study.record(replace(batch, count=2))
    with pytest.raises(InvalidInput, match="patch"):
        study.record(replace(study.proposed(1, patch="x"), patch_digest="0" * 64))


class TestLeases:
    def test_a_held_study_is_not_claimed(self, ledger: Ledger) -> None:
        driven(ledger)
        with ledger.write() as session:
            assert writes.claim_study(session, "s1", "w2", 30, dead=False) is None

    def test_an_expired_lease_is_claimed_with_a_higher_fence(self, ledger: Ledger) -> None:
        study = driven(ledger)
        with ledger.write() as session:
            writes.renew_lease(session, "s1", study.fence, -1.0)
        assert claim(ledger, owner="w2") == study.fence + 1

    def test_a_dead_owners_study_is_claimed_at_once(self, ledger: Ledger) -> None:
        study = driven(ledger)
        assert claim(ledger, owner="w2", dead=True) == study.fence + 1

    def test_a_released_study_is_free(self, ledger: Ledger) -> None:
        study = driven(ledger)
        with ledger.write() as session:
            assert writes.release_lease(session, "s1", study.fence)
        with ledger.read() as session:
            assert [s.id for s in reads.claimable_studies(session)] == ["s1"]
        assert claim(ledger, owner="w2") == study.fence + 1

    def test_a_stale_worker_neither_renews_nor_releases(self, ledger: Ledger) -> None:
        study = driven(ledger)
        claim(ledger, owner="w2", dead=True)
        with pytest.raises(StaleFence), ledger.write() as session:
            writes.renew_lease(session, "s1", study.fence, 30)
        with ledger.write() as session:
            assert not writes.release_lease(session, "s1", study.fence)
        with ledger.read() as session:
            assert reads.get_study(session, "s1").lease_owner == "w2"


class TestCommands:
    def test_a_command_is_applied_once(self, ledger: Ledger) -> None:
        study = driven(ledger)
        with ledger.write() as session:
            number = writes.insert_command(session, "s1", CommandVerb.PAUSE, {}, "me")
        applied = CommandApplied(
            command_id=number,
            verb=CommandVerb.PAUSE,
            arguments={},
            actor="me",
            refused=False,
            detail="",
        )
        study.record(applied)
        with ledger.read() as session:
            assert reads.pending_commands(session, "s1") == []
        with pytest.raises(IllegalTransition, match="command"):
            study.record(applied)

    def test_a_command_for_no_study_is_not_found(self, ledger: Ledger) -> None:
        with pytest.raises(NotFound), ledger.write() as session:
            writes.insert_command(session, "nobody", CommandVerb.PAUSE, {}, "me")

    def test_a_command_makes_a_completed_study_claimable(self, ledger: Ledger) -> None:
        study = driven(ledger)
        study.run_study()
        study.move(StudyState.RUNNING, StudyState.DRAINING)
        study.move(StudyState.DRAINING, StudyState.REPLAYING)
        study.move(StudyState.REPLAYING, StudyState.COMPLETED)
        with ledger.write() as session:
            writes.release_lease(session, "s1", study.fence)
        with ledger.read() as session:
            assert reads.claimable_studies(session) == []
        with ledger.write() as session:
            writes.insert_command(session, "s1", CommandVerb.EXTEND, {"trials": 3}, "me")
        with ledger.read() as session:
            assert [s.id for s in reads.claimable_studies(session)] == ["s1"]


class TestStudies:
    def test_a_spec_must_have_its_digest(self, ledger: Ledger) -> None:
        entry = StudySubmitted(
            name="x", spec_digest="0" * 64, bundle_digest="", comparison="", seed=0, actor="me"
        )
        with pytest.raises(InvalidInput, match="spec_digest"), ledger.write() as session:
            writes.create_study(session, "s", spec=SPEC, secret=SECRET, budgets={}, entry=entry)

    def test_an_id_is_taken_once(self, ledger: Ledger) -> None:
        submit(ledger)
        with pytest.raises(Conflict):
            submit(ledger)

    def test_of_one_name_submitted_at_once_only_one_becomes_a_study(self, ledger: Ledger) -> None:
        def submit_one(number: int) -> bool:
            try:
                submit(ledger, f"s{number}", name="twice", only_unfinished=True)
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(max_workers=6) as pool:
            assert sum(pool.map(submit_one, range(6))) == 1

    def test_a_pause_remembers_and_forgets_where_it_came_from(self, ledger: Ledger) -> None:
        study = driven(ledger)
        study.run_study()
        study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.DISK_FULL, PausedBy.CONDITION)
        with ledger.read() as session:
            paused = reads.get_study(session, "s1")
        assert (paused.paused_by, paused.paused_from) == (PausedBy.CONDITION, StudyState.RUNNING)
        assert paused.reason is Reason.DISK_FULL
        study.move(StudyState.PAUSED, StudyState.RUNNING)
        with ledger.read() as session:
            resumed = reads.get_study(session, "s1")
        assert (resumed.paused_by, resumed.paused_from, resumed.reason) == (None, None, None)

    def test_a_pause_while_draining_keeps_why_it_drains(self, ledger: Ledger) -> None:
        study = driven(ledger)
        study.run_study()
        study.move(StudyState.RUNNING, StudyState.DRAINING, Reason.GOAL_REACHED)
        study.move(StudyState.DRAINING, StudyState.PAUSED, Reason.DISK_FULL)
        study.move(StudyState.PAUSED, StudyState.DRAINING)
        study.move(StudyState.DRAINING, StudyState.REPLAYING)
        study.move(StudyState.REPLAYING, StudyState.COMPLETED)
        with ledger.read() as session:
            done = reads.get_study(session, "s1")
        assert done.reason is Reason.GOAL_REACHED
        assert done.ended_at is not None
        assert verify_ledger(ledger, None) == []

    def test_inputs_and_proposer_state_are_kept(self, ledger: Ledger) -> None:
        study = driven(ledger)
        study.record(InputsFrozen(inputs={"base": "a" * 64}, report={"rows": 3}))
        for first, state in ((0, b"one"), (1, b"two")):
            study.record(
                ProposalsMade(
                    first_number=first,
                    asked=1,
                    given=1,
                    watermark=0,
                    seed=1,
                    state_digest=sha256_hex(state),
                    state=state,
                )
            )
        with ledger.read() as session:
            live = reads.load_live(session, "s1")
        assert live.study.inputs == {"base": "a" * 64}
        assert live.proposer_state == b"two"
        assert verify_ledger(ledger, None) == []


def test_only_their_own_functions_write_study_and_service_entries(ledger: Ledger) -> None:
    study = driven(ledger)
    pointer = IncumbentSet(
        model="m",
        seq=1,
        candidate_id="c",
        study_id="s1",
        family_id=None,
        comparison="c",
        approver="me",
        note="",
    )
    with pytest.raises(InvalidInput, match="incumbent_set"):
        study.record(pointer)


def test_an_idempotency_key_answers_the_same_request_again(ledger: Ledger) -> None:
    digest = json_digest({"a": 1})
    with ledger.write() as session:
        assert writes.claim_idempotency_key(session, "k", digest) is None
    with ledger.write() as session:
        running = writes.claim_idempotency_key(session, "k", digest)
        assert running is not None
        assert running.status is None
        writes.finish_idempotency_key(session, "k", 201, "{}")
    with ledger.write() as session:
        assert writes.claim_idempotency_key(session, "k", digest) == writes.StoredAnswer(201, "{}")
    with pytest.raises(InvalidInput, match="another request"), ledger.write() as session:
        writes.claim_idempotency_key(session, "k", json_digest({"a": 2}))


def _token(token_id: str) -> TokenCreated:
    return TokenCreated(
        token_id=token_id,
        name="ci",
        digest=sha256_hex(token_id.encode()),
        scopes=("read", "submit"),
        expires_at=None,
        actor="ann",
    )


def test_a_token_is_valid_until_it_is_revoked(ledger: Ledger) -> None:
    with ledger.write() as session:
        writes.append_service(session, [_token("t")])
    digest = sha256_hex(b"t")
    with ledger.read() as session:
        found = tokens.find_token(session, digest)
        assert found is not None
        assert found.is_valid(session.now())
        assert tokens.has_tokens(session)
    with ledger.write() as session:
        writes.append_service(session, [TokenRevoked(token_id="t", actor="ann")])
    with ledger.read() as session:
        found = tokens.find_token(session, digest)
        assert found is not None
        assert not found.is_valid(session.now())
        assert not tokens.has_tokens(session)
    with pytest.raises(NotFound), ledger.write() as session:
        writes.append_service(session, [TokenRevoked(token_id="nobody", actor="ann")])


def test_a_token_that_nobody_gave_out_is_found_by_verify(ledger: Ledger) -> None:
    with ledger.write() as session:
        writes.append_service(session, [_token("t")])
    assert list(verify_ledger(ledger, None)) == []
    with ledger.write() as session:
        session.connection.execute(text("UPDATE tokens SET scopes = 'admin' WHERE id = 't'"))
    assert any("tokens t" in str(finding) for finding in verify_ledger(ledger, None))
