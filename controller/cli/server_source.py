"""Source over a server's API: the same documents, read from elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.cli.server_promotions import find_candidate_id
from controller.cli.source import TAIL_BYTES, Document
from controller.client import Client
from controller.documents.finite import unflagged
from controller.documents.plain_text import plain
from controller.registry.names import is_promotion_name
from ledger.errors import Conflict, NotFound
from ledger.states import StudyState

LAST = "last"
PAGE = 200
MOST_NAMED = 10
_ONLY_LISTED = ("proposer", "parent", "patched", "attempts", "scores", "metrics")
"""What a server's list says of a trial beyond what `show` has."""


class ServerSource:
    """See controller.cli.source.Source."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return unflagged(self._client.connection.get(path, params))

    def studies(self, states: Sequence[StudyState]) -> list[Document]:
        found: list[Document] = []
        cursor: str | None = None
        while True:
            asked = {"state": [str(s) for s in states] or None, "limit": PAGE, "cursor": cursor}
            page = self._get("/studies", asked)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def anything(self, name: str, trials: int) -> tuple[str, Document]:
        if "/" in name:
            return "trial", self.trial(name)
        if is_promotion_name(name):
            return "candidate", self._get(f"/candidates/{find_candidate_id(self._client, name)}")
        for kind, read in (
            ("study", self._named),
            ("trial", self.trial),
            ("candidate", self._candidate),
            ("study", self._beginning),
        ):
            try:
                found = read(name)
            except NotFound:
                continue
            if kind == "study":
                found["trials"] = self._latest(str(found["study"]), trials)
            return kind, found
        raise NotFound(
            f"no study, trial or candidate has the id or name {plain(name)}: `arl studies` "
            "lists the studies, `arl models` what was promoted (NAME:NUMBER)"
        )

    def study(self, name: str) -> Document:
        """By id, unique name, unique beginning of an id, or `last`. Raises NotFound, Conflict."""
        try:
            return self._named(name)
        except NotFound:
            return self._beginning(name)

    def study_id(self, name: str) -> str:
        """Of the study that a user calls so. Raises NotFound, Conflict."""
        return str(self.study(name)["study"])

    def _named(self, name: str) -> Document:
        if name == LAST:
            page = self._get("/studies", {"limit": 1})
            if not page["items"]:
                raise NotFound("the server holds no study yet: `arl submit STUDY.yaml` sends one")
            name = str(page["items"][0]["study"])
        found: Document = self._get(f"/studies/{name}")
        return found

    def _beginning(self, name: str) -> Document:
        ids = [str(study["study"]) for study in self.studies(())] if name else []
        found = [study_id for study_id in ids if study_id.startswith(name)]
        if len(found) > 1:
            raise Conflict(f"several studies begin with {plain(name)}: say which ({_few(found)})")
        if not found:
            raise NotFound(f"no study has the id or name {plain(name)}: `arl studies` lists them")
        return self._named(found[0])

    def _candidate(self, name: str) -> Document:
        found: Document = self._get(f"/candidates/{name}")
        return found

    def _latest(self, study: str, count: int) -> list[Any]:
        if not count:
            return []
        asked = {"sort": "number", "order": "desc", "limit": count}
        items = reversed(self._get(f"/studies/{study}/trials", asked)["items"])
        return [{k: v for k, v in item.items() if k not in _ONLY_LISTED} for item in items]

    def trial(self, name: str) -> Document:
        document: Document = self._get(self.trial_path(name))
        attempts: Any = document["attempts"]
        document["log_tails"] = {a["id"]: self._tail(a["id"]) for a in attempts}
        return document

    def trial_path(self, name: str) -> str:
        """Of a trial by id, or as STUDY/NUMBER. Raises NotFound, Conflict."""
        study, slash, number = name.rpartition("/")
        if not slash:
            return f"/trials/{name}"
        if not (number.isdecimal() and len(number) < 10):
            raise NotFound(f"study {plain(study)} has no trial {plain(number)}")
        return f"/studies/{self.study_id(study)}/trials/{int(number)}"

    def _tail(self, attempt: str) -> str:
        asked = {"offset": -TAIL_BYTES, "limit": TAIL_BYTES}
        return str(self._get(f"/attempts/{attempt}/log", asked)["text"]).strip("\n")

    def lineage(self, candidate: str) -> Document:
        found_id = find_candidate_id(self._client, candidate)
        found: Document = self._get(f"/candidates/{found_id}/lineage")
        return found

    def log(self, attempt: str, offset: int) -> tuple[str, int]:
        asked = {"offset": offset, "limit": 1024 * 1024}
        found = self._get(f"/attempts/{attempt}/log", asked)
        return str(found["text"]), int(found["next_offset"])


def _few(ids: Sequence[str]) -> str:
    return ", ".join(ids[:MOST_NAMED]) + (", …" if len(ids) > MOST_NAMED else "")
