"""Reads lists and logs of a job service, page by page, within bounds of our own."""

from typing import Final

from targets.http_job import signing as http_signing
from targets.http_job.client import JobClient
from targets.http_job.documents import AttemptsDoc
from targets.protocol import Found, LogChunk

LOG_PIECE_BYTES: Final = 4 * 1024 * 1024
_MAX_ATTEMPTS: Final = 1_000_000


def list_attempts(client: JobClient, owner: str) -> list[Found]:
    """All of an owner's. Raises TargetUnavailable."""
    found: list[Found] = []
    after = ""
    while len(found) < _MAX_ATTEMPTS:
        query = {"owner": owner, "after": after}
        page = client.ask("GET", "/v1/attempts", AttemptsDoc, query=query)
        found += [Found(handle=a.name, name=a.name, running=a.running) for a in page.attempts]
        if page.after is None:
            return found
        if page.after <= after:
            break
        after = page.after
    raise client.broken("its list of attempts does not come to an end")


def read_log(client: JobClient, name: str, offset: int, limit: int) -> LogChunk:
    """At most LOG_PIECE_BYTES. Raises NotFound, TargetUnavailable."""
    limit = max(0, min(limit, LOG_PIECE_BYTES))
    query = {"offset": offset, "limit": limit}
    answer = client.fetch(f"/v1/attempts/{name}/log", query, limit=limit)
    told = [answer.headers.get(n, "") for n in (http_signing.OFFSET, http_signing.SIZE)]
    if not all(text.isascii() and text.isdecimal() and len(text) < 20 for text in told):
        raise client.broken(f"a log without {http_signing.OFFSET} and {http_signing.SIZE}")
    return LogChunk(answer.body, int(told[0]), int(told[1]))
