"""What a study that came over HTTP may not say: its sender has no shell here, and no keys."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from controller.api.uploads import Uploads
from controller.places import settle_targets
from controller.settings import Settings
from controller.spec.errors import Problem, StudyRefused, path, shown
from controller.spec.interpreters import interpreters
from controller.spec.paths import named_paths
from controller.spec.study import StudySpec
from ledger.errors import InvalidInput
from proposers.registry import find_proposer, parts
from targets.outbound_addresses import (
    AddressPolicy,
    AddressRefused,
    BoundedResolver,
    checked_addresses,
    parse_policy,
    resolve_by_system,
)

BLOB: Final = re.compile(r"blob:(?P<digest>[0-9a-f]{64})(?P<below>/.*)?\Z")
RESOLVE_S: Final = 5.0
RULE: Final = "over HTTP a path names content that was sent"
NO_PATH: Final = "over HTTP no path of the server is opened"
REMEDY: Final = "send it and write blob:DIGEST or blob:DIGEST/FILE, as `arl submit --server` does"


def check_remote(
    spec: StudySpec, uploads: Uploads, settings: Settings, *, may_promote: bool
) -> None:
    """Raises StudyRefused naming every path that is not the sender's own upload, every secret of
    the operator's that would go where it may not, and a promotion that asks nobody."""
    problems = [
        *_paths(spec, uploads),
        *_host_paths(spec),
        *_secrets(spec, settings),
        *_promotion(spec, may_promote=may_promote),
    ]
    if problems:
        raise StudyRefused(problems)


def _paths(spec: StudySpec, uploads: Uploads) -> Iterator[Problem]:
    for keys, value in named_paths(spec):
        field, match = path(*keys), BLOB.match(value)
        if match is None or ".." in PurePosixPath(value).parts:
            yield Problem(field, RULE, REMEDY, shown(value))
        elif not uploads.has(match["digest"]):
            yield Problem(field, "you did not send this content", "send it first", shown(value))

    if spec.evaluator.bundle is not None:
        for split, value in spec.evaluator.splits.items():
            pure = PurePosixPath(value)
            if pure.is_absolute() or ".." in pure.parts:
                field = f"evaluator.splits.{split}"
                yield Problem(field, "it lies in the bundle", "write its path there", shown(value))


def _secrets(spec: StudySpec, settings: Settings) -> Iterator[Problem]:
    """A study names the operator's keys by their variables: whoever sends one could name a host
    of his own beside a key that is not his."""
    named = [("proposer.options", endpoint) for endpoint in _endpoints(spec)]
    if spec.target.secret is not None:
        named.append(("target", {"url": spec.target.url, "secret": spec.target.secret}))
    named += [
        (f"notify[{index}]", {"url": one.webhook, "secret": one.secret})
        for index, one in enumerate(spec.notify)
    ]
    for field, given in named:
        secret = given.get("secret")
        host = urlsplit(str(given.get("url", ""))).hostname or ""
        if secret is not None and f"{secret}@{host}" not in settings.api_secrets:
            yield Problem(
                f"{field}.secret",
                f"over HTTP it goes only to hosts that the operator names, not to {host}",
                f"leave it out, or let the operator set ARL_API_SECRETS={secret}@{host}",
                shown(secret),
            )


def _promotion(spec: StudySpec, *, may_promote: bool) -> Iterator[Problem]:
    if spec.promotion is None or spec.promotion.approval == "required" or may_promote:
        return
    yield Problem(
        "promotion.approval",
        "your token has no scope promote, so somebody who has it must approve",
        "write approval: required, or send the study with such a token",
        shown(spec.promotion.approval),
    )


def _host_paths(spec: StudySpec) -> Iterator[Problem]:
    """What may only be said on the machine itself: its interpreters, files of its file system."""
    for field, value in interpreters(spec):
        if value is not None and "/" in value:
            yield Problem(field, NO_PATH, "leave it out", shown(value))
    for part in parts(spec.proposer.name, spec.proposer.options):
        for option in find_proposer(part.name).options.FILES:
            given = part.options.get(option)
            if given is not None:
                field = f"proposer.options.{part.where}{option}"
                yield Problem(field, NO_PATH, "leave it out", shown(given))


def settled_remote(spec: StudySpec, settings: Settings) -> StudySpec:
    """The study with its targets named; raises InvalidInput for one that gives its sender a
    shell on this machine, unless the operator allows it."""
    settled, why = settle_targets(spec, settings)
    for field, name in (
        ("target.name", settled.target.name),
        ("evaluator.target", settled.evaluator.target),
    ):
        if name == "local" and not settings.api_allow_local:
            because = f" (auto chose it: {why})" if why and spec.target.name == "auto" else ""
            raise InvalidInput(
                f"{field} 'local': over HTTP a study runs in a sandbox{because}; write docker or "
                "bubblewrap, or let the operator set ARL_API_ALLOW_LOCAL=1"
            )
    if settled.target.name == "ray" and not settings.api_allow_local:
        raise InvalidInput(
            "target.name 'ray': it names a cluster and a storage as this machine sees them; let "
            "the operator set ARL_API_ALLOW_LOCAL=1, or write docker or bubblewrap"
        )
    return settled


def check_addresses(spec: StudySpec, settings: Settings) -> None:
    """Raises AddressRefused for a service, model endpoint or webhook with an address that the
    operator lets nobody name. Each connection is checked again when it is made: names may
    change."""
    models = parse_policy(settings.models_allow_private or "", variable="ARL_MODELS_ALLOW_PRIVATE")
    for endpoint in _endpoints(spec):
        _check_address(str(endpoint.get("url", "")), models)
    if spec.target.url is not None:
        _check_address(spec.target.url, parse_policy(settings.http_allow_private or ""))
    told = parse_policy(settings.notify_allow_private or "", variable="ARL_NOTIFY_ALLOW_PRIVATE")
    for index, one in enumerate(spec.notify):
        try:
            _check_address(one.webhook, told, tls=True)
        except AddressRefused as error:
            raise AddressRefused(f"notify[{index}].webhook: {error}") from None


def _endpoints(spec: StudySpec) -> Iterator[Mapping[str, object]]:
    """Of the models that it asks."""
    for part in parts(spec.proposer.name, spec.proposer.options):
        given = part.options.get("endpoints")
        for endpoint in given if isinstance(given, list | tuple) else ():
            if isinstance(endpoint, Mapping):
                yield endpoint


def _check_address(url: str, policy: AddressPolicy, *, tls: bool = False) -> None:
    """With `tls` an address without it is refused, too, where the operator does not list it."""
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)

    def resolve(host: str, port: int) -> Sequence[str]:
        return BoundedResolver(resolve_by_system).resolve(host, port, RESOLVE_S)

    try:
        found = checked_addresses(split.hostname or "", port, policy, resolve)
    except OSError:
        return  # no address, no connection: the study will wait for it and say so
    for address in found if tls and split.scheme == "http" else ():
        if not policy.is_trusted(split.hostname or "", address):
            raise AddressRefused(
                f"host {split.hostname!r}: write https://, since http:// is only for hosts that "
                f"the operator allows ({policy.variable})"
            )
