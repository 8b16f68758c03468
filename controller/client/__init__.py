"""ARL from a Python program: `from controller.client import Client`."""

from controller.client.client import Client
from controller.client.outside import OutsideTrial

__all__ = ["Client", "OutsideTrial"]
