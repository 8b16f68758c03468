"""What the service refuses in words of its own protocol."""

from ledger.errors import ArlError, Conflict


class OtherBody(Conflict):
    """The name is taken by an attempt that says something else."""

    code = "other_body"


class TooLarge(ArlError):
    """More than this service takes."""

    code = "too_large"
