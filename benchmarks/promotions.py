"""What signing a promotion costs, and checking a thousand of them.

    python -m benchmarks.promotions --json FILE [--megabytes 540] [--promotions 1000]

The first is one promotion of an artifact of that size (135 million parameters in fp32 are 540 MB):
reading it as promoting does, then making and signing its evidence. The second is a ledger of so
many promotions with small artifacts, all signed: checking all of it, and the part that is hashing
the artifacts.
"""

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.reports import machine, write_report
from controller.registry.checking import check_promotions
from controller.registry.making import make_evidence
from ledger import reads
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, open_ledger
from ledger.records import Json
from tests.ledger_builders import driven

LINKS: dict[str, Json] = {
    "parameters": {"learning_rate": 3e-4, "lora_r": 16},
    "data": {"train": "d" * 64},
    "settings": {f"setting_{number}": number for number in range(60)},
    "search": None,
    "runs": {"candidate": [], "incumbent": []},
}
PER_STUDY = 10
PIECE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=540)
    parser.add_argument("--promotions", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arl-promotions-") as place:
        report = {
            "machine": machine(),
            "one": sign_large(Path(place, "large"), options.megabytes),
            "many": check_many(Path(place, "many"), options.promotions),
        }
    write_report(options.json, report)


def opened(home: Path) -> tuple[Ledger, ArtifactStore]:
    home.mkdir()
    return open_ledger(home / "ledger.db", create=True), ArtifactStore(home / "artifacts")


def promote(ledger: Ledger, study_id: str, artifacts: list[str], model: str) -> None:
    """One study that promotes one candidate after the other."""
    study = driven(ledger, study_id)
    study.run_study()
    for number, artifact in enumerate(artifacts):
        study.whole_trial(number, 1.0)
        study.record(study.family(number + 1, candidates=(study.candidate(number),)))
        made = study.promotion(number, seq=number + 1, family=number + 1, model=model)
        study.record(replace(made, artifact_digest=artifact, lineage=LINKS))


def sign_large(home: Path, megabytes: int) -> dict[str, float]:
    ledger, store = opened(home)
    source = home / "source"
    source.mkdir()
    with (source / "model.safetensors").open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(PIECE))
    tree = store.put_tree(source)
    promote(ledger, "s1", [tree], "large")
    with ledger.read() as session:
        (pointer,) = reads.list_incumbents(session, "large")
    began_s, used = time.monotonic(), cpu_s()
    store.verify(tree)
    read = time.monotonic()
    make_evidence(ledger, store, home, pointer, "benchmark")
    ended = time.monotonic()
    print(
        f"{megabytes} MB: read at the promotion {read - began_s:.1f} s, evidence made and signed "
        f"{ended - read:.1f} s ({cpu_s() - used:.1f} s of one core in both)"
    )
    began = time.monotonic()
    (found,) = check_promotions(ledger, store, [pointer])
    assert found.findings == [], found.findings
    print(f"{megabytes} MB: checked again in {time.monotonic() - began:.1f} s")
    ledger.close()
    return {"megabytes": megabytes, "read_s": read - began_s, "signed_s": ended - read}


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def check_many(home: Path, promotions: int) -> dict[str, float]:
    ledger, store = opened(home)
    for number in range(0, promotions, PER_STUDY):
        trees = []
        for one in range(number, min(promotions, number + PER_STUDY)):
            weights = store.put_bytes(os.urandom(64 * 1024))
            trees.append(store.put_manifest([(f"model-{one}.bin", 0o644, 64 * 1024, weights)]))
        promote(ledger, f"s{number}", trees, f"model-{number}")
    with ledger.read() as session:
        pointers = reads.list_incumbents(session)
    began = time.monotonic()
    for pointer in pointers:
        make_evidence(ledger, store, home, pointer, "benchmark")
    print(f"{len(pointers)} promotions signed in {time.monotonic() - began:.1f} s")
    began, used = time.monotonic(), cpu_s()
    checked = list(check_promotions(ledger, store, pointers))
    took, cpu = time.monotonic() - began, cpu_s() - used
    wrong = [finding for found in checked for finding in found.findings]
    assert wrong == [], wrong[:3]
    began = time.monotonic()
    list(check_promotions(ledger, None, pointers))
    bare = time.monotonic() - began
    print(
        f"{len(pointers)} promotions checked in {took:.1f} s ({cpu:.1f} s of one core); "
        f"{bare:.1f} s of it for entries and chains"
    )
    ledger.close()
    return {"promotions": len(pointers), "checked_s": took, "without_hashing_s": bare}


if __name__ == "__main__":
    main()
