"""An attempt's directory: laid out before it is launched, deleted after it was collected."""

import os
from collections.abc import Mapping
from typing import Final

from ledger.errors import InvalidInput
from targets import layout
from targets.attempt_files import Filler, Sandbox, Store
from targets.disk_errors import disk_errors
from targets.protocol import AttemptSpec, Program
from targets.spares import NOT_EMPTY, Spares, remove_tree

__all__ = ["Sandbox", "Store", "Workspaces", "check_names"]

_BARE: Final = (layout.WORK, layout.OUTPUT, layout.HOME, layout.INPUTS)


class Workspaces:
    """The attempt directories below one root. Thread-safe."""

    def __init__(
        self, root: str, store: Store, *, host: str, boot: str, sandbox: Sandbox | None = None
    ) -> None:
        self._root = root
        self._store = store
        self._sandbox = sandbox
        self._place = {"host": host, "boot": boot}
        parts = _BARE + (sandbox.parts if sandbox is not None else ())
        self._spares = Spares(f"{root}/{layout.TRASH}", parts)
        self.sweep()

    def sweep(self) -> None:
        """Delete what controllers that are gone were deleting, or kept to use again."""
        self._spares.sweep()

    def lay_out(self, spec: AttemptSpec) -> None:
        """Make the attempt's directory, whole or not at all, unless it was made before.

        Raises InvalidInput, DiskFull, and what the store raises.
        """
        check_names(spec)
        final = f"{self._root}/{layout.ATTEMPTS}/{spec.name}"
        if os.path.lexists(final):
            if not self._is_stale(final):
                return
            self.discard(spec.name)
        with disk_errors(f"preparing attempt {spec.name}"):
            draft = self._spares.take()
            try:
                place = {**self._place, "directory": final}
                Filler(draft, final, spec, self._store, self._sandbox).fill(place)
                os.rename(draft, final)
            except BaseException as error:
                remove_tree(draft)
                if not (isinstance(error, OSError) and error.errno in NOT_EMPTY):
                    raise  # else another one was faster

    def _is_stale(self, attempt: str) -> bool:
        """Whether it was never started, and was prepared before the machine restarted, so that a
        file of it may not have reached the disk; or elsewhere, which its paths lead to."""
        if layout.read_record(attempt) is not None:
            return False
        launch = layout.read_launch(attempt)
        is_here = launch.get("directory", attempt) == attempt
        return launch.get("boot") != self._place["boot"] or not is_here

    def discard(self, name: str) -> None:
        """Delete an attempt's directory: out of sight in one step, then file by file."""
        grave = self._spares.new_path()
        try:
            os.rename(f"{self._root}/{layout.ATTEMPTS}/{name}", grave)
        except FileNotFoundError:
            return  # another one did it
        self._spares.put(grave)

    def close(self) -> None:
        """Delete the directories kept for later attempts."""
        self._spares.clear()


def check_names(spec: AttemptSpec) -> None:
    """Raises InvalidInput for names that are no plain file names, and places that are no input."""
    if not layout.is_name(spec.name):
        raise InvalidInput(f"attempt name {spec.name!r}: must be {layout.NAME_RULE}")
    mounts = {**spec.inputs, **spec.answerer_inputs}
    for mount in mounts:
        if not layout.is_name(mount):
            raise InvalidInput(f"input name {mount!r}: must be {layout.NAME_RULE}")
    _check_places(spec.program, spec.inputs)
    if spec.answerer is not None:
        _check_places(spec.answerer, spec.answerer_inputs)


def _check_places(program: Program, inputs: Mapping[str, str]) -> None:
    if program.working_input is not None and program.run_in is not None:
        raise InvalidInput(
            f"program.run_in {program.run_in!r} excludes program.working_input "
            f"{program.working_input!r}: give one of them"
        )
    for field in ("working_input", "run_in"):
        mount = getattr(program, field)
        if mount is not None and mount not in inputs:
            raise InvalidInput(f"program.{field} {mount!r} is not one of the inputs")
