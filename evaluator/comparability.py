"""When two scores may be compared: only under one digest of everything that shaped them."""

from collections.abc import Mapping

from ledger.digests import json_digest
from ledger.records import Objective


def comparison_digest(
    *,
    bundle: str,
    code: str,
    environment: str,
    inputs: Mapping[str, str],
    objective: Objective,
) -> str:
    """One comparison family: change any of these and a new family starts.

    Args:
        bundle: the evaluator bundle's digest, which covers its splits and options; empty in
            `reported` mode.
        code: tree digest of the frozen code that trials run.
        environment: the target's fingerprint of interpreter, platform or image.
        inputs: mount name to tree digest of the base model and data, as frozen.
    """
    return json_digest(
        {
            "bundle": bundle,
            "code": code,
            "environment": environment,
            "inputs": dict(inputs),
            "objective": {
                "metric": objective.metric,
                "direction": objective.direction,
            },
        }
    )
