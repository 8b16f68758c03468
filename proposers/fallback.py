"""What steps in for a language model that gives nothing valid."""

from dataclasses import replace
from typing import cast

from ledger.errors import InvalidInput
from proposers import registry
from proposers.chat_options import LLMOptions
from proposers.protocol import Proposer
from proposers.registry import Setup


def build_fallback(setup: Setup) -> Proposer | None:
    """The proposer that the option of `llm` names, with its defaults. Raises InvalidInput."""
    name = cast(LLMOptions, setup.options).fallback
    if name == "none":
        return None
    why = fallback_problem(name)
    if why:
        raise InvalidInput(f"proposer.options.fallback {name!r}: {why}")
    return registry.build_proposer(name, replace(setup, options=registry.read_options(name, {})))


def fallback_problem(name: str) -> str:
    """Why a proposer cannot step in for a model; nothing when it can."""
    known = registry.PROPOSERS.items()
    able = sorted(n for n, r in known if not (r.asks_models or r.has_arms))
    if name == "none" or name in able:
        return ""
    return f"it cannot step in for a model; write one of {', '.join(able)}, or none"
