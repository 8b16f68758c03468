"""Runs a study's tools in a process of their own: `python tool_host.py FILE NAME …`.

Each line it reads is `{"name": ..., "arguments": {...}}`; to each it writes `{"result": "..."}`,
or `{"error": "..."}` for whatever the call ends with. With `--describe` before FILE it writes the
tools' JSON schemas and ends, or says in one line of `{"error": ...}` what is wrong with them.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO


def load(file: str, names: list[str]) -> dict[str, Callable[..., Any]]:
    """The functions of a file. Raises whatever the file raises; KeyError: it has no such one."""
    spec = importlib.util.spec_from_file_location("study_tools", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["study_tools"] = module
    spec.loader.exec_module(module)
    return {name: vars(module)[name] for name in names}


def described(functions: dict[str, Callable[..., Any]]) -> list[dict[str, Any]]:
    from transformers.utils.chat_template_utils import get_json_schema

    return [get_json_schema(function) for function in functions.values()]


def called(functions: dict[str, Callable[..., Any]], line: str) -> dict[str, str]:
    try:
        call = json.loads(line)
        return {"result": str(functions[call["name"]](**call["arguments"]))}
    except Exception as error:  # noqa: BLE001  # whatever a tool does is for the model to read
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def main(words: list[str], answers: TextIO) -> None:
    is_described = words[0] == "--describe"
    file, *names = words[is_described:]
    try:
        functions = load(file, names)
        if is_described:
            print(json.dumps({"tools": described(functions)}), file=answers, flush=True)
            return
    except BaseException as error:  # noqa: BLE001  # a study's file may do anything
        said = (
            f"has no {error}"
            if isinstance(error, KeyError)
            else f"{type(error).__name__}: {error}"
        )
        print(json.dumps({"error": said[:500]}), file=answers, flush=True)
        return
    for line in sys.stdin:
        print(json.dumps(called(functions, line)), file=answers, flush=True)


if __name__ == "__main__":
    # What a tool prints is not an answer.
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(sys.argv[1:], own)
