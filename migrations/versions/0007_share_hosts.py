"""Record what trials hold of each host, which studies wait for it, and which workers serve."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pool_holds",
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("micro_cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpu_ids", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_pool_holds_study_id")),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_pool_holds")),
    )
    op.create_index("ix_pool_holds_host", "pool_holds", ["host"])
    op.create_index("ix_pool_holds_study_id", "pool_holds", ["study_id"])
    op.create_table(
        "pool_gpus",
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("gpu_id", sa.String(length=100), nullable=False),
        sa.Column("trial_id", sa.String(length=96), nullable=False),
        sa.PrimaryKeyConstraint("host", "gpu_id", name=op.f("pk_pool_gpus")),
    )
    op.create_index("ix_pool_gpus_trial_id", "pool_gpus", ["trial_id"])
    op.create_table(
        "pool_wants",
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("used", sa.Double(), nullable=False),
        sa.Column("expected_s", sa.Double(), nullable=False),
        sa.Column("waits_since", sa.Double(), nullable=True),
        sa.Column("micro_cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_pool_wants_study_id")),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_pool_wants")),
    )
    op.create_index("ix_pool_wants_host", "pool_wants", ["host"])
    op.create_table(
        "workers",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_workers")),
    )
