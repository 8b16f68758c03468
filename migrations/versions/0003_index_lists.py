"""Index trials by outcome, value and order of finishing, and entries by kind: what the
service's lists and plots read, however many trials a study has.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_trials_study_id_state", "trials")
    op.create_index(
        "ix_trials_study_id_outcome", "trials", ["study_id", "state", "kind", "verdict", "reason"]
    )
    op.create_index(
        "ix_trials_study_id_value",
        "trials",
        ["study_id", "value", "number"],
        sqlite_where=sa.text("value IS NOT NULL"),
        postgresql_where=sa.text("value IS NOT NULL"),
    )
    op.create_index(
        "ix_trials_study_id_finish_seq",
        "trials",
        ["study_id", "finish_seq", "kind", "state", "verdict", "value", "number"],
        sqlite_where=sa.text("finish_seq IS NOT NULL"),
        postgresql_where=sa.text("finish_seq IS NOT NULL"),
    )
    op.create_index("ix_entries_chain_kind_seq", "entries", ["chain", "kind", "seq"])
