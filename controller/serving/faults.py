"""What can go wrong with a server of models."""

from typing import ClassVar

from ledger.errors import TargetUnavailable


class EndpointUnavailable(TargetUnavailable):
    """The server is not there, does not answer in time, or answers nothing that can be used."""

    code: ClassVar[str] = "endpoint_unavailable"


class EndpointRefuses(TargetUnavailable):
    """The server is there and refuses a request, with a status and mostly a reason."""

    code: ClassVar[str] = "endpoint_refuses"
