"""One example of each document of the job protocol, for its description."""

from typing import Final

from pydantic import JsonValue

DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

ATTEMPT: Final[dict[str, JsonValue]] = {
    "owner": "l3f0c9a1b2",
    "kind": "train",
    "program": {
        "argv": ["{python}", "train.py"],
        "python": "/usr/bin/python3",
        "environment": {"HF_HUB_OFFLINE": "1"},
        "working_input": "source",
    },
    "inputs": {"source": DIGEST},
    "document": {"format": 1, "trial": "s1a2b-7", "parameters": {"lr": 0.0003}, "seed": 11},
    "limits": {"timeout_s": 1800.0, "grace_s": 10.0, "cpus": 4.0, "gpus": 1},
}
OBSERVATION: Final[dict[str, JsonValue]] = {
    "state": "ended",
    "cursor": "128",
    "more": False,
    "rejected": 0,
    "values": [{"step": 10, "metric": "loss", "value": 0.41}],
    "requests": [],
    "timeout_s": 1800.0,
    "grace_s": 10.0,
    "exit": {"cause": "exited", "code": 0, "detail": "", "wall_s": 61.2, "cpu_s": 58.0},
}
NEWS: Final[dict[str, JsonValue]] = {
    "cursor": "5f1e0c9b2a7d4e36:42",
    "reset": False,
    "changed": [{"name": "arl-s1a2b-7.t-0", "running": False}],
}
OUTPUTS: Final[dict[str, JsonValue]] = {
    "entries": [
        {"path": "model", "kind": "directory"},
        {"path": "model/weights.safetensors", "kind": "file", "size": 4, "digest": DIGEST},
    ],
    "after": None,
}
MACHINE: Final[dict[str, JsonValue]] = {
    "name": "arl-0123456789abcdef01234567",
    "owner": "l3f0c9a1b2",
    "study": "s1a2b",
    "machine": {"target": "bubblewrap", "slots": 2},
    "idle_s": 900.0,
    "lease_s": 86400.0,
}
PROBLEM: Final[dict[str, JsonValue]] = {
    "title": "",
    "status": 409,
    "code": "other_body",
    "detail": "attempt arl-s1a2b-7.t-0 was submitted before with another body",
}
