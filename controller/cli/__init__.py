"""The `arl` command: finds the verb and loads that verb's module alone."""

import sys


def main() -> None:
    """Entry point of the `arl` script."""
    from controller.cli.front import run

    sys.exit(run(sys.argv[1:]))
