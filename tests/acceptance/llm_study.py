"""Studies whose proposer is a scripted model, and what it is like to be that model."""

import re
from pathlib import Path
from typing import Any

from controller.wiring import Service
from ledger import reads
from ledger.records import BudgetLine, Resource, Trial
from ledger.trial_parts import load_budgets
from ledger.verify import verify_ledger
from tests import model_endpoint as m
from tests.acceptance.shell_study import facts, submit
from tests.acceptance.test_patched_trials import EVALUATE, RATE, TRAIN

QUICK: dict[str, Any] = {
    "tries": 2,
    "connect_s": 2.0,
    "read_s": 1.0,
    "total_s": 1.5,
    "first_wait_s": 0.01,
    "longest_wait_s": 0.1,
    "first_rest_s": 0.2,
    "longest_rest_s": 0.3,
}
PRICE = {"prompt_usd_per_million": 100.0, "completion_usd_per_million": 1000.0}


def proposer(name: str, url: str, **options: Any) -> dict[str, Any]:
    endpoints = [{"url": url, "model": "scripted", "price": PRICE}]
    return {"name": name, "options": {"endpoints": endpoints, **QUICK, **options}}


def best_known(prompt: str) -> float:
    """The x of the best trial, read from the prompt like a model would."""
    section = prompt.partition("## Best trials")[2].partition("## ")[0]
    found = re.findall(r'"x": ([0-9.]+)', section)
    return float(found[-1]) if found else 0.1


def climbs(asked: m.Asked) -> m.Behaviour:
    """A model that goes on from the best one."""
    count = int((re.findall(r"Propose (\d+) sets", asked.prompt) or ["1"])[0])
    best = best_known(asked.prompt)
    return m.proposes(*({"x": min(1.0, round(best + 0.15 * n, 4))} for n in range(1, count + 1)))


def changes_rate(asked: m.Asked) -> m.Behaviour:
    """A model that raises the rate it is shown a little."""
    source = asked.prompt.partition("## Current source")[2]
    rate = re.findall(r"^RATE=([0-9.]+)$", source, re.MULTILINE)[0]
    better = min(0.95, round(float(rate) + 0.2, 2))
    return m.says(
        "More rate, more score.\n\nrate.sh\n<<<<<<< SEARCH\n"
        f"RATE={rate}\n=======\nRATE={better}\n>>>>>>> REPLACE\n"
    )


def patched(service: Service, base: Path, proposer: dict[str, Any], **changes: Any) -> str:
    (base / "program").mkdir(exist_ok=True)
    (base / "program" / "rate.sh").write_text(RATE)
    (base / "brief.md").write_text("Raise RATE step by step.\n")
    given: dict[str, Any] = {
        "program": {
            "kind": "command",
            "argv": ["/bin/sh", "-c", TRAIN],
            "source": "./program",
            "mutable": ["rate.sh"],
            "mutable_reason": "rate.sh sets a number",
            "brief": "./brief.md",
        },
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}, "cost": {}},
        },
        "space": {},
        "budget": {"trials": 4},
        "proposer": proposer,
        **changes,
    }
    return submit(service, base, **given)


def search_trials(service: Service, study_id: str) -> list[Trial]:
    with service.ledger.read() as session:
        found = reads.list_trials(session, study_id, limit=200).items
    return [item.trial for item in found if item.trial.kind == "search"]


def calls(service: Service, study_id: str) -> list[dict[str, Any]]:
    return [dict(p) for kind, p in facts(service, study_id) if kind == "model_called"]


def problems(service: Service) -> list[str]:
    return [str(problem) for problem in verify_ledger(service.ledger, service.store)]


def line_of(service: Service, study_id: str, resource: Resource) -> BudgetLine:
    with service.ledger.read() as session:
        return load_budgets(session, study_id)[resource]
