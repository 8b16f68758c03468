"""The containers of one attempt: its program's own, the answerer's, and its way out."""

import json
import time
from typing import Final

from targets import layout
from targets.docker_container.box import Box, BoxLog
from targets.docker_container.containment import CONTAINER, NETWORK
from targets.docker_container.making import Making, Unmade
from targets.docker_container.network import Network
from targets.docker_container.surroundings import Surroundings
from targets.docker_container.turns import Turns
from targets.docker_container.usage import Usage
from targets.program_log import read_log
from targets.spawning import Launch

_LOG_PATIENCE_S: Final = 3.0
_LINE_BYTES: Final = 2000


def read_launch(directory: str) -> Launch:
    """The launch file of the attempt in a directory, with its container's plan. Raises Unmade."""
    try:
        with open(f"{directory}/{layout.LAUNCH}", "rb", buffering=0) as file:
            launch: Launch = json.loads(file.read())
        launch[CONTAINER]["body"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unmade("launch_failed", f"its launch file is damaged: {error!r}") from error
    if layout.is_copy(directory):  # so are the marks of its containers
        raise Unmade("lost", layout.COPIED)
    return launch


class Parts:
    """Made by the launch file alone: by whom they were created is no matter."""

    def __init__(
        self, around: Surroundings, making: Making, turns: Turns, directory: str, launch: Launch
    ) -> None:
        """Raises Unwanted: the engine is away, and the attempt is not wanted any more."""
        self._making = making
        self._turns = turns
        self._directory = directory
        info = making.insist(around.find_info)

        def box(plan: Launch) -> Box:
            return Box(around.calls, info, plan)

        self.own = box(launch[CONTAINER])
        self.boxes = [self.own]
        if launch["answerer"] is not None:
            self.boxes.append(box(launch["answerer"][CONTAINER]))
        names = (layout.LOG, layout.ANSWERER_LOG)[: len(self.boxes)]
        self.logs = [BoxLog(f"{directory}/{name}", launch["log_bytes"]) for name in names]
        self.network: Network | None = None
        if launch.get(NETWORK):
            plan = box(launch[NETWORK])
            self.network = Network(making, turns, plan, directory, launch["proxy"])

    def adopt(self) -> bool:
        """Listen to what an earlier keeper made; whether the program's container is there."""
        for box, log in zip(self.boxes, self.logs, strict=True):
            state = self._making.insist(box.inspect, until_unwanted=False)
            if state is not None:
                self._making.attach(box, log, is_new=state["Status"] == "created")
                box.was_tried = True
        return self.own.was_tried

    def listen_again(self) -> None:
        """The engine that told of their output went away."""
        for box, log in zip(self.boxes, self.logs, strict=True):
            self._making.attach(box, log, is_new=False)

    def follow_answerer(self) -> None:
        """So that what it uses is known."""
        for box in self.boxes[1:]:
            state = self._making.insist(box.inspect, until_unwanted=False)
            if state is not None:
                box.watch_process(int(state["Pid"]))

    def measure(self) -> Usage:
        """What the program used so far."""
        self.own.measure()
        return self.own.usage

    def end_helpers(self) -> None:
        """The program has ended: nothing else of the attempt is to run."""
        for box in self.boxes[1:]:
            self.remove(box)
        if self.network is not None:
            self.network.end()

    def remove(self, box: Box) -> None:
        box.measure()
        self._making.remove(box)

    def left(self) -> list[str]:
        """Containers that may not be deleted yet, by id."""
        ids = [box.id for box in self.boxes]
        if self.network is not None:
            ids.append(self.network.id)
        return [found for found in ids if found]

    def drain(self) -> None:
        """Take what is left of the output, which ends with the containers."""
        until = time.monotonic() + _LOG_PATIENCE_S
        while time.monotonic() < until and any(
            box.log is not None and self._turns.has(box.log.fileno()) for box in self.boxes
        ):
            self._turns.wait(until)

    def read_last_line(self) -> str:
        """Of the program's log."""
        path, total = f"{self._directory}/{layout.LOG}", self.logs[0].total
        data, _, _ = read_log(path, max(total - _LINE_BYTES, 0), _LINE_BYTES)
        lines = data.decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        for box, log in zip(self.boxes, self.logs, strict=True):
            box.close()
            log.close()
