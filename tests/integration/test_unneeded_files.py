"""What of the artifact store may go, asked of a ledger and a store without running a study."""

from dataclasses import replace
from pathlib import Path

from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.records import ArtifactRole
from ledger.retention_entries import ArtifactReleased, ReleaseReason
from ledger.unneeded import Graces, discard, find_unneeded
from tests.ledger_builders import driven

NOW = Graces(let_go_s=0.0, orphan_s=0.0)


def a_tree(store: ArtifactStore, text: str) -> str:
    return store.put_manifest([("program.py", 0o644, len(text), store.put_bytes(text.encode()))])


def test_a_candidates_source_stays_though_a_trial_saved_the_same_and_let_it_go(
    ledger: Ledger, tmp_path: Path
) -> None:
    """A program that saves itself, as a search for code does."""
    store = ArtifactStore(tmp_path / "store")
    source, other = a_tree(store, "print(1)"), a_tree(store, "print(2)")
    study = driven(ledger)
    study.run_study()
    for number, saved in enumerate((source, other)):
        proposed = replace(study.proposed(number), source_digest=source)
        study.record(proposed, study.launching(number))
        study.record(study.started(number))
        study.record(study.exited(number), study.saved(number, digest=saved))
        study.record(
            ArtifactReleased(
                attempt_id=study.train(number),
                trial_id=study.trial(number),
                role=ArtifactRole.MODEL,
                digest=saved,
                size_bytes=8,
                reason=ReleaseReason.NOT_KEPT,
                policy="none",
                actor="arl",
            )
        )
    with ledger.read() as session:
        discard(store, find_unneeded(session, store, orphans=True, graces=NOW))
    assert store.checkout(source).is_dir()
    assert store.objects.status(other) is None


def test_a_checkout_that_somebody_else_takes_away_meanwhile_is_passed_over(
    tmp_path: Path,
) -> None:
    store = ArtifactStore(tmp_path / "store")
    trees = [a_tree(store, f"print({n})") for n in range(3)]
    for tree in trees:
        store.checkout(tree)
    found = store.checkouts.each()
    first, _status = next(found)
    for tree in trees:
        store.checkouts.discard(tree)  # as another `arl gc` does
    assert [tree for tree, _status in found] == []
    assert store.checkouts.size_of(first) == 0
