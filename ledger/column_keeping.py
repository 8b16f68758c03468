"""Reads columns of finished trials before anybody asks for them, a stretch at a time."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, and_, func, select

from ledger.column_file import ColumnFile, Kept, Place
from ledger.database import ReadSession
from ledger.records import Study
from ledger.rows import LATEST, TRIALS
from ledger.sort_columns import COLUMNS_KEPT, PLACES_KEPT
from ledger.trial_fields import Field, Source, is_textual, joined, key_of

STRETCHES: Final = (5000, 100_000)
"""Trials that are read at once: a tenth of those that are kept, but so many at least and at most.
What is added lies all over a column, most of which is written again."""
TOGETHER: Final = 4
"""Columns that are read at once, at most."""
WORTH: Final = (1000, 10_000)
"""Trials that ended since for which it is done: a fiftieth of all, but so many at least and at
most. Whoever asks for a column reads fewer himself in some milliseconds."""
FIELDS: Final = 64
"""Columns of a study that are made unasked, at most."""
ROOM: Final = 0.8
"""Of what may be kept at all, so much may be filled by what nobody asked for."""
_METRICS_OF: Final = 100
"""Trials, evenly spread, whose metrics are those that columns are made of."""
_PARAMETER: Final = re.compile(r"[A-Za-z_]\w{0,99}")


def newest_ended(session: ReadSession, study_id: str) -> int:
    """`finish_seq` of the latest trial; 0 where none ended."""
    query = select(func.max(TRIALS.c.finish_seq)).where(
        TRIALS.c.study_id == study_id, TRIALS.c.finish_seq.is_not(None)
    )
    return int(session.connection.execute(query).scalar_one_or_none() or 0)


def keep_columns(session: ReadSession, study: Study, file: ColumnFile) -> bool:
    """Bring the columns that are furthest behind a stretch further; whether any was worth it.
    Raises column_file.UNUSABLE."""
    newest = newest_ended(session, study.id)
    least = worth(newest)
    if newest < least:
        return False
    known = {
        field: file.find(session, study, str(field), is_asked=False)
        for field in fields_of(session, study)
    }
    behind = [field for field, kept in known.items() if newest - _last(kept) >= least]
    new = [field for field in behind if known[field] is None]
    if new:
        growth = sum(newest - kept.last for kept in known.values() if kept is not None)
        fitting = new[: _room_for(file, newest, growth)]
        behind = [field for field in behind if field in fitting or known[field] is not None]
    if not behind:
        return False
    last = min(_last(known[field]) for field in behind)
    until = min(newest, last + _within(STRETCHES, last // 10))
    alike = [field for field in behind if _last(known[field]) == last]
    fields = [field for field in alike if field.source is alike[0].source][:TOGETHER]
    read = _metric_places if fields[0].source is Source.METRICS else _places
    places = read(session, study, fields, last, until)
    for field in fields:
        file.extend(study, str(field), known[field], until, places[field], is_asked=False)
    return True


def worth(ended: int) -> int:
    """How many trials have to end beside so many."""
    return _within(WORTH, ended // 50)


def _within(bounds: tuple[int, int], count: int) -> int:
    return min(max(count, bounds[0]), bounds[1])


def fields_of(session: ReadSession, study: Study) -> list[Field]:
    """What its lists may be sorted by beside what the database's indexes are for."""
    found = [Field(Source.WALL_S), Field(Source.CREATED)]
    evaluator = study.spec.get("evaluator")
    scored = evaluator.get("metrics") if isinstance(evaluator, Mapping) else None
    for source, named in ((Source.PARAMS, study.spec.get("space")), (Source.SCORES, scored)):
        names = list(named) if isinstance(named, Mapping) else []
        found += [Field(source, name) for name in names if _is_name(source, name)]
    metrics = _reported(session, study.id)
    return [*found, *(Field(Source.METRICS, name) for name in metrics)][:FIELDS]


def _reported(session: ReadSession, study_id: str) -> list[str]:
    """The metrics of some trials."""
    last = select(func.max(TRIALS.c.number)).where(TRIALS.c.study_id == study_id)
    newest = session.connection.execute(last).scalar_one_or_none() or 0
    numbers = {newest * place // _METRICS_OF for place in range(_METRICS_OF + 1)}
    some = select(TRIALS.c.id).where(
        TRIALS.c.study_id == study_id, TRIALS.c.number.in_(sorted(numbers))
    )
    query = select(LATEST.c.metric).where(LATEST.c.trial_id.in_(some)).distinct()
    return list(session.connection.execute(query.order_by(LATEST.c.metric)).scalars())


def _is_name(source: Source, name: str) -> bool:
    """Whether a list can be asked for by it."""
    return source is not Source.PARAMS or _PARAMETER.fullmatch(name) is not None


def _last(kept: Kept | None) -> int:
    return 0 if kept is None else kept.last


def _room_for(file: ColumnFile, trials: int, growth: int) -> int:
    """How many more columns of so many trials may be made unasked, where those that are there
    will have so many places more."""
    columns, places = file.size()
    free = ROOM * PLACES_KEPT - places - growth
    least = min(ROOM * COLUMNS_KEPT - columns, free / trials)
    return max(0, int(least))


def _places(
    session: ReadSession, study: Study, fields: Sequence[Field], after: int, until: int
) -> dict[Field, list[Place]]:
    """The keys of some trials by field, all of one source and read at once."""
    keys = (key_of(session, field, textual=is_textual(study, field)) for field in fields)
    labelled = (key.label(f"key{place}") for place, key in enumerate(keys))
    query = joined(select(TRIALS.c.number, *labelled), fields[0])
    rows = session.connection.execute(_stretch(query, study, after, until)).all()
    return {
        field: [(row[at], row[0]) for row in rows if row[at] is not None]
        for at, field in enumerate(fields, start=1)
    }


def _metric_places(
    session: ReadSession, study: Study, fields: Sequence[Field], after: int, until: int
) -> dict[Field, list[Place]]:
    """The same of reported metrics, which stand in rows of their own."""
    found: dict[Field, list[Place]] = {field: [] for field in fields}
    by_name = {field.name: places for field, places in found.items()}
    query: Select[Any] = select(TRIALS.c.number, LATEST.c.metric, key_of(session, fields[0]))
    beside = and_(LATEST.c.trial_id == TRIALS.c.id, LATEST.c.metric.in_(list(by_name)))
    query = _stretch(query.join(LATEST, beside), study, after, until)
    for number, name, key in session.connection.execute(query):
        if key is not None:
            by_name[name].append((key, number))
    return found


def _stretch(query: Select[Any], study: Study, after: int, until: int) -> Select[Any]:
    return query.where(
        TRIALS.c.study_id == study.id,
        TRIALS.c.finish_seq.is_not(None),
        TRIALS.c.finish_seq > after,
        TRIALS.c.finish_seq <= until,
    )
