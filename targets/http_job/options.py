"""A job target from what a study and the operator wrote."""

import json
from urllib.parse import urlsplit

from ledger.errors import InvalidInput
from targets.http_job.target import HttpTarget
from targets.outbound_addresses import parse_policy
from targets.registry import Place


def make_http_target(place: Place) -> HttpTarget:
    """Options: `url` of the service; `secret`, the name under which `place.secrets` has it;
    `machine`, JSON text. The operator: `allow_private`, see parse_policy; `trust_sandbox`, 1 or
    the hosts whose word about their sandbox is believed. Raises InvalidInput."""
    url = place.options.get("url")
    if url is None:
        raise InvalidInput("target.url is missing: write where the job service is")
    name = place.options.get("secret")
    if name is None:
        raise InvalidInput("target.secret is missing: name ARL's variable, ARL_SECRET_…, for it")
    machine = place.options.get("machine")
    trusted = place.operator.get("trust_sandbox", "")
    hosts = {part.strip().lower() for part in trusted.split(",")}
    return HttpTarget(
        place.root,
        place.store,
        url=url,
        secret=place.secrets.get(name, ""),
        machine=None if machine is None else json.loads(machine),
        policy=parse_policy(place.operator.get("allow_private", "")),
        trusts_sandbox=trusted == "1" or (urlsplit(url).hostname or "") in hosts,
    )
