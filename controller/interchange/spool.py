"""A study on its way into the ledger: its trials on disk, what they have in common in memory."""

import hashlib
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Final

from controller.interchange.observed_space import Observed
from controller.steps.importing import ReportedTrial, trial_line, trial_of_line
from ledger.errors import InvalidInput
from ledger.states import TrialState

MOST_TRIALS: Final = 1_000_000
MOST_TEXT: Final = 64 * 1024
"""Characters of one trial's own notes that are taken over."""
MOST_VALUES: Final = 100_000
"""Values that one trial reported on the way."""
MOST_PARAMS: Final = 1_000
MOST_STEP: Final = 2**63 - 1
MOST_NUMBER: Final = 2**31 - 1
MOMENTS: Final = (-62_135_596_800.0, 253_402_300_800.0)
"""From the year 1 to the year 10,000, in seconds since 1970: what a calendar has."""


@dataclass
class Spool:
    """Every trial was read and is sound before the first one is written anywhere."""

    metrics: tuple[str, ...]
    maximizes: bool
    observed: Observed = field(default_factory=Observed)
    trials: int = 0
    states: dict[str, int] = field(default_factory=dict)
    best: ReportedTrial | None = None
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _file: IO[str] | None = None
    _last: int = -1

    def __enter__(self) -> "Spool":
        self._file = tempfile.TemporaryFile("w+", encoding="ascii", newline="\n")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.file.close()

    @property
    def file(self) -> IO[str]:
        if self._file is None:
            raise RuntimeError("the spool is not open")
        return self._file

    def fill(self, trials: Iterable[ReportedTrial]) -> None:
        """Take in every trial. Raises InvalidInput, naming one that cannot be an entry."""
        for trial in trials:
            self._check(trial)
            line = trial_line(trial) + "\n"
            self.file.write(line)
            self._digest.update(line.encode())
            self._count(trial)

    def _check(self, trial: ReportedTrial) -> None:
        where = f"trial {trial.number}"
        if not self._last < trial.number <= MOST_NUMBER:
            rule = "numbers ascend, each once, from 0"
            raise InvalidInput(f"{where}: after {self._last}: {rule}; the history is damaged")
        if self.trials >= MOST_TRIALS:
            raise InvalidInput(f"{where}: more than {MOST_TRIALS} trials are not imported")
        for what, count, most in (
            ("values reported on the way", len(trial.curve), MOST_VALUES),
            ("parameters", len(trial.params), MOST_PARAMS),
        ):
            if count > most:
                raise InvalidInput(f"{where}: {count} {what}; at most {most} are imported")
        for step in (value.step for value in trial.curve if abs(value.step) > MOST_STEP):
            raise InvalidInput(f"{where}: step {step}: it has more than 64 bits")
        _check_params(where, trial.params)
        _check_moments(where, trial)
        self._last = trial.number

    def _count(self, trial: ReportedTrial) -> None:
        self.trials += 1
        self.states[trial.state] = self.states.get(trial.state, 0) + 1
        self.observed.add(trial)
        if trial.state is TrialState.COMPLETE and self._is_better(trial):
            self.best = trial

    def _is_better(self, trial: ReportedTrial) -> bool:
        value = trial.values.get(self.metrics[0])
        if value is None or not math.isfinite(value):
            return False
        if self.best is None:
            return True
        best = self.best.values[self.metrics[0]]
        return value > best if self.maximizes else value < best

    def content(self, *about: str) -> str:
        """Digest of every trial, and of what is said of the study."""
        whole = self._digest.copy()
        for text in about:
            whole.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return whole.hexdigest()

    def read(self) -> Iterator[ReportedTrial]:
        self.file.flush()
        self.file.seek(0)
        for line in self.file:
            yield trial_of_line(line)


def told(
    trials: Iterable[ReportedTrial], progress: Callable[[int], None]
) -> Iterator[ReportedTrial]:
    """The same trials; `progress` hears how many were read, every so often."""
    for count, trial in enumerate(trials, start=1):
        yield trial
        if count % 500 == 0:
            progress(count)


def is_storable(text: str) -> bool:
    """Whether a database can hold it: no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_params(where: str, params: Mapping[str, object]) -> None:
    for name, value in params.items():
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise InvalidInput(f"{where}: {name[:60]!a}: a whole number that no float comes near")
    for text in _texts(params):
        if "\0" in text or not is_storable(text):
            what = "a zero byte" if "\0" in text else "half a character"
            raise InvalidInput(f"{where}: {ascii(text)[:60]}: it holds {what}; repair it")


def _check_moments(where: str, trial: ReportedTrial) -> None:
    for name, moment in (("started_at", trial.started_at), ("ended_at", trial.ended_at)):
        if moment is not None and not MOMENTS[0] <= moment < MOMENTS[1]:
            rule = "no seconds since 1970 that a date can be made of; repair it"
            raise InvalidInput(f"{where}: {name}: {moment}: {rule}")


def _texts(params: Mapping[str, object]) -> Iterator[str]:
    for name, value in params.items():
        yield name
        if isinstance(value, str):
            yield value
