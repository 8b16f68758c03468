"""Runs the corpus on every target and writes which attack is contained where.

    python -m tests.hostile.table [--target NAME ...] [--page docs/hostile.md]

The page's figures are beside it as JSON; targets that are not run keep theirs. Needs root (for a
private container engine), bubblewrap and the training extra; takes about half an hour.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.hostile.corpus.entry import Attack
from tests.hostile.corpus.everything import ATTACKS, KINDS
from tests.hostile.corpus.patches import PATCHES
from tests.hostile.corpus_checks import LOCAL, Studies, is_run
from tests.private_engine import shared_engine

ROOT: Final = Path(__file__).resolve().parents[2]
TARGETS: Final = ("bubblewrap", "docker", LOCAL)
CONTAINED, MISSED, UNCLEAR = "contained", "missed", "unclear"

HEAD: Final = """\
# Hostile candidates

What the corpus in `tests/hostile/corpus` tries, and where it gets through. Each attack is a
candidate (or what a candidate leaves behind, or the code that answers for it) in a real study with
baselines and honest neighbours, judged from the ledger and the logs: it is *contained* if its
score is what its model is worth or its trial failed, it was not promoted, it reached nothing
outside, and its neighbours, the controller and the host are unharmed.

**bubblewrap and Docker hold against programs written to break out; a local process contains
accidents.** The same user can write the ledger there, so its misses are published, not fixed.
*By construction*: not run without a sandbox, since it would do harm or send a packet there.

This page is written by `python -m tests.hostile.table`; do not edit it.
"""


def verdict_of(attack: Attack, studies: Studies) -> dict[str, str]:
    if not is_run(attack, studies.target):
        return {"verdict": MISSED, "why": f"by construction: {attack.hurts}"}
    misses = studies.misses(attack)
    if misses:
        return {"verdict": MISSED, "why": _without_places("; ".join(misses))}
    surprises = studies.surprises(attack)
    if surprises:
        return {"verdict": UNCLEAR, "why": _without_places("; ".join(surprises))}
    return {"verdict": CONTAINED, "why": ", ".join(studies.endings(attack))}


def _without_places(text: str) -> str:
    """Names of temporary directories change with every run."""
    return "…".join(part for part in text.split("arl-hostile-")).replace("/tmp/…", "…/")


def run_target(
    target: str, environment: Mapping[str, str], known: Mapping[str, Any], only: Sequence[str]
) -> dict[str, Any]:
    """Its figures; with `only`, those that are known with these attacks run again."""
    studies = Studies(target, environment)
    started = time.monotonic()
    verdicts = dict(known["verdicts"]) if only else {}
    for attack in [ATTACKS[name] for name in only] or ATTACKS.values():
        verdicts[attack.name] = verdict_of(attack, studies)
        if verdicts[attack.name]["verdict"] != CONTAINED:
            print(f"{target}: {attack.name}: {verdicts[attack.name]['why']}", flush=True)
    contained = sum(v["verdict"] == CONTAINED for v in verdicts.values())
    broken = sorted({*studies.broken(), *known.get("neighbours_and_host", ())})
    seconds = round(time.monotonic() - started)
    print(f"{target}: {contained} of {len(verdicts)} contained; {broken}", flush=True)
    return {
        **known,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "contained": contained,
        "of": len(verdicts),
        "neighbours_and_host": broken,
        **({} if only else {"studies": studies.count, "seconds": seconds}),
        "verdicts": verdicts,
    }


@contextmanager
def engine(targets: Sequence[str]) -> Iterator[dict[str, str]]:
    """What the docker target needs to know, while it is used."""
    with shared_engine() if "docker" in targets else nullcontext() as found:
        yield {} if found is None else {"ARL_DOCKER_HOST": found.host}


# --- the page --------------------------------------------------------------------------------


def page(figures: Mapping[str, Any]) -> str:
    targets: Mapping[str, Any] = figures["targets"]
    parts = [HEAD, "| target | contained | of | studies |", "|---|---|---|---|"]
    parts += [
        f"| {name} | **{targets[name]['contained']}** | {targets[name]['of']} | "
        f"{targets[name]['studies']} |"
        for name in TARGETS
        if name in targets
    ]
    for kind, attacks in KINDS.items():
        parts += ["", f"## {kind}", "", _row("attack", "what it tries", *_known(targets))]
        parts.append(_row(*["---"] * (2 + len(_known(targets)))))
        parts += [_line(attack, targets) for attack in attacks]
    parts += ["", "## Missed without a sandbox", ""]
    verdicts = targets.get(LOCAL, {"verdicts": {}})["verdicts"]
    parts += [
        f"- `{name}`: {verdict['why']}"
        for name, verdict in verdicts.items()
        if verdict["verdict"] == MISSED
    ]
    parts += ["", "## Patches", "", "Refused before anything runs, on every target.", ""]
    parts += [f"- `{patch.name}`: {patch.tries}" for patch in PATCHES]
    return "\n".join(parts) + "\n"


def _known(targets: Mapping[str, Any]) -> list[str]:
    return [name for name in TARGETS if name in targets]


def _line(attack: Attack, targets: Mapping[str, Any]) -> str:
    cells = []
    for name in _known(targets):
        verdict = targets[name]["verdicts"].get(attack.name)
        cells.append("not run" if verdict is None else _cell(verdict["verdict"]))
    return _row(f"`{attack.name}`", attack.tries, *cells)


def _cell(verdict: str) -> str:
    return verdict if verdict == CONTAINED else f"**{verdict}**"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", action="append", choices=TARGETS, default=[])
    parser.add_argument("--attack", action="append", choices=ATTACKS, default=[])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "hostile.md")
    parser.add_argument("--only-page", action="store_true", help="write it from what is known")
    arguments = parser.parse_args()
    data = arguments.page.with_suffix(".json")
    figures: dict[str, Any] = json.loads(data.read_bytes()) if data.exists() else {"targets": {}}
    chosen = () if arguments.only_page else tuple(arguments.target) or TARGETS
    os.environ["OMP_NUM_THREADS"] = "1"
    with engine(chosen) as environment:
        for target in chosen:
            used = environment if target == "docker" else {}
            before = figures["targets"].get(target, {}) if arguments.attack else {}
            figures["targets"][target] = run_target(target, used, before, arguments.attack)
            data.write_text(json.dumps(figures, indent=1, ensure_ascii=True) + "\n")
    arguments.page.write_text(page(figures), encoding="utf-8")
    sandboxes = [figures["targets"][t] for t in chosen if t != LOCAL]
    return int(any(s["contained"] != s["of"] or s["neighbours_and_host"] for s in sandboxes))


if __name__ == "__main__":
    sys.exit(main())
