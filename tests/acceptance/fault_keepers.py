"""A keeper of containers that notes its fault points, and may die at one of them."""

import os
from pathlib import Path

from targets.docker_container import keeper_start
from tests.acceptance import fault_points
from tests.acceptance.fault_points import Point


def be_keeper(at: tuple[str, int] | int | None, journal: str, argv: list[str]) -> None:
    """As the target starts one; of several keepers the first alone is instrumented."""
    point = Point(*at) if isinstance(at, tuple) else at
    detach = os.setsid

    def detached() -> None:
        detach()
        if not Path(journal).exists():  # points are counted in the process that stays
            fault_points.install(point, Path(journal))

    os.setsid = detached
    keeper_start.main(argv[2], int(argv[3]), *argv[4:])
