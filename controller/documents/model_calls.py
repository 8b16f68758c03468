"""What a study asked of language models, as a document."""

from ledger.model_reads import ModelUse
from ledger.records import Json


def model_document(use: ModelUse) -> dict[str, Json]:
    return {
        "calls": use.calls,
        "outcomes": dict(use.outcomes),
        "tokens": use.prompt_tokens + use.completion_tokens,
        "prompt_tokens": use.prompt_tokens,
        "completion_tokens": use.completion_tokens,
        "cost_usd": use.cost_usd,
        "latency_s": use.latency_s,
        "malformed": use.malformed,
        "malformed_share": use.malformed / use.proposed if use.proposed else None,
    }
