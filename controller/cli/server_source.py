"""Source over a server's API: the same documents, read from elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.cli.server_promotions import find_candidate_id
from controller.cli.source import TAIL_BYTES, Document
from controller.client import Client
from controller.documents.finite import unflagged
from controller.documents.plain_text import plain
from controller.registry.names import is_promotion_name
from ledger.errors import NotFound
from ledger.states import StudyState

LAST = "last"
PAGE = 200
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
        for kind, read in (("study", self.study), ("trial", self.trial)):
            try:
                found = read(name)
            except NotFound:
                continue
            if kind == "study":
                found["trials"] = self._latest(str(found["study"]), trials)
            return kind, found
        try:
            return "candidate", self._get(f"/candidates/{name}")
        except NotFound:
            raise NotFound(
                f"no study, trial or candidate has the id or name {plain(name)}: `arl studies` "
                "lists the studies, `arl models` what was promoted (NAME:NUMBER)"
            ) from None

    def study(self, name: str) -> Document:
        """By id, unique name, or `last`."""
        found: Document = self._get(f"/studies/{self.study_id(name)}")
        return found

    def study_id(self, name: str) -> str:
        """What the server calls the study that a user calls so. Raises NotFound."""
        if name != LAST:
            return name
        page = self._get("/studies", {"limit": 1})
        if not page["items"]:
            raise NotFound("the server holds no study yet: `arl submit STUDY.yaml` sends one")
        return str(page["items"][0]["study"])

    def _latest(self, study: str, count: int) -> list[Any]:
        if not count:
            return []
        asked = {"sort": "number", "order": "desc", "limit": count}
        items = reversed(self._get(f"/studies/{study}/trials", asked)["items"])
        return [{k: v for k, v in item.items() if k not in _ONLY_LISTED} for item in items]

    def trial(self, name: str) -> Document:
        study, slash, number = name.rpartition("/")
        path = f"/studies/{self.study_id(study)}/trials/{number}" if slash else f"/trials/{name}"
        document: Document = self._get(path)
        attempts: Any = document["attempts"]
        document["log_tails"] = {a["id"]: self._tail(a["id"]) for a in attempts}
        return document

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
