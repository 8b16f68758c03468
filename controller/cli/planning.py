"""`arl plan` and `arl schema`: what a study file means, before anything runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from controller.api.models.plans import PlanOut, RangeOut
from controller.cli.output import OK, console, print_json, table
from controller.cli.plan_system import print_system
from controller.cli.source import server_named
from controller.cli.text import duration, number, plain
from controller.decisions.pricing import (
    Range,
    StudyPrice,
    check_price,
    price_study,
)
from controller.decisions.profiles import ERROR_RATES, ErrorRates
from controller.documents.plan_system import Rates, system_of
from controller.documents.plans import plan_document
from controller.spec.campaign_loading import campaign_schema
from controller.spec.loading import json_schema, load_study
from controller.spec.quantities import parse_duration_s
from controller.spec.study import StudySpec
from ledger.errors import InvalidInput

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="the study file")]
TrialTime = Annotated[
    str | None,
    typer.Option("--trial-time", help="what one trial and its evaluation take, like 90s or 5m"),
]
Prompts = Annotated[
    int | None, typer.Option("--prompts", help="rollout sizing: prompts of one update")
]
AverageTokens = Annotated[
    int | None, typer.Option("--average-tokens", help="tokens of one completion, on average")
]
TokensPerSecond = Annotated[
    int | None, typer.Option("--tokens-per-second", help="what one rollout GPU generates")
]
Window = Annotated[
    int | None, typer.Option("--window", help="seconds in which an update's rollouts are to be")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
OfCampaign = Annotated[
    bool, typer.Option("--campaign", help="of a campaign file, see `arl campaign`")
]


def plan(
    study: StudyFile,
    trial_time: TrialTime = None,
    prompts: Prompts = None,
    average_tokens: AverageTokens = None,
    tokens_per_second: TokensPerSecond = None,
    window: Window = None,
    as_json: AsJson = False,
) -> int:
    """Check a study file, say what its post-training plan implies, and price the whole study.

    Nothing runs and no ledger is made. Without --trial-time, hours are the worst case: every
    attempt running to its limit. The four numbers of rollout sizing go together.
    """
    spec, trial_wall_s = load_study(study), _seconds(trial_time)
    rates = Rates(
        prompts=prompts,
        average_tokens=average_tokens,
        tokens_per_second=tokens_per_second,
        window_s=window,
    )
    system = system_of(spec, study.parent, rates)
    price: StudyPrice | PlanOut
    if server_named():
        from controller.cli.server_asking import plan as plan_there

        document = plan_there(spec, trial_wall_s, rates, system)
        price = PlanOut.model_validate(document)
    else:
        check_price(spec, trial_wall_s=trial_wall_s)
        price = price_study(spec, trial_wall_s=trial_wall_s)
        document = plan_document(spec, price, system)
    if as_json:
        print_json(document)
        return OK
    _print(spec, price)
    if system is not None:
        print_system(system)
    return OK


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"--trial-time: {plain(text)!r}: {error}") from None
    if seconds <= 0:
        raise InvalidInput(f"--trial-time: {plain(text)!r}: write a time above 0")
    return seconds


def _print(spec: StudySpec, price: StudyPrice | PlanOut) -> None:
    search = "no limit" if price.search_trials is None else str(price.search_trials)
    ended = f", ended by {price.limited_by}" if price.limited_by is not None else ""
    print(f"{spec.name} is valid: {search} search trials{ended}, {price.parallel} at once")
    names = ["", *(f"{p.profile or 'no promotion'}" for p in price.profiles)]
    rows = [
        ("baseline trials", *(str(p.baseline_trials) for p in price.profiles)),
        ("gate runs", *(_span(p.gate_runs) for p in price.profiles)),
        ("trials in all", *(_span(p.trials) for p in price.profiles)),
        ("time", *(_span(p.hours, _time) for p in price.profiles)),
        ("GPU time", *(_span(p.gpu_hours, _time) for p in price.profiles)),
        ("time at the limits", *(_time(p.worst_hours) for p in price.profiles)),
        ("GPU time at the limits", *(_time(p.worst_gpu_hours) for p in price.profiles)),
        *_rate_rows(price),
    ]
    out = console()
    out.print(table(*names, rows=rows))
    if price.trial_wall_s is None:
        print("--trial-time 90s, say, gives hours; the limits are the worst case")
    else:
        print(f"at {duration(price.trial_wall_s)} a trial, its evaluation included")
    if spec.promotion is not None:
        print(f"this study's own profile is {spec.promotion.profile}")


def _rate_rows(price: StudyPrice | PlanOut) -> list[tuple[str, ...]]:
    found = [ERROR_RATES.get(p.profile or "") for p in price.profiles]
    if not any(found):
        return []
    shown: tuple[tuple[str, Callable[[ErrorRates], float]], ...] = (
        ("false promotions", lambda rates: rates.false_promotion),
        ("… under the worst noise", lambda rates: rates.false_promotion_worst),
        ("found when +1 sd better", lambda rates: rates.power_1_sd),
        ("found when +2 sd better", lambda rates: rates.power_2_sd),
        ("found when +3 sd better", lambda rates: rates.power_3_sd),
    )
    return [
        (name, *("-" if rates is None else f"{share(rates):.1%}" for rates in found))
        for name, share in shown
    ]


def _span(found: Range | RangeOut | None, shown: Callable[[float], str] = number) -> str:
    if found is None:
        return "-"
    if found.least == found.most:
        return shown(found.most)
    return f"{shown(found.least)} to {shown(found.most)} (usually {shown(found.typical)})"


def _time(hours: float | None) -> str:
    return "none" if hours == 0 else duration(None if hours is None else hours * 3600)


def schema(campaign: OfCampaign = False, as_json: AsJson = False) -> int:
    """Print the JSON Schema of a study file; editors complete and check study files with it."""
    if campaign:
        document = campaign_schema()
    elif server_named():
        from controller.client import Client

        with Client() as client:
            document = client.connection.get("/schema")
    else:
        document = json_schema()
    print(json.dumps(document, indent=2))
    return OK
