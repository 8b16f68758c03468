"""A promotion's evidence as a tar file made piece by piece: what `arl evidence -o` writes."""

import tarfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.registry.statement import MODEL_FOLDER
from ledger.artifacts import ArtifactStore

_FILE_MODE: Final = 0o644
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class _Member:
    header: bytes
    content: bytes | str
    """Bytes, or the digest of a file in the store."""
    size: int


class EvidenceFolder:
    """A directory of that name with the evidence and, below `model/`, the artifact's files."""

    def __init__(
        self, store: ArtifactStore, name: str, evidence: Mapping[str, bytes], artifact: str | None
    ) -> None:
        """Raises NotFound, ArtifactCorrupt where the artifact's list of files is gone."""
        self._store = store
        self._members = [
            _member(f"{name}/{path}", content, len(content), _FILE_MODE)
            for path, content in sorted(evidence.items())
        ]
        for path, mode, size, digest in [] if artifact is None else store.manifest(artifact):
            self._members.append(_member(f"{name}/{MODEL_FOLDER}/{path}", digest, size, mode))

    @property
    def size_bytes(self) -> int:
        return len(_END) + sum(
            len(member.header) + member.size + _padding(member.size) for member in self._members
        )

    def pieces(self) -> Generator[bytes, None, None]:
        """Raises NotFound, ArtifactCorrupt on the way: what came until then is no whole file."""
        for member in self._members:
            yield member.header
            if isinstance(member.content, bytes):
                yield member.content
            else:
                yield from self._store.stream(member.content)
            yield bytes(_padding(member.size))
        yield _END


def _member(path: str, content: bytes | str, size: int, mode: int) -> _Member:
    info = tarfile.TarInfo(path)
    info.size, info.mode = size, mode
    return _Member(info.tobuf(tarfile.PAX_FORMAT), content, size)


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
