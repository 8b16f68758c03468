"""What a controller asks of some node of a cluster about a program; runs there."""

from collections.abc import Mapping
from typing import Any

from ledger.errors import ArlError
from targets.ray_job.place import NodeCache, choose_sandbox, node_home, node_target
from targets.ray_job.records import program_from_json
from targets.ray_job.storage import open_store


def answer(order: Mapping[str, Any], node: str) -> dict[str, str]:
    """What a controller asks of some node about a program: `fingerprint` or `pin`. An error of
    ours comes back by its code."""
    program = program_from_json(order["program"])
    home = node_home(order["storage"])
    cache = NodeCache(home, open_store(order["storage"]))
    try:
        target = node_target(choose_sandbox(order["sandbox"], program), home, cache, node)
        try:
            if order["ask"] == "pin":
                return {"image": target.pin(program).image or ""}
            return {"fingerprint": target.fingerprint(program)}
        finally:
            target.close()
    except ArlError as error:
        return {"error": error.code, "detail": str(error)}
    finally:
        cache.close()
