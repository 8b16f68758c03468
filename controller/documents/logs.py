"""A range of a log as a document."""

from controller.documents.log_text import LogText
from ledger.records import Attempt, Json


def log_document(
    attempt: Attempt, data: bytes, offset: int, size: int, *, is_over: bool
) -> dict[str, Json]:
    """Safe text of the bytes from `offset` on, and where to go on."""
    return {
        "attempt": attempt.id,
        "offset": offset,
        "next_offset": offset + len(data),
        "size_bytes": size,
        "text": LogText().add(data),
        "is_over": is_over,
    }


def whole_characters(data: bytes) -> bytes:
    """`data` without a character at its end of which bytes are still to come."""
    for back in range(1, min(4, len(data) + 1)):
        lead = data[-back]
        if lead < 0x80:
            return data
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
            return data[:-back] if length > back and lead < 0xF8 else data
    return data
