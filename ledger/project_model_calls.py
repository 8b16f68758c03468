"""Row changes of the entries about requests to language models."""

from typing import Final

from ledger.digests import canonical_json
from ledger.entries import ModelCalled, ModelCallsReserved, ModelCallsSettled
from ledger.projection import Projection, check_unsealed, printable
from ledger.records import Resource
from ledger.statements import Row, insert_row
from ledger.tables import Base

_INSERT: Final = insert_row(Base.metadata.tables["model_calls"])


def project_reserved(entry: ModelCallsReserved, to: Projection) -> None:
    to.budgets.reserve(Resource.LLM_TOKENS, entry.tokens)
    to.budgets.reserve(Resource.LLM_COST_USD, entry.cost_usd)


def project_called(entry: ModelCalled, to: Projection) -> None:
    content = canonical_json([entry.request, entry.response])
    check_unsealed("request and response", content.encode(), entry.content_digest)
    row: Row = {
        "study_id": to.study_id,
        "number": entry.number,
        "first_number": entry.first_number,
        "model": printable(entry.model)[:200],
        "endpoint": printable(entry.endpoint)[:200],
        "outcome": entry.outcome,
        "prompt_version": entry.prompt_version,
        "request": entry.request,
        "response": entry.response,
        "prompt_tokens": entry.prompt_tokens,
        "completion_tokens": entry.completion_tokens,
        "cost_usd": entry.cost_usd,
        "latency_s": entry.latency_s,
        "created_at": to.at,
    }
    to.add(_INSERT, row, to.study_id)


def project_settled(entry: ModelCallsSettled, to: Projection) -> None:
    to.budgets.settle(Resource.LLM_TOKENS, entry.reserved_tokens, entry.tokens)
    to.budgets.settle(Resource.LLM_COST_USD, entry.reserved_cost_usd, entry.cost_usd)
