"""The evaluator's side of `answers` mode, against candidates that keep to it and others."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evaluator.programs.answers import Answers

Candidate = Callable[[int, int], None]


@contextmanager
def asking(candidate: Candidate, **limits: float) -> Iterator[Answers]:
    """An Answers whose other ends a thread holds; the candidate gets (read fd, write fd)."""
    ask_read, ask_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def run() -> None:
        try:
            candidate(ask_read, answer_write)
        finally:
            os.close(answer_write)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        settings = {"answer_timeout_s": 0.2, "start_timeout_s": 2.0, **limits}
        yield Answers(ask_fd=ask_write, answer_fd=answer_read, **settings)  # type: ignore[arg-type]
    finally:
        os.close(ask_write)
        os.close(answer_read)
        thread.join(5)
        os.close(ask_read)


def requests(fd: int) -> Iterator[dict[str, list[str]]]:
    pending = b""
    while data := os.read(fd, 65536):
        pending += data
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            yield json.loads(line)


def echo(ask: int, answer: int) -> None:
    for request in requests(ask):
        reply = json.dumps({"answers": [f"<{i}>" for i in request["inputs"]]}).encode() + b"\n"
        try:
            while reply:
                reply = reply[os.write(answer, reply) :]
        except BrokenPipeError:
            return


def replying(*replies: bytes) -> Candidate:
    def candidate(ask: int, answer: int) -> None:
        for _, reply in zip(requests(ask), replies, strict=False):
            try:
                os.write(answer, reply)
            except BrokenPipeError:
                return
        for _ in requests(ask):
            pass

    return candidate


def test_answers_come_back_in_order_batch_by_batch() -> None:
    with asking(echo) as answers:
        for size in (32, 32, 6):
            assert answers.ask([f"q{i}" for i in range(size)]) == [f"<q{i}>" for i in range(size)]
    assert answers.failure is None


def test_batches_larger_than_a_pipe_pass_both_ways() -> None:
    large = ["x" * 3000] * 100
    with asking(echo) as answers:
        assert answers.ask(large) == ["<" + "x" * 3000 + ">"] * 100


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"not json\n", "not one line of JSON"),
        (b"\xff\n", "not one line of JSON"),
        (b"[" * 2_000 + b"\n", "not one line of JSON"),
        (b'["a", "b"]\n', "2 answers"),
        (b'{"answers": ["a"]}\n', "2 answers"),
        (b'{"answers": ["a", "b", "c"]}\n', "2 answers"),
        (b'{"answers": ["a", 1]}\n', "not a string"),
        (b'{"answers": ["a", null]}\n', "not a string"),
        (b'{"answers": ["a", "\\ud800"]}\n', "not valid Unicode"),
        (b'{"answers": ["a", "' + b"x" * 101 + b'"]}\n', "longer than 100 characters"),
        (b'{"answers": ["a", "b"]}\n{"answers": ["c", "d"]}\n', "more than one line"),
        (b"x" * 10_000, "longer than"),
    ],
)
def test_what_is_not_one_answer_per_input_is_no_answer(reply: bytes, said: str) -> None:
    with asking(replying(reply), answer_chars=100) as answers:
        assert answers.ask(["p", "q"]) == [None, None]
    assert said in (answers.failure or "")


def test_a_candidate_that_says_nothing_costs_its_time_and_no_more() -> None:
    with asking(replying(), answer_timeout_s=0.02, start_timeout_s=0.0) as answers:
        assert answers.ask(["p", "q"]) == [None, None]
    assert "in time" in (answers.failure or "")


def test_a_candidate_that_never_reads_is_not_waited_for() -> None:
    def deaf(ask: int, answer: int) -> None:
        done.wait(5)

    done = threading.Event()
    with asking(deaf, answer_timeout_s=0.1, start_timeout_s=0.0) as answers:
        assert answers.ask(["x" * 10_000_000]) == [None]
        done.set()
    assert "in time" in (answers.failure or "")


def test_a_candidate_that_leaves_has_no_further_answers() -> None:
    def leaves(ask: int, answer: int) -> None:
        next(requests(ask))
        os.write(answer, b'{"answers": ["a"]}\n')

    with asking(leaves) as answers:
        assert answers.ask(["p"]) == ["a"]
        assert answers.ask(["q"]) == [None]
        assert "batch 1: the candidate has left" in (answers.failure or "")
        assert answers.ask(["r"]) == [None]


def test_nothing_is_read_after_a_bad_batch() -> None:
    """The rest of a bad answer must not pass for the next one."""
    with asking(replying(b"bad\n", b'{"answers": ["late"]}\n')) as answers:
        assert answers.ask(["p"]) == [None]
        assert answers.ask(["q"]) == [None]
    assert "batch 0" in (answers.failure or "")


def test_asking_nothing_asks_nobody() -> None:
    with asking(replying(b"bad\n")) as answers:
        assert answers.ask([]) == []
    assert answers.failure is None


def test_without_answers_mode_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARL_ASK_FD", raising=False)
    with pytest.raises(KeyError):
        Answers()
