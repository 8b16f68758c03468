"""A trial that an outside worker holds: it reports, is told to stop, and tells the end."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from controller.api.models.outside import Handed
from controller.client.connection import Connection
from controller.client.scalars import plain_number, plain_numbers
from controller.client.uploading import Uploader
from ledger.manifests import walk_files


class OutsideTrial:
    """What `Client.ask` gives. Its token fences it: once the trial is another worker's, every
    method raises StaleFence."""

    def __init__(self, connection: Connection, handed: Handed) -> None:
        self._connection = connection
        self._headers = {"Trial-Token": handed.token}
        self.handed = handed
        # Beyond those of an earlier process that held the trial.
        self._number = time.time_ns() // 1_000_000

    @property
    def id(self) -> str:
        return self.handed.trial

    @property
    def params(self) -> Mapping[str, Any]:
        return self.handed.params

    @property
    def seed(self) -> int:
        return self.handed.seed

    def report(self, step: int, values: Mapping[str, Any], *, log: str | None = None) -> bool:
        """Record values of one step (Python, numpy or torch scalars); whether to stop now."""
        listed = [
            {"step": step, "metric": name, "value": plain_number(name, value)}
            for name, value in values.items()
        ]
        self._number += 1
        body = {"values": listed, "log": log, "number": self._number}
        answer = self._post("values", body)
        return bool(answer["should_stop"])

    def should_stop(self) -> bool:
        """Whether to save and end now; says that this worker lives."""
        return self.report(0, {})

    def fetch(self, mount: str, destination: Path) -> None:
        """Copy one of the trial's inputs into a directory, which is made."""
        address = f"/trials/{self.id}/inputs/{mount}"
        answer = self._connection.send("GET", address, headers=self._headers)
        for file in answer.json()["files"]:
            path = destination / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._connection.content(f"{address}/{file['path']}", self._headers))

    def tell(
        self,
        metrics: Mapping[str, Any] | None = None,
        *,
        model: Path | None = None,
        outcome: Literal["complete", "stopped", "failed"] = "complete",
        step: int = 0,
        detail: str = "",
    ) -> None:
        """The end of the trial; telling it again is harmless.

        Args:
            metrics: last values; in `reported` mode the objective's is believed.
            model: directory that the frozen evaluator scores.
        """
        body: dict[str, Any] = {
            "outcome": outcome,
            "metrics": plain_numbers(metrics or {}),
            "step": step,
            "detail": detail[:2000],
        }
        if model is not None:
            uploader = Uploader(self._connection)
            body["artifact"] = uploader.send_tree(model, list(walk_files(model)))
        self._post("tell", body)

    def _post(self, what: str, body: Any) -> Any:
        address = f"/trials/{self.id}/{what}"
        return self._connection.post(
            address, body, headers=self._headers, is_repeatable=True
        ).json()
