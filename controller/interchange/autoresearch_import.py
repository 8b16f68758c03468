"""An autoresearch-rl run directory's episode, read whole."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.interchange.autoresearch_reading import AutoresearchRun, find_run, read_trials
from controller.interchange.spool import Spool, told
from controller.interchange.taking_in import Described, Taken, taken

SOURCE = "autoresearch-rl"


@contextmanager
def taken_from_autoresearch(
    where: str,
    *,
    study: str | None = None,
    name: str | None = None,
    progress: Callable[[int], None],
) -> Iterator[Taken]:
    """The run directory's episode `study`, or its latest; `name` is what to call it here.

    Raises:
        NotFound: it has no such episode.
        InvalidInput: it is no run directory, or something in it is damaged; the file is named.
    """
    run = find_run(Path(where), study)
    with Spool(metrics=(run.metric,), maximizes=run.maximizes) as spool:
        spool.fill(told(read_trials(run), progress))
        yield taken(spool, _described(run), name=name)


def _described(run: AutoresearchRun) -> Described:
    notes = []
    if run.missing:
        notes.append(f"{run.missing} rows of its results have no manifest and are left out")
    if run.others:
        notes.append(f"other episodes are there too (--study): {', '.join(run.others[:10])}")
    return Described(
        source=SOURCE,
        location=str(run.directory.absolute()),
        name=run.name,
        origin=json.dumps({"tool": SOURCE, "episode": run.episode}),
        metrics=(run.metric,),
        maximizes=(run.maximizes,),
        declared=run.declared,
        notes=tuple(notes),
    )
