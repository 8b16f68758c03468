"""Work that nobody waits for fails where somebody can see it."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.jobs import unattended


def test_what_fails_beside_the_loop_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fails(what: str) -> None:
        done.append(what)
        raise OSError(5, "Input/output error")

    with caplog.at_level(logging.ERROR, "arl.jobs"), ThreadPoolExecutor(1) as pool:
        unattended(pool, fails, "first")
        unattended(pool, done.append, "second")
    assert done == ["first", "second"]
    (record,) = caplog.records
    assert "Input/output error" in record.getMessage()
    assert record.exc_info is not None
