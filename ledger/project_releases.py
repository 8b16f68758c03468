"""Row changes of the entry that an artifact was let go."""

from typing import Final

from sqlalchemy import bindparam, func, select, update

from ledger.errors import Conflict
from ledger.projection import Projection, printable
from ledger.retention_entries import ArtifactReleased
from ledger.statements import Row, Statement
from ledger.tables import Base

_ARTIFACTS: Final = Base.metadata.tables["artifacts"]
_KEY: Final = (
    _ARTIFACTS.c.attempt_id == bindparam("by_attempt_id"),
    _ARTIFACTS.c.role == bindparam("by_role"),
    _ARTIFACTS.c.digest == bindparam("by_digest"),
)
_KEPT: Final = Statement(
    select(func.count()).where(*_KEY, _ARTIFACTS.c.released_at.is_(None)),
)
_RELEASE: Final = Statement(
    update(_ARTIFACTS)
    .where(*_KEY)
    .values(
        released_at=bindparam("released_at"),
        release_reason=bindparam("release_reason"),
        release_policy=bindparam("release_policy"),
    )
)


def project_release(entry: ArtifactReleased, to: Projection) -> None:
    """Raises Conflict for what was never recorded, or was let go before."""
    to.apply()  # it may have been recorded in the same batch
    key: Row = {
        "by_attempt_id": entry.attempt_id,
        "by_role": str(entry.role),
        "by_digest": entry.digest,
    }
    if to.session.fetch(_KEPT, key)[0][0] != 1:
        raise Conflict(
            f"artifact {entry.digest[:12]} of {entry.attempt_id} is not kept, so it cannot be "
            "let go"
        )
    released: Row = {
        **key,
        "released_at": to.at,
        "release_reason": str(entry.reason),
        "release_policy": printable(entry.policy)[:32],
    }
    to.add(_RELEASE, released, entry.attempt_id, entry.trial_id)
