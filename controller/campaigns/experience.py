"""Records of experience as stored Parquet trees: a sibling of the trial's rollout record.

Columns that both have (`inner_trials.rollout_columns`) have the same names, types and
meanings. What only a trainer knows of its own samples is not here; what only an outsider's answer
has is: the row as text, the source, the policy that answered, and the consent.
"""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from controller.campaigns.records import Record
from inner_trials.rollout_columns import rollout_schema
from ledger.artifacts import ArtifactStore
from ledger.campaign_entries import ExperienceTakenIn
from ledger.errors import InvalidInput

TRAINING: Final = "training.parquet"
HELD_OUT: Final = "held_out.parquet"
MODE: Final = 0o644
_SHARED: Final = (
    "prompt_revision",
    "prompt_tokens",
    "completion_tokens",
    "behaviour_logprobs",
    "rewards",
    "reward",
    "ended",
)
_OWN_TEXTS: Final = ("record", "row", "source", "policy", "consent_by", "consent_at")


def store_records(
    store: ArtifactStore, training: Sequence[Record], held_out: Sequence[Record]
) -> str:
    """The digest of a tree with a file for each side that has records; empty for none at all.
    Raises InvalidInput: pyarrow is not installed."""
    files = []
    for name, records in ((TRAINING, training), (HELD_OUT, held_out)):
        if records:
            content = _parquet(records)
            files.append((name, MODE, len(content), store.put_bytes(content)))
    return store.put_manifest(files) if files else ""


def stored_rows(
    store: ArtifactStore,
    batches: Sequence[ExperienceTakenIn],
    columns: Sequence[str],
    sides: Sequence[str] = (TRAINING, HELD_OUT),
) -> Iterator[dict[str, Any]]:
    """Rows of batches in the order given, each batch's in the order it was read. Raises
    ArtifactCorrupt, NotFound: what was stored changed, or is gone."""
    parquet = _pyarrow_parquet()
    for batch in batches:
        files = {name: digest for name, _, _, digest in _manifest(store, batch.tree)}
        for side in sides:
            if side in files:
                source = io.BytesIO(store.read_bytes(files[side]))
                yield from parquet.read_table(source, columns=list(columns)).to_pylist()


def _manifest(store: ArtifactStore, tree: str) -> list[tuple[str, int, int, str]]:
    return store.manifest(tree) if tree else []


def _parquet(records: Sequence[Record]) -> bytes:
    parquet = _pyarrow_parquet()
    import pyarrow

    shared = rollout_schema()
    schema = pyarrow.schema(
        [*((name, pyarrow.string()) for name in _OWN_TEXTS), *(shared.field(n) for n in _SHARED)]
    )
    table = pyarrow.Table.from_pylist([_columns(record) for record in records], schema)
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _columns(record: Record) -> dict[str, Any]:
    return {
        "record": record.digest,
        "row": json.dumps(record.row, ensure_ascii=False),
        "source": record.source,
        "policy": record.policy,
        "consent_by": record.consent_by,
        "consent_at": record.consent_at,
        "prompt_revision": record.prompt_revision,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "behaviour_logprobs": record.logprobs,
        "rewards": list(record.rewards.items()),
        "reward": record.reward,
        "ended": record.ended,
    }


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise InvalidInput(
            "campaign: records are kept as Parquet, which needs pyarrow: pip install "
            "'arl[parquet]'"
        ) from None
    return pyarrow.parquet
