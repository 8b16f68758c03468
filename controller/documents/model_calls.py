"""What a study asked of language models, as a document."""

from controller.documents.times import iso
from ledger.model_call_pages import ListedCall
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


def call_document(call: ListedCall) -> dict[str, Json]:
    """One request, without its words."""
    return {
        "number": call.number,
        "first_number": call.first_number,
        "model": call.model,
        "endpoint": call.endpoint,
        "outcome": call.outcome,
        "prompt_version": call.prompt_version,
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cost_usd": call.cost_usd,
        "latency_s": call.latency_s,
        "at": iso(call.created_at),
    }
