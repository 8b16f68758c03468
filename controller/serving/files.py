"""Stored models as files that a server reads: every byte checked before it does."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.serving.forms import AdapterFiles, Form, ModelFiles, read_files
from controller.serving.subjects import SHORT, Subject
from ledger.artifacts import ArtifactStore
from ledger.errors import ArtifactCorrupt, InvalidInput, NotFound
from ledger.files import BUFFER_BYTES, disk_full_at, hash_file

Say = Callable[[str], None]
BASE_INPUT = "base"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A stored model in the form it is served in."""

    subject: Subject
    files: ModelFiles
    form: Form


def checked_out(store: ArtifactStore, tree: str, what: str, say: Say) -> Path:
    """A stored tree as a directory whose every file was hashed just now, in the store and as it
    lies there.

    Raises ArtifactCorrupt, NotFound: naming `what`.
    """
    say(f"checking the digests of {what}")
    try:
        store.verify(tree)
        directory = store.checkout(tree)
        for path, _, size, digest in store.manifest(tree):
            if hash_file(directory / path, path) != (digest, size):
                raise ArtifactCorrupt(f"the bytes of {directory / path} changed: delete {tree}")
    except (ArtifactCorrupt, NotFound) as error:
        raise type(error)(
            f"{what} is not what was stored, so it is not served: {error}"
        ) from error
    return directory


def choose_form(files: ModelFiles, wanted: Form | None, subject: Subject, usual: Form) -> Form:
    """Raises InvalidInput: it has no such form."""
    whole = None if files.whole is None else files.whole.form
    has = [form for form in (whole, None if files.adapter is None else Form.ADAPTER) if form]
    if wanted is None:
        return usual if usual in has else has[0]
    if wanted not in has:
        hint = ""
        if wanted is Form.ADAPTER:
            hint = "; train with keep_adapter: true, or convert it so that the adapter is kept"
        raise InvalidInput(
            f"--form {wanted}: artifact {subject.artifact[:SHORT]} of {subject.name} is "
            f"{' and '.join(has)} only{hint}"
        )
    return wanted


def files_of(store: ArtifactStore, subject: Subject) -> ModelFiles:
    """Raises InvalidInput, NotFound, ArtifactCorrupt."""
    try:
        return read_files(store, subject.artifact)
    except (ArtifactCorrupt, NotFound) as error:
        what = f"artifact {subject.artifact} of {subject.name}"
        raise type(error)(
            f"{what} is not what was stored, so it is not served: {error}"
        ) from error


def base_of(store: ArtifactStore, subject: Subject, adapter: AdapterFiles, say: Say) -> str:
    """Tree digest of the base that an adapter belongs to.

    Raises InvalidInput: it does not stand alone on its study's base.
    """
    base = check_alone(subject)
    if adapter.base_weights is not None:
        directory = checked_out(store, base, f"base {base[:SHORT]}", say)
        found = weights_digest(directory)
        if found != adapter.base_weights:
            raise InvalidInput(
                f"{subject.name}: its adapter was trained on weights {adapter.base_weights[:16]}, "
                f"and the study's base has {found[:16]}; serve the merged model with --form full"
            )
    return base


def check_alone(subject: Subject) -> str:
    """Tree digest of its study's base. Raises InvalidInput: an adapter on it is not the model."""
    inputs = subject.study.inputs
    base = inputs.get(BASE_INPUT)
    if base is None:
        raise InvalidInput(
            f"{subject.name}: study {subject.study.name} has no program.base, so nobody knows "
            "what its adapter belongs to; serve the merged model with --form full"
        )
    if "adapter" in inputs:
        raise InvalidInput(
            f"{subject.name}: its adapter was trained on the base with another adapter merged "
            "into it, so it does not stand alone; serve the merged model with --form full"
        )
    return base


def weights_digest(directory: Path) -> str:
    """sha256 over a model's weight files in the order of their names, as base.json notes it."""
    hasher = hashlib.sha256()
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            while chunk := file.read(BUFFER_BYTES):
                hasher.update(chunk)
    return hasher.hexdigest()


def adapter_at(
    store: ArtifactStore, subject: Subject, adapter: AdapterFiles, share: Path | None, say: Say
) -> Path:
    """The adapter alone as a directory that the server can read: in the store's checkout, or
    copied below `share`. Its path holds the artifact's digest: a server that caches by path never
    takes one adapter for another.

    Raises InvalidInput, ArtifactCorrupt, NotFound, DiskFull.
    """
    what = f"artifact {subject.artifact[:SHORT]} of {subject.name}"
    inside = checked_out(store, subject.artifact, what, say) / adapter.place
    if share is None:
        return inside
    if not share.is_dir():
        raise InvalidInput(f"--share {share}: write a directory that the server sees as well")
    place = share.resolve() / f"{subject.artifact}-adapter"
    names = [
        path.removeprefix(f"{adapter.place}/" if adapter.place else "")
        for path, *_ in store.manifest(subject.artifact)
        if not adapter.place or path.startswith(f"{adapter.place}/")
    ]
    _copy(inside, place, names)
    return place


def _copy(source: Path, place: Path, names: Sequence[str]) -> None:
    """Whole or not at all; what is there already is compared."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    with disk_full_at(place.parent):
        if place.exists() and all(_equal(source / n, place / n) for n in names):
            return
        try:
            for name in names:
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, draft / name)
            if place.exists():
                shutil.rmtree(place)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _equal(a: Path, b: Path) -> bool:
    try:
        return hash_file(a, str(a)) == hash_file(b, str(b))
    except NotFound:
        return False


def shown_json(document: object) -> str:
    """Without spaces: one word of a command line."""
    return json.dumps(document, separators=(",", ":"))
