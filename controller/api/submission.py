"""A study that came over HTTP: every path of it names content that its sender uploaded."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from controller.api.uploads import Uploads
from controller.places import settle_targets
from controller.settings import Settings
from controller.spec.errors import Problem, StudyRefused, path, shown
from controller.spec.paths import named_paths
from controller.spec.study import StudySpec
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from proposers.registry import find_proposer, parts
from targets.outbound_addresses import (
    AddressPolicy,
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


def check_remote(spec: StudySpec, uploads: Uploads) -> None:
    """Raises StudyRefused naming every path that is not the sender's own upload."""
    problems = [*_paths(spec, uploads), *_host_paths(spec)]
    if problems:
        raise StudyRefused(problems)


def _paths(spec: StudySpec, uploads: Uploads) -> Iterator[Problem]:
    for keys, value in named_paths(spec):
        field, match = path(*keys), BLOB.match(value)
        if match is None or ".." in PurePosixPath(value).parts:
            yield Problem(field, RULE, REMEDY, shown(value))
        elif not uploads.has(match["digest"]):
            yield Problem(field, "you did not send this content", "send it first", shown(value))


def _host_paths(spec: StudySpec) -> Iterator[Problem]:
    """What may only be said on the machine itself: its interpreters, files of its file system."""
    for field, value in (
        ("program.python", spec.program.python),
        ("evaluator.python", spec.evaluator.python),
    ):
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
    return settled


@contextmanager
def staged(spec: StudySpec, home: Path, store: ArtifactStore) -> Iterator[Path]:
    """A directory in which each `blob:DIGEST` of the study is that tree; gone afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="staged-", dir=home))
    try:
        for _, value in named_paths(spec):
            match = BLOB.match(value)
            if match is not None:
                link = base / f"blob:{match['digest']}"
                if not link.is_symlink():
                    link.symlink_to(store.checkout(match["digest"]))
        yield base
    except InvalidInput as error:
        raise _without(base, error) from None
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _without(base: Path, error: InvalidInput) -> InvalidInput:
    """The same error in words that name no directory of this machine."""

    def clean(text: str) -> str:
        return text.replace(f"{base}/", "")

    if isinstance(error, StudyRefused):
        return StudyRefused(
            [
                Problem(clean(p.field), clean(p.rule), clean(p.remedy), clean(p.value))
                for p in error.problems
            ]
        )
    return type(error)(clean(str(error)))


def check_addresses(spec: StudySpec, settings: Settings) -> None:
    """Raises AddressRefused for a service or model endpoint with an address that the operator
    lets nobody name. Each connection is checked again when it is made: names may change."""
    models = parse_policy(settings.models_allow_private or "", variable="ARL_MODELS_ALLOW_PRIVATE")
    for url in _model_urls(spec):
        _check_address(url, models)
    if spec.target.url is not None:
        _check_address(spec.target.url, parse_policy(settings.http_allow_private or ""))


def _model_urls(spec: StudySpec) -> Iterator[str]:
    for part in parts(spec.proposer.name, spec.proposer.options):
        given = part.options.get("endpoints")
        for endpoint in given if isinstance(given, list | tuple) else ():
            if isinstance(endpoint, Mapping):
                yield str(endpoint.get("url", ""))


def _check_address(url: str, policy: AddressPolicy) -> None:
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)

    def resolve(host: str, port: int) -> Sequence[str]:
        return BoundedResolver(resolve_by_system).resolve(host, port, RESOLVE_S)

    try:
        checked_addresses(split.hostname or "", port, policy, resolve)
    except OSError:
        return  # no address, no connection: the study will wait for it and say so
