"""Plots of a study: sampled on the server, which says so."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query, Request

from controller.api.models.plots import (
    ContourPlot,
    CoordinatesPlot,
    EdfPlot,
    HistoryPlot,
    ImportancesPlot,
    IntermediatePlot,
    ParetoPlot,
    TimelinePlot,
)
from controller.api.plot_data import PlotData
from controller.api.problems import documented
from controller.api.reading import (
    LARGEST_NUMBER,
    Points,
    Reader,
    StudyName,
    TheService,
    storable_text,
    study_named,
)
from controller.api.routing import new_router
from controller.documents.studies import metric_of
from controller.plots import distributions, importance, spaces
from controller.plots import intermediate as curves
from controller.plots import timeline as slots
from controller.plots.columns import Axis, axes_of
from ledger import plot_reads, summaries
from ledger.errors import InvalidInput
from ledger.reads import maximizes
from ledger.records import Study
from ledger.trial_extras import metric_names

router = new_router("plots")

SCORED: Final = 4000
"""Trials whose scores a Pareto front is looked for among."""
TIMELINE_TRIALS: Final = 400
MOST_ROWS: Final = 1000
CURVES_OF_EACH: Final = 20
"""Of the latest trials; the best are as many."""

Names = Annotated[
    list[Annotated[str, Query(max_length=200)]] | None, Query(description="Only these parameters")
]
Param = Annotated[str | None, Query(max_length=200, description="A parameter of the study")]
Metric = Annotated[str | None, Query(max_length=200, description="A metric that was reported")]


def plot_data_of(request: Request) -> PlotData:
    """The app's own."""
    found: PlotData = request.app.state.plot_data
    return found


def _head(study: Study) -> dict[str, Any]:
    direction = "maximize" if maximizes(study) else "minimize"
    return {"study": study.id, "metric": metric_of(study), "direction": direction}


def _axes(study: Study, names: list[str] | None) -> list[Axis]:
    """Of the parameters asked for, or of all. Raises InvalidInput."""
    axes = axes_of(study.spec.get("space"))
    if names is None:
        return axes
    by_name = {axis.name: axis for axis in axes}
    for name in names:
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise InvalidInput(f"param: {name[:80]!r} is none of the study's ({known[:500]})")
    return [by_name[name] for name in dict.fromkeys(names)]


@router.get(
    "/studies/{study}/plots/history", response_model=HistoryPlot, responses=documented(404, 409)
)
def plot_history(
    request: Request, _: Reader, service: TheService, study: StudyName, points: Points = 2000
) -> dict[str, Any]:
    """Values in the order trials ended, told apart by outcome, with the best so far."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        drawn = plot_data_of(request).history(session, found, points)
        baseline = summaries.baseline_values(session, found.id)
        noise = summaries.latest_noise_floor(session, found.id)
    return {**_head(found), **drawn, "baseline": baseline, "noise_floor": noise}


@router.get(
    "/studies/{study}/plots/importances",
    response_model=ImportancesPlot,
    responses=documented(404, 409),
)
def plot_importances(
    request: Request, _: Reader, service: TheService, study: StudyName
) -> dict[str, Any]:
    """Each parameter's share of what separates the best tenth of the trials from all (PED-ANOVA,
    one parameter at a time), from at most 2,000 trials."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        sample = plot_data_of(request).sample(session, found)
    axes = _axes(found, None)
    drawn = importance.importances(sample, axes, maximize=maximizes(found))
    return {**_head(found), **drawn}


@router.get(
    "/studies/{study}/plots/parallel",
    response_model=CoordinatesPlot,
    responses=documented(404, 409),
)
def plot_parallel(
    request: Request, _: Reader, service: TheService, study: StudyName, param: Names = None
) -> dict[str, Any]:
    """Every parameter (or those asked for) beside the value, trial by trial."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        sample = plot_data_of(request).sample(session, found)
    return {**_head(found), **spaces.coordinates(sample, _axes(found, param))}


@router.get(
    "/studies/{study}/plots/slice", response_model=CoordinatesPlot, responses=documented(404, 409)
)
def plot_slice(
    request: Request, _: Reader, service: TheService, study: StudyName, param: Names = None
) -> dict[str, Any]:
    """The value over one parameter at a time: the same columns as parallel coordinates."""
    return plot_parallel(request, _, service, study, param)


@router.get(
    "/studies/{study}/plots/contour", response_model=ContourPlot, responses=documented(404, 409)
)
def plot_contour(
    request: Request,
    _: Reader,
    service: TheService,
    study: StudyName,
    x: Param = None,
    y: Param = None,
) -> dict[str, Any]:
    """Mean values over two parameters; the first two where none are named."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        axes = _axes(found, None)
        if len(axes) < 2:
            raise InvalidInput("contour: the study has fewer than two parameters")
        across, up = _axes(found, [x or axes[0].name])[0], _axes(found, [y or axes[1].name])[0]
        sample = plot_data_of(request).sample(session, found)
    return {**_head(found), **spaces.contour(sample, across, up)}


@router.get("/studies/{study}/plots/edf", response_model=EdfPlot, responses=documented(404, 409))
def plot_edf(
    request: Request, _: Reader, service: TheService, study: StudyName, points: Points = 500
) -> dict[str, Any]:
    """The share of trials whose value is at most so much."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        values = plot_data_of(request).ordered(session, found)
    return {**_head(found), **distributions.edf(values, points)}


@router.get(
    "/studies/{study}/plots/pareto", response_model=ParetoPlot, responses=documented(404, 409)
)
def plot_pareto(
    request: Request,
    _: Reader,
    service: TheService,
    study: StudyName,
    metric: Annotated[
        list[Annotated[str, Query(max_length=200)]] | None,
        Query(max_length=4, description="Default: the study's objectives"),
    ] = None,
    points: Points = 2000,
) -> dict[str, Any]:
    """Trials in several objectives, and those that no other beats in all of them."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        objectives = _objectives(found, metric)
        numbers, of = plot_data_of(request).spread(session, found, SCORED)
        scores = plot_reads.scores_of(session, found.id, numbers)
    rows: list[tuple[int, list[float]]] = []
    for number, named in sorted(scores.items()):
        row = [named.get(name, math.nan) for name, _up in objectives]
        if all(math.isfinite(value) for value in row):
            rows.append((number, row))
    drawn = distributions.pareto(
        [number for number, _row in rows],
        [row for _number, row in rows],
        [up for _name, up in objectives],
        points,
    )
    drawn["sampled"] = bool(drawn["sampled"]) or len(numbers) < of
    told = [{"metric": n, "direction": "maximize" if up else "minimize"} for n, up in objectives]
    return {**_head(found), **drawn, "of": of, "objectives": told}


def _objectives(study: Study, names: list[str] | None) -> list[tuple[str, bool]]:
    """(metric, whether more is better); metrics that are none of its objectives are minimised."""
    known = {metric_of(study): maximizes(study)}
    further = study.spec.get("objectives")
    for section in further if isinstance(further, list | tuple) else ():
        if isinstance(section, Mapping):
            known[str(section.get("metric"))] = section.get("direction") == "maximize"
    if names is None:
        return list(known.items())
    return [(name, known.get(name, False)) for name in dict.fromkeys(names)]


@router.get(
    "/studies/{study}/plots/intermediate",
    response_model=IntermediatePlot,
    responses=documented(404, 409),
)
def plot_intermediate(
    request: Request, _: Reader, service: TheService, study: StudyName, metric: Metric = None
) -> dict[str, Any]:
    """What the best, the latest and the running trials reported of one metric (the first by
    name where none is named)."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        metrics = metric_names(session, found.id)
        name = storable_text(metric, "metric") or (metrics[0] if metrics else "")
        best = plot_data_of(request).best(session, found)
        latest = plot_reads.latest_numbers(session, found.id, limit=CURVES_OF_EACH)
        numbers = list(dict.fromkeys([*latest, *best]))
        trials = plot_reads.reporting_trials(session, found.id, numbers=numbers)
        shown = curves.affordable(trials)
        ended = plot_data_of(request).length(session, found)
        values = plot_reads.values_of(session, [trial.trial_id for trial in shown], name)
        drawn = curves.intermediate(shown, values, name, ended)
    return {**_head(found), **drawn, "metrics": metrics}


@router.get(
    "/studies/{study}/plots/timeline", response_model=TimelinePlot, responses=documented(404, 409)
)
def plot_timeline(
    _: Reader,
    service: TheService,
    study: StudyName,
    before: Annotated[
        int | None, Query(ge=0, le=LARGEST_NUMBER, description="Only trials before this number")
    ] = None,
) -> dict[str, Any]:
    """When the attempts of the latest trials ran, each on a line of its own."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        attempts = plot_reads.latest_attempts(
            session, found.id, before=before, trials=TIMELINE_TRIALS
        )
        attempts = attempts[-MOST_ROWS:]
        now = session.now()
        of = (plot_reads.latest_numbers(session, found.id, limit=1) or [-1])[0] + 1
    drawn = slots.timeline(attempts, now)
    first = min((number for number, _ in attempts), default=0)
    shown = len({number for number, _ in attempts})
    return {
        **_head(found),
        **drawn,
        "of": of,
        "sampled": shown < of,
        "before": first if first > 0 else None,
    }
