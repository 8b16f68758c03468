"""An Optuna storage's study, read whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.interchange.optuna_reading import OptunaStudy, choose_study, read_trials
from controller.interchange.optuna_tables import opened_for_reading, shown, storage_url
from controller.interchange.spool import Spool, told
from controller.interchange.taking_in import Described, Taken, taken

SOURCE = "optuna"


@contextmanager
def taken_from_optuna(
    where: str,
    *,
    study: str | None = None,
    name: str | None = None,
    progress: Callable[[int], None],
) -> Iterator[Taken]:
    """The storage's study called `study`, or its only one; `name` is what to call it here.

    Raises:
        NotFound: the storage has no such study.
        InvalidInput: it is no storage, or something in it is damaged; the trial is named.
    """
    url = storage_url(where)
    with opened_for_reading(url) as (engine, tables), engine.connect() as connection:
        found = choose_study(connection, tables, study)
        with Spool(metrics=found.metrics, maximizes=found.maximizes[0]) as spool:
            spool.fill(told(read_trials(connection, tables, found), progress))
            connection.close()
            yield taken(spool, _described(found, shown(url)), name=name)


def _described(study: OptunaStudy, location: str) -> Described:
    notes = []
    if study.dropped:
        notes.append(f"the user attributes of {study.dropped} trials are too long and left out")
    return Described(
        source=SOURCE,
        location=location,
        name=study.name,
        origin=study.origin(),
        metrics=study.metrics,
        maximizes=study.maximizes,
        declared=study.parameters,
        notes=tuple(notes),
    )
