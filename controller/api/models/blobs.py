"""Content by digest: files and trees that a study may name."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from controller.api.models.wire import DIGEST, Out, example

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", examples=[DIGEST])]


class BlobState(Out):
    """How much of a file is here."""

    model_config = example({"digest": DIGEST, "received": 1048576, "is_complete": False})
    digest: str
    received: int
    is_complete: bool


class TreeFile(BaseModel):
    """One file of a tree."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"path": "train.py", "executable": False, "size": 812, "digest": DIGEST}]
        },
    )
    path: str = Field(min_length=1, max_length=4096)
    executable: bool = False
    size: int = Field(ge=0, le=2**53)
    digest: Digest


class TreeWanted(BaseModel):
    """A directory: its files, whose contents were sent before. Its digest is the sha256 of the
    canonical JSON list of `[path, mode, size, sha256]`, sorted by path, mode 420 or 493."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"files": [{"path": "train.py", "size": 1024, "digest": DIGEST}]}]
        },
    )
    files: list[TreeFile] = Field(min_length=1, max_length=100_000)


class Digests(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"digests": [DIGEST]}]}
    )
    digests: list[Digest] = Field(max_length=100_000)


class Missing(Out):
    """What of it was not sent yet."""

    model_config = example({"missing": [DIGEST]})
    missing: list[str]
