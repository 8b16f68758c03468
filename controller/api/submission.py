"""The files of a study that came over HTTP, where `submit_study` looks for them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.api.remote_rules import BLOB
from controller.spec.errors import Problem, StudyRefused
from controller.spec.paths import named_paths
from controller.spec.study import StudySpec
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput, NotFound


@contextmanager
def staged(spec: StudySpec, home: Path, store: ArtifactStore) -> Iterator[Path]:
    """A directory in which each `blob:DIGEST` of the study is that tree; gone afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="staged-", dir=home))
    try:
        for _, value in named_paths(spec):
            match = BLOB.match(value)
            if match is not None:
                link = base / f"blob:{match['digest']}"
                if not link.is_symlink():
                    link.symlink_to(store.checkout(match["digest"]))
        yield base
    except (InvalidInput, NotFound) as error:
        raise _without(base, error) from None
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _without(base: Path, error: InvalidInput | NotFound) -> InvalidInput | NotFound:
    """The same error in words that name no directory of this machine."""

    def clean(text: str) -> str:
        return text.replace(f"{base}/", "")

    if isinstance(error, StudyRefused):
        return StudyRefused(
            [
                Problem(clean(p.field), clean(p.rule), clean(p.remedy), clean(p.value))
                for p in error.problems
            ]
        )
    return type(error)(clean(str(error)))
