"""The source trees of candidates: read for a proposer, and changed by its patches."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from controller.steps.context import StepContext
from ledger.artifacts import ArtifactStore
from ledger.errors import NotFound
from proposers.patches import apply_patch


def source_reader(ctx: StepContext) -> Callable[[str], Mapping[str, str]]:
    """Reads a candidate's mutable files as text, from any thread; what is asked for is among
    the candidates known now."""
    view, store = ctx.view, ctx.store
    mutable = view.spec.program.mutable
    digests = {t.candidate_id: t.source_digest for t in view.finished}
    digests |= {t.candidate_id: t.source_digest for t in view.live.values()}
    digests[ctx.baseline_candidate_id()] = view.baseline_source

    def read(candidate_id: str) -> Mapping[str, str]:
        digest = digests.get(candidate_id)
        if digest is None:
            raise NotFound(f"candidate {candidate_id!r} has no source in this study")
        return read_files(store, digest, mutable)

    return read


def source_of(ctx: StepContext, candidate_id: str | None) -> str | None:
    """The source tree that a patch of this parent is applied to: the baseline's by default."""
    view = ctx.view
    if candidate_id is None or candidate_id == ctx.baseline_candidate_id():
        return view.baseline_source
    live = {t.candidate_id: t.source_digest for t in view.live.values()}
    if candidate_id in live:
        return live[candidate_id]
    for trial in reversed(view.finished):
        if trial.candidate_id == candidate_id:
            return trial.source_digest
    raise NotFound(f"the parent {candidate_id!r} is no candidate of this study")


def patched_source(ctx: StepContext, parent_source: str, patch: str) -> str:
    """The tree that a patch makes of its parent's, stored. Raises PatchRefused."""
    program = ctx.view.spec.program
    files = read_files(ctx.store, parent_source, program.mutable)
    changed = apply_patch(
        files, patch, mutable=program.mutable, required_calls=program.required_calls
    )
    with tempfile.TemporaryDirectory(prefix="arl-patch-") as draft:
        tree = Path(draft) / "source"
        ctx.store.copy_tree(parent_source, tree)
        for name, text in changed.items():
            if text != files[name]:
                (tree / name).write_bytes(text.encode())
        return ctx.store.put_tree(tree)


def read_files(store: ArtifactStore, tree: str, names: tuple[str, ...]) -> dict[str, str]:
    """Text files of a stored tree; one that is no UTF-8 text is left out: nothing patches it."""
    root = store.checkout(tree)
    found = {}
    for name in names:
        try:
            found[name] = (root / name).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    return found
