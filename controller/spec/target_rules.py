"""The rules of the `target` section, and of where evaluations run."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from controller.spec.egress_rules import held_to_the_list, listed_hosts
from controller.spec.errors import Problem, shown
from controller.spec.notify import SECRET
from controller.spec.study import StudySpec

Rule: TypeAlias = Callable[[StudySpec], Iterator[Problem]]

KEYS: Final = {
    "image": ("docker", "ray"),
    "runtime": ("docker",),
    "url": ("http",),
    "secret": ("http",),
    "machine": ("http",),
    "address": ("ray",),
    "storage": ("ray",),
    "sandbox": ("ray",),
    "resources": ("ray",),
}
"""Which targets read each key of the section; `name` and `egress` are read by all."""

_HOLDS_KEY: Final = re.compile(
    r"//[^/]*@|[?&#;][^=&]*(pass|secret|token|key|credential|signature)[^=&]*=", re.IGNORECASE
)

NEEDED: Final = {
    "http": {
        "url": "write where the service is, like https://gpus.example.org",
        "secret": "name ARL's environment variable that holds it, like ARL_SECRET_GPUS",
    },
    "ray": {
        "address": "write the cluster's, like ray://head:10001, or auto",
        "storage": "write what every node reaches, like file:///mnt/shared/arl or s3://bucket/arl",
    },
}


def _keys(spec: StudySpec) -> Iterator[Problem]:
    target = spec.target
    for key, readers in KEYS.items():
        value = getattr(target, key)
        if value and target.name not in readers:
            yield Problem(
                f"target.{key}",
                f"target {target.name} does not read it",
                f"remove it, or write target.name: {' or '.join(readers)}",
                shown(value),
            )
    for key, remedy in NEEDED.get(target.name, {}).items():
        if not getattr(target, key):
            yield Problem(f"target.{key}", f"target {target.name} needs it", remedy)


def _secrets(spec: StudySpec) -> Iterator[Problem]:
    """What a study file says is stored, and shown to whoever may read the study."""
    target = spec.target
    if target.secret is not None and SECRET.match(target.secret) is None:
        yield Problem(
            "target.secret",
            "it is the name of an environment variable of ARL's, never the secret itself",
            "write a name like ARL_SECRET_GPUS",
        )
    for key in ("url", "address", "storage"):
        if _HOLDS_KEY.search(getattr(target, key) or ""):
            yield Problem(
                f"target.{key}",
                "a user, a password or a key in an address would be stored",
                "remove it: for http sign with target.secret, for ray give every node its own "
                "credentials",
            )


def _url(spec: StudySpec) -> Iterator[Problem]:
    url = spec.target.url
    if url is not None and not _is_address(url):
        yield Problem(
            "target.url",
            "it is the address of a service",
            "write one like https://gpus.example.org or https://gpus.example.org:8443",
            shown(url),
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _resources(spec: StudySpec) -> Iterator[Problem]:
    for name, amount in spec.target.resources.items():
        if not amount > 0:
            yield Problem(
                f"target.resources.{name}",
                "a trial takes more than nothing of a resource",
                "write a positive number or remove it",
                shown(amount),
            )


def _evaluator(spec: StudySpec) -> Iterator[Problem]:
    evaluator, name = spec.evaluator, spec.target.name
    chosen = evaluator.target or name
    if evaluator.image is not None and chosen not in ("docker", "ray"):
        yield Problem(
            "evaluator.image",
            f"target {chosen} runs no images",
            "remove it, or write evaluator.target: docker",
            shown(evaluator.image),
        )
    if evaluator.target in ("http", "ray") and evaluator.target != name:
        yield Problem(
            "evaluator.target",
            "only the target that trials run on may be a remote one",
            f"write target.name: {evaluator.target} too, or docker, bubblewrap or local here",
            shown(evaluator.target),
        )


TARGET_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("target",), _keys),
    (("target",), _secrets),
    (("target",), _url),
    (("target",), _resources),
    (("target", "evaluator"), _evaluator),
    (("target",), listed_hosts),
    (("target", "evaluator"), held_to_the_list),
)
