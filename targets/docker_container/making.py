"""How an attempt's containers come to be and to run, whatever the engine does meanwhile."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from targets.docker_container.box import Box, BoxLog, TakenName
from targets.docker_container.calls import GONE, Refusal, Trouble
from targets.docker_container.events import is_certain
from targets.docker_container.lending import lend
from targets.docker_container.pull import Pull
from targets.docker_container.surroundings import Surroundings
from targets.docker_container.turns import Turns
from targets.layout import Fact

_T = TypeVar("_T")
_SOONEST_S: Final = 0.05
_LATEST_S: Final = 2.0
"""Between two tries to have a troubled engine do something."""


class Unmade(Exception):
    """The program could not be started: a cause, and a sentence."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class Unwanted(Exception):
    """The attempt was asked to end meanwhile."""


class Making:
    """Everything here waits for an engine that is away, and hears the keeper meanwhile."""

    def __init__(self, around: Surroundings, turns: Turns, is_wanted: Callable[[], bool]) -> None:
        self._around = around
        self._turns = turns
        self._is_wanted = is_wanted

    def insist(self, call: Callable[[], _T], *, until_unwanted: bool = True) -> _T:
        """What `call` returns, made again until the engine answers it. Raises Refusal, and
        Unwanted unless it must be had in any case."""
        delay_s = _SOONEST_S
        while True:
            try:
                return call()
            except Trouble as trouble:
                self._around.on_trouble(str(trouble))
            until = time.monotonic() + delay_s
            while time.monotonic() < until:
                if until_unwanted:
                    self.check_wanted()
                self._turns.wait(until)
            delay_s = min(2 * delay_s, _LATEST_S)

    def check_wanted(self) -> None:
        """Raises Unwanted."""
        if not self._is_wanted():
            raise Unwanted

    def compare_engine(self, known: Fact | None) -> tuple[bool, bool]:
        """Whether another engine than `known` is there now, and whether the one that is there
        leaves alone the containers that it found."""
        now = self._around.find_identity()
        if now == known:
            return False, True
        info = self.insist(self._around.calls.info, until_unwanted=False)
        # Where engines cannot be told apart, only what engines do is laid to one.
        return True, bool(info.get("LiveRestoreEnabled")) or not is_certain(now)

    def make(self, directory: str, boxes: Sequence[Box], logs: Sequence[BoxLog]) -> None:
        """Create each container and follow its output. Raises Unmade, Unwanted."""
        try:
            for box in boxes:
                lend(directory, box.body)
        except OSError as error:
            raise Unmade("launch_failed", f"its files cannot be lent: {error}") from error
        for box, log in zip(boxes, logs, strict=True):
            self._tell(partial(self._create, box))
            self.attach(box, log, is_new=True)

    def attach(self, box: Box, log: BoxLog, *, is_new: bool) -> None:
        """Have its output written to the log; `is_new`: it was not started yet."""
        if box.log is not None:
            self._turns.drop(box.log.fileno())
        stream = self.insist(
            lambda: box.attach(self._around.socket, log, is_new=is_new), until_unwanted=False
        )
        if stream is not None:
            self._turns.add(stream.fileno(), stream.pump)

    def remove(self, box: Box) -> None:
        """End it and delete it. One that the engine ended and cannot delete just now is deleted
        later: see Surroundings.on_end. Raises Refusal."""
        try:
            self.insist(box.remove, until_unwanted=False)
        except Refusal as refusal:
            state = self.insist(box.inspect, until_unwanted=False)
            if state is not None and state["Running"]:
                raise
            self._around.on_trouble(str(refusal))

    def start(self, boxes: Sequence[Box]) -> None:
        """Start them at once: each opens a pipe that the other one must open too. Raises Unmade,
        Unwanted."""
        if len(boxes) == 1:
            self._tell(boxes[0].start)
            return
        self._tell(lambda: _start_together(boxes))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            self.insist(call)
        except TakenName as taken:
            raise Unmade("launch_failed", str(taken)) from taken
        except Refusal as refusal:
            raise Unmade("launch_failed", str(refusal)) from refusal

    def _create(self, box: Box) -> None:
        """With its image, which somebody may remove at any moment."""
        self._get_image(box)
        try:
            box.create()
        except Refusal as refusal:
            if refusal.status != GONE:
                raise
            box.forget_image()
            raise Trouble(str(refusal)) from refusal

    def _get_image(self, box: Box) -> None:
        """Pull it unless it is here. Raises Unmade, Unwanted, Trouble."""
        if box.has_image():
            return
        if box.image.startswith("sha256:"):
            detail = f"image {box.image} is not here, and no registry knows it by its id"
            raise Unmade("image_missing", detail)
        problem = self._pull(box.image)
        if problem:
            raise Unmade("image_missing", f"image {box.image} cannot be had: {problem}")
        if not box.has_image():  # the pull was cut off
            raise Trouble(f"image {box.image} was pulled and is not here")

    def _pull(self, image: str) -> str:
        pull = Pull(self._around.calls, image, self._turns.ring)
        pull.start()
        while not pull.over:
            self._turns.wait(time.monotonic() + 1.0)
            if not self._is_wanted() or pull.is_silent():
                pull.cancel()
                self.check_wanted()
                return "its registry sends nothing"
        return pull.problem


def _start_together(boxes: Sequence[Box]) -> None:
    with ThreadPoolExecutor(len(boxes)) as pool:
        for _ in pool.map(Box.start, boxes):
            pass
