"""Keep what webhooks are told: how far each study was looked at, and every notification."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notify_cursors",
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_notify_cursors_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_notify_cursors")),
    )
    op.create_table(
        "notifications",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("study_id", sa.String(length=96), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("webhook", sa.String(length=2000), nullable=False),
        sa.Column("secret", sa.String(length=100), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("next_at", sa.Double(), nullable=False),
        sa.Column("tried_at", sa.Double(), nullable=True),
        sa.Column("done_at", sa.Double(), nullable=True),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_notifications_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    op.create_index("ix_notifications_created_at", "notifications", ["created_at", "id"])
    op.create_index(
        "ix_notifications_study_id_created_at", "notifications", ["study_id", "created_at", "id"]
    )
    op.create_index("ix_notifications_state", "notifications", ["state"])
    op.create_index(
        "ix_notifications_waiting",
        "notifications",
        ["study_id", "webhook", "queued_at", "seq"],
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
