"""A study's share of its machines in words: what it holds, and what it waits for."""

from collections.abc import Iterator, Mapping, Sequence

from controller.cli.text import several
from ledger.records import Json

GIB = 1024**3


def share_facts(document: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Lines of `arl show STUDY`; none where nothing is unusual."""
    share = document.get("share")
    if not isinstance(share, Mapping):
        return
    weight, priority = share.get("weight"), share.get("priority")
    if weight != 1.0 or priority != 0:
        yield "share", f"weight {weight:g}, priority {priority}"
    holds = share.get("holds")
    for held in holds if isinstance(holds, Sequence) else ():
        if isinstance(held, Mapping):
            yield "holds", f"{several(held.get('trials'), 'trial')}: {_held(held)}"
    waits = share.get("waits")
    if isinstance(waits, Mapping):
        yield "waits", _waits(waits)


def _waits(waits: Mapping[str, Json]) -> str:
    behind = waits.get("held_by_others")
    held = _held(behind) if isinstance(behind, Mapping) else "nothing"
    count = behind.get("studies") if isinstance(behind, Mapping) else 0
    others = waits.get("others_waiting")
    line = f"since {waits['since']} for {_wanted(waits)} of {waits['host']}"
    if count:
        line += f"; {several(count, 'other study holds', 'other studies hold')} {held}"
    if others:
        line += f"; {several(others, 'other study waits', 'other studies wait')} for it, too"
    return line


def _wanted(waits: Mapping[str, Json]) -> str:
    gpus = waits.get("gpus")
    return _amounts(waits, several(gpus, "GPU") if gpus else "")


def _held(held: Mapping[str, Json]) -> str:
    ids = held.get("gpu_ids")
    named = ", ".join(map(str, ids)) if isinstance(ids, Sequence) else ""
    return f"{_amounts(held, f'GPU {named}' if named else '')} of {held['host']}"


def _amounts(document: Mapping[str, Json], gpus: str) -> str:
    cpus, memory = document.get("cpus"), document.get("memory_bytes")
    parts = [f"{cpus:g} cpus"] if isinstance(cpus, int | float) and cpus else []
    if isinstance(memory, int | float) and memory:
        parts.append(f"{memory / GIB:.3g} GiB")
    if gpus:
        parts.append(gpus)
    return ", ".join(parts) or "nothing"
