"""What attempts asked of the network, for `arl show`."""

from collections.abc import Mapping

from controller.cli.output import console, table
from controller.cli.text import clipped, plain, size
from ledger.records import Json


def print_network(network: Json) -> None:
    """From `network_document`'s; nothing where the trial asked for nothing."""
    if not isinstance(network, Mapping) or not network.get("count"):
        return
    hosts = network.get("hosts")
    why = _refusals(network)
    rows = [
        (
            clipped(plain(host), 60),
            str(tally["count"]),
            str(tally["refused"]),
            _size(tally["sent_bytes"]),
            _size(tally["received_bytes"]),
            clipped(why.get(host, ""), 60),
        )
        for host, tally in (hosts.items() if isinstance(hosts, Mapping) else ())
        if isinstance(tally, Mapping)
    ]
    print(f"network: {network['count']} requests, {network['refused']} of them refused")
    columns = ("host", ">requests", ">refused", ">sent", ">received", "why refused")
    console().print(table(*columns, rows=rows))


def _refusals(network: Mapping[str, Json]) -> dict[str, str]:
    """Why the last one that was refused was, by `host:port`."""
    found: dict[str, str] = {}
    requests = network.get("requests")
    for request in requests if isinstance(requests, list) else ():
        if isinstance(request, Mapping) and not request["allowed"]:
            name = f"{request['host']}:{request['port']}" if request["host"] else "none"
            found[name] = plain(str(request["detail"]))
    return found


def _size(value: Json) -> str:
    return size(float(value)) if isinstance(value, int | float) else "-"
