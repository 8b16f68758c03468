"""What `arl plan` says of the post-training system, for people."""

from dataclasses import asdict
from typing import Final

from controller.cli.output import console, table
from controller.cli.text import plain
from controller.documents.plan_system import Rollouts, System
from inner_trials.plan import Plan
from inner_trials.planning.axes import AUTO, NONE
from inner_trials.planning.memory import Memory

MIB: Final = 2**20


def print_system(system: System) -> None:
    """For people: what is usual is not said."""
    implied, rollouts = system.implied, system.rollouts
    rows = [
        ("system", _sentence(system.plan)),
        ("called", "; ".join(implied.called)),
        ("needs", "; ".join(implied.needs)),
        ("leaves", "; ".join(implied.leaves)),
        ("does without", "; ".join(implied.does_without)),
        ("to verify", "; ".join(implied.to_verify)),
        ("memory, about", _memory_words(system.memory) or f"unknown: {plain(system.no_memory)}"),
    ]
    if rollouts is not None:
        rows.append(("rollouts", _rollout_words(rollouts)))
    console().print(table("plan", "", rows=[row for row in rows if row[1]]))


def _sentence(plan: Plan) -> str:
    usual = Plan(
        *("", "", "", "", NONE, NONE, NONE, 0, NONE, "", NONE, NONE, NONE, "arl"),
    )
    said = {
        axis: value
        for axis, value in asdict(plan).items()
        if axis != "name" and value != asdict(usual)[axis] and value not in (AUTO, None)
    }
    return ", ".join(f"{axis} {value}" for axis, value in said.items())


def _memory_words(memory: Memory | None) -> str:
    if memory is None:
        return ""
    kinds = ("weights", "gradients", "optimizer", "activations", "reference", "value_model")
    sizes = {kind.replace("_", " "): getattr(memory, kind) for kind in kinds}
    parts = [f"{kind} {_size(size)}" for kind, size in sizes.items() if size]
    words = f"{_size(memory.trainer)} a trainer process ({', '.join(parts)})"
    if memory.actor:
        cache = _size(memory.kv_cache)
        words += f"; {_size(memory.actor)} an actor (weights and {cache} of KV cache)"
    return words


def _rollout_words(rollouts: Rollouts) -> str:
    return (
        f"{rollouts.prompts} prompts x {rollouts.group_size} x {rollouts.average_tokens} tokens "
        f"at {rollouts.tokens_per_second_per_gpu} tokens/s in {rollouts.window_s} s need at least "
        f"{rollouts.gpus} rollout GPUs"
    )


def _size(size_bytes: int) -> str:
    if size_bytes < MIB:
        return f"{size_bytes / 1024:.0f} KiB"
    return (
        f"{size_bytes / MIB:.0f} MiB"
        if size_bytes < 1024 * MIB
        else f"{size_bytes / 2**30:.1f} GiB"
    )
