"""Checks that a program without egress has no network at all."""

import secrets
from dataclasses import dataclass
from typing import Final

from ledger.errors import TargetUnavailable
from targets.conformance import canaries, inside
from targets.conformance.stage import Stage
from targets.conformance.told import number, texts
from targets.conformance.verdicts import Check, Judged, Unchecked, judged
from targets.promises import Subject

LISTED: Final = "listed.invalid:443"
"""The attempt may reach it, and does not try."""
UNLISTED: Final = "unlisted.invalid"
"""Refused by name, so nobody is asked where it is."""


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


@dataclass(frozen=True, slots=True)
class EgressSeen:
    has_proxy: bool
    passed: tuple[str, ...]
    """What the proxy let through, as told by the program."""
    reached: tuple[str, ...]
    """Of this machine's own listeners."""
    refusals: tuple[str, ...]
    """Hosts recorded as asked for and refused."""


def judge_egress(seen: EgressSeen) -> list[str]:
    problems = []
    if not seen.has_proxy:
        problems.append("an attempt that may reach a host finds no proxy in its environment")
    if seen.passed:
        problems.append(f"its proxy passed on {', '.join(seen.passed)}, which are not listed")
    if seen.reached:
        problems.append(f"it reached this machine's listeners: {', '.join(seen.reached)}")
    if seen.has_proxy and UNLISTED not in seen.refusals:
        problems.append(f"the refused request for {UNLISTED} is not recorded")
    return problems


def _egress(stage: Stage) -> Judged:
    listeners = canaries.Listeners(stage.setup.work, secrets.token_hex(6))
    try:
        more = {**listeners.environment(), "UNLISTED": f"{UNLISTED}:443"}
        program = stage.python(inside.EGRESS, **more)
        ended = stage.finish(stage.launch(stage.spec(program, egress=(LISTED,))))
    except TargetUnavailable as reason:
        raise Unchecked(str(reason)) from reason
    finally:
        listeners.close()
    facts = stage.facts(ended)
    seen = EgressSeen(
        has_proxy=facts["proxy"] is True,
        passed=texts(facts, "passed"),
        reached=tuple(sorted(set(listeners.reached))),
        refusals=tuple(request.host for request in ended.requests if not request.allowed),
    )
    return judged(judge_egress(seen), "an unlisted host and this machine are refused, recorded")


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
        name="egress",
        claim="with hosts listed, a proxy refuses every other and records that it was asked",
        run=_egress,
        subjects=(Subject.EGRESS,),
    ),
    Check(
        name="names",
        claim="no name is resolved",
        run=_names,
        subjects=(Subject.NETWORK,),
    ),
)
