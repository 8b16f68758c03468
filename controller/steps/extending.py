"""Changes what may change after the start: budgets, `stop`, `parallel`, `weight`, `priority`."""

from collections.abc import Collection, Mapping
from typing import Final

from controller.spec.loading import resolved, with_setting
from controller.steps.context import StepContext
from ledger import entries as e
from ledger.errors import Conflict, InvalidInput
from ledger.records import Command, Json, Resource
from ledger.setting_entries import Setting, SettingChanged
from ledger.states import STUDY_TERMINAL, StudyState

_NAMES: Final = (*Resource, *Setting)
_SEARCH_ONLY: Final = frozenset(
    (Setting.STOP, Resource.TRIALS, Resource.LLM_TOKENS, Resource.LLM_COST_USD)
)


def extend(ctx: StepContext, command: Command) -> None:
    """Arguments: a resource's name to `{"by": n}` or `{"to": n}` in the ledger's units;
    `parallel`, `weight` and `priority` to a number; `stop` to those of its fields that change,
    null for one that is taken away."""
    study = ctx.view.study
    if study.state in STUDY_TERMINAL and study.state is not StudyState.COMPLETED:
        raise Conflict(f"study {study.name} is {study.state} and cannot be extended")
    given = command.arguments
    settings = _new_settings(ctx, {s: given[s] for s in Setting if s in given})
    limits = [_new_limit(ctx, name, given[name]) for name in given if name not in set(Setting)]
    _check_timely(ctx, settings, {resource for resource, _ in limits})
    for resource, limit in limits:
        ctx.add(e.BudgetChanged(resource=resource, limit=limit))
    for setting, value in settings.items():
        ctx.add(SettingChanged(setting=setting, value=value))
    if study.state is StudyState.COMPLETED and (limits or settings):
        ctx.move(StudyState.RUNNING, detail=f"extended by {command.actor}")


def _new_settings(ctx: StepContext, given: Mapping[Setting, Json]) -> dict[Setting, Json]:
    """Those that come out different, whole. Raises StudyRefused for what no study file may say."""
    now = resolved(ctx.view.spec)
    wanted = {setting: _merged(now[setting], setting, value) for setting, value in given.items()}
    spec = ctx.view.spec
    for setting, value in wanted.items():
        spec = with_setting(spec, setting, value)
    after = resolved(spec)
    return {setting: after[setting] for setting in wanted if after[setting] != now[setting]}


def _merged(now: Json, setting: Setting, given: Json) -> Json:
    if not isinstance(now, Mapping):
        return given
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(
            f"extend: {setting}: {given!r}: write the fields that change, like "
            "{'no_improvement': 30}"
        )
    return {**now, **given}


def _check_timely(
    ctx: StepContext, settings: Mapping[Setting, Json], limits: Collection[Resource]
) -> None:
    """Whether they would have an effect: `stop` and the budgets that only a search uses say when
    it ends, and one that is ending has read them; other settings let nothing search on."""
    study = ctx.view.study
    state = study.paused_from or study.state
    if state is StudyState.COMPLETED and settings and not limits:
        if Setting.STOP not in settings:
            raise Conflict(
                f"extend: {', '.join(settings)}: study {study.name} is completed and runs "
                "nothing; write a budget or stop with it"
            )
    late = [name for name in (*settings, *limits) if name in _SEARCH_ONLY]
    if state in (StudyState.DRAINING, StudyState.REPLAYING) and late:
        raise Conflict(
            f"extend: {', '.join(late)}: study {study.name} is {state} and searches no further; "
            "change it once the study is completed"
        )


def _new_limit(ctx: StepContext, name: str, value: object) -> tuple[Resource, float]:
    try:
        resource = Resource(name)
        change = {str(k): float(v) for k, v in dict(value).items()}  # type: ignore[call-overload]  # checked by the except
    except (TypeError, ValueError):
        known = ", ".join(_NAMES)
        raise InvalidInput(
            f"extend: {name}: {value!r}: write one of {known}; a budget with by or to"
        ) from None
    line = ctx.view.budgets.get(resource)
    if line is None or line.limit is None:
        raise Conflict(f"extend: {name}: the study has no limit on it to extend")
    limit = change["to"] if "to" in change else line.limit + change.get("by", 0.0)
    if limit < line.spent + line.reserved:
        raise Conflict(
            f"extend: {name}: {limit:g} is below what is spent and reserved already "
            f"({line.spent + line.reserved:g})"
        )
    return resource, limit
