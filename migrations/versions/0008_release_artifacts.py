"""Record of artifacts that they were let go, when and why."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("artifacts", sa.Column("released_at", sa.Double(), nullable=True))
    op.add_column("artifacts", sa.Column("release_reason", sa.String(length=32), nullable=True))
    op.add_column("artifacts", sa.Column("release_policy", sa.String(length=32), nullable=True))
    released = sa.text("released_at IS NOT NULL")
    op.create_index(
        "ix_artifacts_released",
        "artifacts",
        ["digest"],
        sqlite_where=released,
        postgresql_where=released,
    )
