"""Holds a model's code and answers calls of it: one text with what it imports.

Lines of JSON in and out: first the program's text and its limits, then one line a call. What the
tests expect never comes here, and only plain data leaves: the code may break anything in this
process and gains nothing by it.
"""

import json

from inner_trials.verifiers.code_limits import set_limits
from inner_trials.verifiers.code_wire import (
    attempt,
    decoded,
    reply,
    run_program,
    take_channel,
)


def main() -> None:
    requests, replies = take_channel()
    first = json.loads(requests.readline())
    set_limits(first["limits"])
    names: dict[str, object] = {"__name__": "candidate"}
    if first["stdin"] is not None:
        reply(replies, run_program(first["code"], first["stdin"]))
        return
    reply(replies, attempt(lambda: exec(compile(first["code"], "answer", "exec"), names)))
    for line in requests:
        call = json.loads(line)
        reply(replies, attempt(lambda call=call: invoke(names, call)))  # type: ignore[misc]  # bound at once


def invoke(names: dict[str, object], call: dict[str, list[object]]) -> object:
    name, arguments, named = call["call"]
    function = names[str(name)]
    return function(*decoded(arguments), **decoded(named))  # type: ignore[operator]  # if it can be called


main()
