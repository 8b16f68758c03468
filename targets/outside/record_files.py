"""Small documents in files: whole or not at all, whoever writes beside."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Document = dict[str, Any]


def read_document(path: Path) -> Document | None:
    """None where there is none."""
    try:
        found: Document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(document).encode())


def replace_file(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_once(path: Path, document: Mapping[str, Any]) -> bool:
    """Whether this call was the one that wrote it; never half written."""
    if path.exists():
        return False
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        draft.write_bytes(json.dumps(document).encode())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
