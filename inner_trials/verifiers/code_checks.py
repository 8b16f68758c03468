"""Runs a data set's own test code, with the model's function behind a pipe.

Run as one text with what it imports. The first line in holds the test code; every call of
the function is one line out and one in; the last line out is the verdict. The code under test is
in another process: it cannot reach what the tests expect, or the verdict.
"""

import json

from inner_trials.verifiers.code_limits import set_limits
from inner_trials.verifiers.code_wire import (
    attempt,
    decoded,
    encoded,
    reply,
    take_channel,
)


def main() -> None:
    requests, replies = take_channel()
    first = json.loads(requests.readline())
    set_limits(first["limits"])

    def candidate(*arguments: object, **named: object) -> object:
        call = [first["entry_point"], encoded(list(arguments)), encoded(named)]
        reply(replies, {"call": call})
        answer = json.loads(requests.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return decoded(answer["value"])

    def run() -> None:
        names: dict[str, object] = {"__name__": "tests", first["entry_point"]: candidate}
        exec(compile(first["code"], "tests", "exec"), names)
        check = names.get("check")
        if callable(check):
            check(candidate)

    reply(replies, {"verdict": attempt(run).get("error", "passed")})


main()
