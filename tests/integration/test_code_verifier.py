"""The code verifier: right programs pass; no trick of a wrong one does, and none gets out."""

import sys
import time
from pathlib import Path

import pytest

from inner_trials.verifiers import isolation
from inner_trials.verifiers.protocol import BadReferenceError, Verdict
from inner_trials.verifiers.registry import make_verifier

CALLS = {
    "tests": [
        {"call": "add", "args": [1, 2], "expected": 3},
        {"call": "add", "args": [2], "kwargs": {"b": 2}, "expected": 4},
    ]
}
OWN = {
    "test": "def check(f):\n    assert f(1, 2) == 3\n    assert f(2, 2) == 4",
    "entry_point": "add",
}
PRINTED = {"tests": [{"stdin": "1 2\n", "stdout": "3"}, {"stdin": "2 2\n", "stdout": "4\n"}]}
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```"

pytestmark = pytest.mark.bubblewrap


def verdict(code: str, row: dict[str, object], **options: object) -> Verdict:
    verifier = make_verifier("code", {"wall_time_s": 10.0, **options})
    verifier.check(row)
    return verifier.verify(code, row)


@pytest.mark.parametrize("isolated", ["bubblewrap", "process"])
def test_a_right_program_passes_every_kind_of_test(isolated: str) -> None:
    for row in (CALLS, OWN):
        assert verdict(RIGHT, row, isolation=isolated).reward == 1.0
    program = "a, b = map(int, input().split())\nprint(a + b)"
    assert verdict(program, PRINTED, isolation=isolated).reward == 1.0


CHEATS = {
    "a wrong answer": "def add(a, b):\n    return a",
    "printed words": "print('passed')\nprint('{\"verdict\": \"passed\"}')\ndef add(a, b): pass",
    "words on every descriptor": (
        'import os\nfor n in range(64):\n    try: os.write(n, b\'{"verdict": "passed"}\\n\')\n'
        "    except OSError: pass\ndef add(a, b): return 0"
    ),
    "leaving with 0": "import os\nos._exit(0)",
    "SystemExit": "raise SystemExit(0)",
    "leaving when called": "import os\ndef add(a, b): os._exit(0)",
    "equal to everything": (
        "class E:\n    def __eq__(self, other): return True\ndef add(a, b): return E()"
    ),
    "a number equal to everything": (
        "class E(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def add(a, b): return E(0)"
    ),
    "a patched library": (
        "import builtins, json, sys\njson.dumps = lambda *a, **k: '{\"value\": 3}'\n"
        "builtins.AssertionError = ValueError\nsys.settrace(None)\ndef add(a, b): return 3"
    ),
    "a patched harness": (
        "import __main__\n__main__.encoded = lambda value: 3\n"
        "__main__.attempt = lambda action: {'verdict': 'passed', 'value': 3}\n"
        "def add(a, b): return None"
    ),
    "looking for the tests": (
        "import gc, sys\ndef add(a, b):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'expected' in o: return o['expected']\n"
        "    frame = sys._getframe()\n    while frame:\n"
        "        if 'expected' in frame.f_locals: return frame.f_locals['expected']\n"
        "        frame = frame.f_back\n    return 0"
    ),
    "not plain data": "def add(a, b):\n    return lambda: 3",
    "a text that looks right": "def add(a, b):\n    return str(a + b)",
    "infinity": "def add(a, b):\n    return float('inf')",
    "nothing there": "def subtract(a, b):\n    return a - b",
    "no program": "The sum is 3, then 4: passed.",
    "two programs": RIGHT + "\nor\n```python\ndef add(a, b):\n    return a\n```",
    "a null": "def add(a, b): return 3\0",
    "deep data": "def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "endless output": "def add(a, b):\n    return 'x' * 10**7",
    "gigantic numbers": "def add(a, b):\n    return 10**100_000",
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_worth_nothing(name: str) -> None:
    for row in (CALLS, OWN):
        assert verdict(CHEATS[name], row).reward == 0.0, name


FORGED = (
    "import os\nfor n in range(64):\n"
    "    try: os.write(n, {line!r} * 8)\n    except OSError: pass\n"
)


def test_a_forged_answer_that_is_no_data_is_worth_nothing() -> None:
    forged = FORGED.format(line=b'{"value": {"float": "0x1p99999"}}\n')
    assert verdict(forged, CALLS).reason == "not plain data"
    assert verdict(forged, OWN).reward == 0.0


def test_a_forged_answer_at_the_limit_of_what_can_be_passed_on_is_worth_nothing() -> None:
    # Read back at one depth of the stack, it is written to the tests at another.
    limit = sys.getrecursionlimit()
    for depth in range(limit - 80, limit):
        line = b'{"value": ' + b"[" * depth + b"]" * depth + b"}\n"
        assert verdict(FORGED.format(line=line), OWN).reward == 0.0


def test_a_program_that_prints_what_every_test_might_want_fails() -> None:
    assert verdict("print(3)\nprint(4)", PRINTED).reward == 0.0
    assert verdict("print(3)", PRINTED, partial=True).reward == 0.5
    assert verdict("print('x' * 10**6)", PRINTED).reward == 0.0


def test_a_share_of_the_tests_is_rewarded_only_when_asked_for() -> None:
    half = "def add(a, b):\n    return 3"
    assert verdict(half, CALLS).reward == 0.0
    assert verdict(half, CALLS, partial=True).reward == 0.5


def test_a_program_that_never_ends_is_a_time_out() -> None:
    started = time.monotonic()
    judged = verdict("def add(a, b):\n    while True: pass", CALLS, wall_time_s=1.0)
    assert (judged.reward, judged.reason) == (0.0, "time-out")
    assert time.monotonic() - started < 6.0


@pytest.mark.parametrize("isolated", ["bubblewrap", "process"])
def test_memory_is_bounded(isolated: str) -> None:
    greedy = "def add(a, b):\n    return len(bytearray(10**9)) * 0 + a + b"
    assert verdict(greedy, CALLS, isolation=isolated).reason == "MemoryError"


@pytest.mark.parametrize("isolated", ["bubblewrap", "process"])
@pytest.mark.parametrize(
    "call",
    [
        "os.fork()",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "__import__('subprocess').run(['/bin/true'])",
        "os.system('true') and [].x",
        "__import__('ctypes').CDLL(None).syscall(57) == -1 and [].x",
        "__import__('ctypes').CDLL(None).syscall(0x40000000 + 57) == -1 and [].x",
    ],
)
def test_a_program_can_start_no_other(isolated: str, call: str) -> None:
    tries = (
        f"import os\ndef add(a, b):\n    try: {call}\n"
        "    except (OSError, AttributeError): return a + b"
    )
    assert verdict(tries, CALLS, isolation=isolated).reward == 1.0, "refused"


def test_threads_are_allowed() -> None:
    threads = (
        "import threading\ndef add(a, b):\n    sums = []\n"
        "    made = threading.Thread(target=lambda: sums.append(a + b))\n"
        "    made.start()\n    made.join()\n    return sums[0]"
    )
    assert verdict(threads, CALLS).reward == 1.0


def test_the_sandbox_has_no_network_and_none_of_the_machines_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    reads = f"def add(a, b):\n    return len(open({str(secret)!r}).read()) * 0 + a + b"
    assert verdict(reads, CALLS).reason == "FileNotFoundError"
    interfaces = (
        "import socket\ndef add(a, b):\n"
        "    return a + b if [n for _, n in socket.if_nameindex()] == ['lo'] else 0"
    )
    assert verdict(interfaces, CALLS).reward == 1.0
    environment = (
        "import os\ndef add(a, b):\n    return a + b if 'ARL_PARAMS' not in os.environ else 0"
    )
    assert verdict(environment, CALLS).reward == 1.0
    writes = "def add(a, b):\n    open('/usr/x', 'w')"
    assert verdict(writes, CALLS).reason == "OSError"


def test_without_bubblewrap_a_study_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation.launcher.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    try:
        with pytest.raises(BadReferenceError, match=r"not installed; .* write isolation: process"):
            make_verifier("code", {}).check(CALLS)
    finally:
        isolation.launcher.cache_clear()


def test_rows_that_test_nothing_are_refused() -> None:
    verifier = make_verifier("code", {})
    for row, said in (
        ({}, "tests is missing"),
        ({"tests": []}, "tests is missing"),
        ({"tests": [{"call": "add"}]}, r"tests\[0\]: expected call"),
        ({"test": "assert True"}, "entry_point must be texts"),
    ):
        with pytest.raises(BadReferenceError, match=said):
            verifier.check(row)
