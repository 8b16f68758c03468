"""What attempts asked of the network, for `arl show`."""

from controller.cli.output import console, table
from controller.cli.text import clipped, plain, size
from controller.documents.network import tallies
from ledger.database import ReadSession
from ledger.network_reads import read_requests
from ledger.records import Study


def print_network(session: ReadSession, study: Study, trial_id: str) -> None:
    """Nothing where the trial asked for nothing."""
    every, hosts = tallies(read_requests(session, study, trial_id))
    if not every.count:
        return
    rows = [
        (
            clipped(plain(host), 60),
            str(tally.count),
            str(tally.refused),
            size(tally.sent),
            size(tally.received),
            clipped(plain(tally.why), 60),
        )
        for host, tally in hosts.items()
    ]
    print(f"network: {every.count} requests, {every.refused} of them refused")
    columns = ("host", ">requests", ">refused", ">sent", ">received", "why refused")
    console().print(table(*columns, rows=rows))
