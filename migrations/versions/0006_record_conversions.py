"""Record conversions of promoted models, how each was judged, and what was measured of them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "conversions",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(length=96), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("method", sa.String(length=32), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("digests", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("artifact_digest", sa.String(length=64), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_conversions_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_conversions_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversions")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_conversions_study_id_number")),
    )
    op.create_index("ix_conversions_candidate_id", "conversions", ["candidate_id"])
    op.create_table(
        "measurements",
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("attempt_id", sa.String(length=96), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_measurements_attempt_id")
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_measurements_trial_id")
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_measurements")),
    )
