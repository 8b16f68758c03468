"""Which signals ask a command to end, and who hears them meanwhile."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def ending_signals() -> tuple[signal.Signals, ...]:
    """SIGINT and SIGTERM; and SIGHUP, unless whoever started this process wants it ignored, as
    `nohup` does: closing the terminal is no request to end then."""
    asked = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return asked
    return (*asked, signal.SIGHUP)


@contextmanager
def heard_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Those signals are the handler's, until this ends."""
    before = {number: signal.signal(number, handler) for number in ending_signals()}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
