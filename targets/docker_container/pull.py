"""Getting an image that is not here, beside whatever else its attempt must listen to."""

import json
import threading
import time
from collections.abc import Callable
from typing import Final

from docker.types import CancellableStream

from targets.docker_container.calls import EngineCalls, Refusal, Trouble
from targets.layout import one_line

SILENCE_S: Final = 300.0
"""A registry that sends nothing for so long is given up."""


class Pull(threading.Thread):
    """One pull. Give it up with `cancel`; `over` is set, and the bell rung, once it is done."""

    def __init__(self, calls: EngineCalls, image: str, ring: Callable[[], None]) -> None:
        super().__init__(name=f"pull {image}", daemon=True)
        self._calls = calls
        self._image = image
        self._ring = ring
        self._stream: CancellableStream | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._heard_at = time.monotonic()
        self.over = False
        self.problem = ""
        """Why there is no image; empty: it is here, or worth another try."""

    def run(self) -> None:
        try:
            self.problem = self._pull()
        except Refusal as refusal:
            self.problem = str(refusal)
        except Trouble:
            pass  # the engine went away: it is asked for again once that is back
        finally:
            self.over = True
            self._ring()

    def is_silent(self) -> bool:
        return time.monotonic() - self._heard_at > SILENCE_S

    def cancel(self) -> None:
        """The engine gives up when nobody listens any more."""
        with self._lock:
            self._cancelled = True
            if self._stream is not None:
                self._close(self._stream)

    def _pull(self) -> str:
        stream = self._calls.pull(self._image)
        with self._lock:
            self._stream = stream
            if self._cancelled:
                self._close(stream)
        problem = ""
        try:
            for said in stream:
                self._heard_at = time.monotonic()
                problem = str(said.get("error") or problem)
        except (ValueError, json.JSONDecodeError, AttributeError) as error:
            raise Trouble(str(error)) from error  # cut off in the middle of a line
        return one_line(problem)

    def _close(self, stream: CancellableStream) -> None:
        try:
            stream.close()
        except (OSError, AttributeError):
            pass  # it ended by itself just now
