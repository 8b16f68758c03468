"""Shares of the machines that trials run on, on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.wire import ISO, Iso, Out, example

_HELD: dict[str, JsonValue] = {
    "host": "node1",
    "studies": 1,
    "trials": 2,
    "cpus": 4.0,
    "memory_bytes": 8589934592,
    "gpu_ids": ["0", "1"],
}
_WAITS: dict[str, JsonValue] = {
    "study": "st-7f3a",
    "host": "node1",
    "since": ISO,
    "cpus": 2.0,
    "memory_bytes": 0,
    "gpus": 1,
    "weight": 1.0,
    "priority": 0,
}


class HeldOut(Out):
    """What trials hold of a host until they end."""

    model_config = example(_HELD)
    host: str
    studies: int
    trials: int
    cpus: float
    memory_bytes: int
    gpu_ids: list[str]


class WantOut(Out):
    """A study that waits until a host has room for one more of its trials, and it is its turn."""

    model_config = example(_WAITS)
    study: str
    host: str
    since: Iso = Field(description="Of its last turn.")
    cpus: float
    memory_bytes: int
    gpus: int
    weight: float
    priority: int


class WaitsOut(WantOut):
    """The same, and what it waits behind."""

    model_config = example({**_WAITS, "held_by_others": _HELD, "others_waiting": 1})
    held_by_others: HeldOut
    others_waiting: int = Field(description="Studies that wait for the same host.")


class ShareOut(Out):
    """A study's share of the machines it runs on."""

    model_config = example({"weight": 2.0, "priority": 0, "holds": [_HELD], "waits": None})
    weight: float
    priority: int
    holds: list[HeldOut] = Field(description="By host.")
    waits: WaitsOut | None = Field(
        description="What it waits for; null where it waits for no room, or for under a second."
    )
