"""Checks that a program without egress has no network at all."""

import secrets
from dataclasses import dataclass
from typing import Final

from targets.conformance import canaries, inside
from targets.conformance.stage import Stage
from targets.conformance.told import number, texts
from targets.conformance.verdicts import Check, Judged, Unchecked, judged
from targets.promises import Subject


@dataclass(frozen=True, slots=True)
class NetworkSeen:
    interfaces: tuple[str, ...]
    routes: int
    reached: tuple[str, ...]
    """Of this machine's own listeners, as told by the program or by the listener."""
    resolved: str | None
    """What a public name resolved to; None: not asked, since the question might get out."""


def judge_interfaces(seen: NetworkSeen) -> list[str]:
    problems = []
    others = [name for name in seen.interfaces if name != "lo"]
    if others:
        problems.append(f"it has the network interfaces {', '.join(others)}")
    if seen.routes:
        problems.append(f"it has {seen.routes} routes")
    return problems


def judge_loopback(seen: NetworkSeen) -> list[str]:
    if not seen.reached:
        return []
    return [f"it reached this machine's listeners: {', '.join(seen.reached)}"]


def judge_names(seen: NetworkSeen) -> list[str]:
    return [f"a name was resolved, to {seen.resolved}"] if seen.resolved else []


def _look_at_network(stage: Stage, *, needs_here: bool) -> NetworkSeen:
    if needs_here:
        stage.need_here()
    listeners = canaries.Listeners(stage.setup.work, secrets.token_hex(6))
    try:
        facts = stage.facts(stage.run(stage.python(inside.NETWORK, **listeners.environment())))
    finally:
        listeners.close()
    resolved = facts["resolved"]
    return NetworkSeen(
        interfaces=texts(facts, "interfaces"),
        routes=number(facts, "routes"),
        reached=tuple(sorted({*texts(facts, "reached"), *listeners.reached})),
        resolved=None if resolved is None else str(resolved),
    )


def _interfaces(stage: Stage) -> Judged:
    seen = _look_at_network(stage, needs_here=False)
    found = ", ".join(seen.interfaces) or "none"
    return judged(judge_interfaces(seen), f"interfaces: {found}; no route")


def _loopback(stage: Stage) -> Judged:
    seen = _look_at_network(stage, needs_here=True)
    return judged(judge_loopback(seen), "TCP, UDP, abstract and file sockets out of reach")


def _names(stage: Stage) -> Judged:
    seen = _look_at_network(stage, needs_here=False)
    if seen.resolved is None:
        raise Unchecked("it has a network, so the question might get out")
    return judged(judge_names(seen), "none is resolved")


CHECKS: Final = (
    Check(
        name="interfaces",
        claim="there is no network interface but loopback, and no route",
        run=_interfaces,
        subjects=(Subject.NETWORK,),
    ),
    Check(
        name="loopback",
        claim="servers on this machine's loopback and its sockets cannot be reached",
        run=_loopback,
        subjects=(Subject.NETWORK,),
    ),
    Check(
        name="names",
        claim="no name is resolved",
        run=_names,
        subjects=(Subject.NETWORK,),
    ),
)
