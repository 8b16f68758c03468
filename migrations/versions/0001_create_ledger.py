"""Create the ledger: its tables, its two singleton rows, and the triggers on what only grows."""

import time
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("entries", "incumbents", "holdout_uses")


def upgrade() -> None:
    op.create_table(
        "entries",
        sa.Column("chain", sa.String(length=96), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("chain", "seq", name=op.f("pk_entries")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "incumbents",
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("family_id", sa.String(length=96), nullable=True),
        sa.Column("comparison", sa.String(length=64), nullable=False),
        sa.Column("approver", sa.String(length=200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model", "seq", name=op.f("pk_incumbents")),
    )
    op.create_table(
        "ledger",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
    )
    op.create_table(
        "service_head",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_head")),
    )
    op.create_table(
        "studies",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("paused_by", sa.String(length=32), nullable=True),
        sa.Column("paused_from", sa.String(length=32), nullable=True),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_digest", sa.String(length=64), nullable=False),
        sa.Column("bundle_digest", sa.String(length=64), nullable=False),
        sa.Column("comparison", sa.String(length=64), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("active_s", sa.Double(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.Column("head_seq", sa.BigInteger(), nullable=False),
        sa.Column("head_digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )
    op.create_index(op.f("ix_studies_name"), "studies", ["name"])
    op.create_index(op.f("ix_studies_state"), "studies", ["state"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_table(
        "budgets",
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("resource", sa.String(length=32), nullable=False),
        sa.Column("amount_limit", sa.Double(), nullable=True),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("overrun", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "amount_limit IS NULL OR spent + reserved <= amount_limit + 1e-6",
            name=op.f("ck_budgets_within_limit"),
        ),
        sa.CheckConstraint(
            "spent >= 0 AND reserved >= -1e-6 AND overrun >= 0",
            name=op.f("ck_budgets_not_negative"),
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_budgets_study_id")),
        sa.PrimaryKeyConstraint("study_id", "resource", name=op.f("pk_budgets")),
    )
    op.create_table(
        "candidates",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.Column("patch", sa.Text(), nullable=True),
        sa.Column("source_digest", sa.String(length=64), nullable=True),
        sa.Column("parent_id", sa.String(length=96), nullable=True),
        sa.Column("rationale", sa.Text(), nullable=False),
        sa.Column("proposer", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_candidates_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidates")),
        sa.UniqueConstraint("study_id", "digest", name=op.f("uq_candidates_study_id_digest")),
    )
    op.create_table(
        "commands",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("verb", sa.String(length=32), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_commands_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commands")),
    )
    op.create_index("ix_commands_study_id_state", "commands", ["study_id", "state"])
    op.create_table(
        "families",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("bundle_digest", sa.String(length=64), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("candidates", sa.Text(), nullable=False),
        sa.Column("incumbent_id", sa.String(length=96), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_families_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_families")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_families_study_id_number")),
    )
    op.create_index(op.f("ix_families_state"), "families", ["state"])
    op.create_table(
        "model_calls",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("first_number", sa.Integer(), nullable=False),
        sa.Column("prompt_version", sa.String(length=32), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_model_calls_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_calls")),
    )
    op.create_index(op.f("ix_model_calls_study_id"), "model_calls", ["study_id"])
    op.create_table(
        "proposer_states",
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("first_number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_proposer_states_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_proposer_states")),
    )
    op.create_table(
        "holdout_uses",
        sa.Column("bundle_digest", sa.String(length=64), nullable=False),
        sa.Column("use_number", sa.Integer(), nullable=False),
        sa.Column("family_id", sa.String(length=96), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["family_id"], ["families.id"], name=op.f("fk_holdout_uses_family_id")
        ),
        sa.PrimaryKeyConstraint("bundle_digest", "use_number", name=op.f("pk_holdout_uses")),
        sa.UniqueConstraint("family_id", name=op.f("uq_holdout_uses_family_id")),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("candidate_id", sa.String(length=96), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("watermark", sa.Integer(), nullable=False),
        sa.Column("finish_seq", sa.Integer(), nullable=True),
        sa.Column("splits", sa.String(length=64), nullable=False),
        sa.Column("family_id", sa.String(length=96), nullable=True),
        sa.Column("stage", sa.String(length=32), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_trials_candidate_id")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_trials_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("study_id", "finish_seq", name=op.f("uq_trials_study_id_finish_seq")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_trials_study_id_number")),
    )
    op.create_index(op.f("ix_trials_candidate_id"), "trials", ["candidate_id"])
    op.create_index(op.f("ix_trials_family_id"), "trials", ["family_id"])
    op.create_index("ix_trials_study_id_kind_value", "trials", ["study_id", "kind", "value"])
    op.create_index("ix_trials_study_id_state", "trials", ["study_id", "state"])
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("trial_id", sa.String(length=96), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("attempt_index", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("handle", sa.String(length=200), nullable=True),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("timeout_s", sa.Double(), nullable=False),
        sa.Column("cause", sa.String(length=32), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("max_rss_bytes", sa.BigInteger(), nullable=True),
        sa.Column("gpu_s_reserved", sa.Double(), nullable=False),
        sa.Column("gpu_s_spent", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_attempts_study_id")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_attempts_trial_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_index("ix_attempts_study_id_state", "attempts", ["study_id", "state"])
    op.create_index(op.f("ix_attempts_trial_id"), "attempts", ["trial_id"])
    op.create_table(
        "decisions",
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("compared_with", sa.String(length=96), nullable=True),
        sa.Column("margin", sa.Double(), nullable=False),
        sa.Column("noise_floor", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_decisions_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_decisions")),
    )
    op.create_table(
        "latest_values",
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_latest_values_trial_id")
        ),
        sa.PrimaryKeyConstraint("trial_id", "metric", name=op.f("pk_latest_values")),
    )
    op.create_table(
        "artifacts",
        sa.Column("attempt_id", sa.String(length=96), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("trial_id", sa.String(length=96), nullable=True),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_artifacts_attempt_id")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_artifacts_trial_id")),
        sa.PrimaryKeyConstraint("attempt_id", "role", name=op.f("pk_artifacts")),
    )
    op.create_index(op.f("ix_artifacts_digest"), "artifacts", ["digest"])
    op.create_index(op.f("ix_artifacts_trial_id"), "artifacts", ["trial_id"])
    op.create_table(
        "evaluations",
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("split", sa.String(length=32), nullable=False),
        sa.Column("attempt_id", sa.String(length=96), nullable=False),
        sa.Column("bundle_digest", sa.String(length=64), nullable=False),
        sa.Column("artifact_digest", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("scores", sa.Text(), nullable=False),
        sa.Column("items", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_evaluations_attempt_id")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_evaluations_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", "split", name=op.f("pk_evaluations")),
    )
    op.create_index(op.f("ix_evaluations_bundle_digest"), "evaluations", ["bundle_digest"])
    op.create_table(
        "value_batches",
        sa.Column("attempt_id", sa.String(length=96), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("value_count", sa.Integer(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_value_batches_attempt_id")
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_value_batches_trial_id")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "sequence", name=op.f("pk_value_batches")),
    )
    op.create_index(op.f("ix_value_batches_trial_id"), "value_batches", ["trial_id"])
    _insert_singletons()
    if op.get_bind().dialect.name == "postgresql":
        _guard_postgres()
    else:
        _guard_sqlite()


def _insert_singletons() -> None:
    ledger = sa.table("ledger", sa.column("id"), sa.column("created_at"))
    op.execute(ledger.insert().values(id=f"ledger-{uuid.uuid4().hex}", created_at=time.time()))
    head = sa.table("service_head", sa.column("id"), sa.column("seq"), sa.column("digest"))
    op.execute(head.insert().values(id=1, seq=0, digest="0" * 64))


def _guard_sqlite() -> None:
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuse_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    # INSERT OR REPLACE deletes without firing the trigger above.
    op.execute(
        "CREATE TRIGGER entries_refuse_replace BEFORE INSERT ON entries WHEN EXISTS "
        "(SELECT 1 FROM entries WHERE chain = NEW.chain AND seq = NEW.seq) "
        "BEGIN SELECT RAISE(ABORT, 'entries is append-only'); END"
    )


def _guard_postgres() -> None:
    op.execute(
        "CREATE FUNCTION arl_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION arl_refuse_change()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION arl_refuse_change()"
        )


def downgrade() -> None:
    raise RuntimeError("the first migration has nothing to go back to")
