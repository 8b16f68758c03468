"""Asks the proposer: at once where that is quick, else beside the loop, its price reserved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from controller.steps.context import Asked, OutOfModelBudget, StepContext
from controller.steps.sources import source_reader
from evaluator.release import next_best, rounded
from ledger import entries as e
from ledger.digests import json_digest, sha256_hex
from ledger.errors import BudgetExceeded, ProposerFailed
from ledger.records import Resource
from ledger.search import FinishedTrial, History, ModelCall, Price, Proposals
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.protocol import PricedProposer
from proposers.registry import Registered, describe

LOST: Final = "lost"
"""Outcome of calls whose answer was lost with the worker that made them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    proposals: Proposals
    watermark: int


def ask_proposer(ctx: StepContext, count: int) -> Answer | None:
    """What the proposer gives, recorded with all it took; None while it thinks or waits.

    Raises OutOfModelBudget, and what proposers.host.ask raises.
    """
    registered = _described(ctx)
    if ctx.clock.monotonic() < ctx.propose_at:
        return None
    if ctx.asked is None:
        _settle_lost(ctx)
        ctx.asked = _begin(ctx, registered, count)
    asked = ctx.asked
    if not asked.may_call:
        return None
    given = _call(ctx, registered, asked)
    if given is None:
        return None
    ctx.asked = None
    if asked.spent is not None and not given.items and given.retry_after_s is None:
        raise asked.spent
    _record(ctx, asked, given)
    return Answer(proposals=given, watermark=asked.watermark)


def _described(ctx: StepContext) -> Registered:
    chosen = ctx.view.spec.proposer
    return describe(chosen.name, chosen.options)


def _begin(ctx: StepContext, registered: Registered, count: int) -> Asked:
    """Fix what the proposer is told, and set aside what it may cost."""
    history = told(ctx, registered)
    if registered.is_slow:  # the loop goes on changing the lists meanwhile
        history = replace(
            history, finished=tuple(history.finished), proposed=frozenset(history.proposed)
        )
    asked = Asked(
        history=history,
        count=count,
        watermark=ctx.view.finish_seq,
        price=Price(),
        may_call=not registered.asks_models,
    )
    if registered.asks_models:
        asked.price = cast(PricedProposer, ctx.proposer).price(history, count=count)
        try:
            _reserve(ctx, asked)
        except OutOfModelBudget as spent:
            if not registered.spares_models:
                raise
            asked.price, asked.may_call, asked.spent = Price(), True, spent
            asked.history = replace(history, may_ask_models=False)
    return asked


def _reserve(ctx: StepContext, asked: Asked) -> None:
    amounts = (
        (Resource.LLM_TOKENS, asked.price.tokens, Reason.BUDGET_LLM_TOKENS),
        (Resource.LLM_COST_USD, asked.price.cost_usd, Reason.BUDGET_LLM_COST),
    )
    for resource, amount, reason in amounts:
        try:
            ctx.check_room(resource, amount)
        except BudgetExceeded as error:
            raise OutOfModelBudget(reason, str(error)) from None
    ctx.add(
        e.ModelCallsReserved(
            first_number=asked.history.next_number,
            tokens=asked.price.tokens,
            cost_usd=asked.price.cost_usd,
        )
    )

    def allow() -> None:
        asked.may_call = True

    ctx.after_commit.append(allow)


def _call(ctx: StepContext, registered: Registered, asked: Asked) -> Proposals | None:
    view = ctx.view
    proposer, space, state = ctx.proposer, ctx.space, view.proposer_state

    def work() -> Proposals:
        return ask(
            proposer,
            asked.history,
            space=space,
            count=asked.count,
            seed=view.study.seed,
            state=state,
        )

    asked.is_called = True
    return ctx.proposing.result(asked.key, work) if registered.is_slow else work()


def _record(ctx: StepContext, asked: Asked, given: Proposals) -> None:
    view, registered = ctx.view, _described(ctx)
    if registered.asks_models and asked.spent is None:
        _settle(ctx, asked.history.next_number, asked.price, given.calls)
    if given.retry_after_s is not None:
        ctx.propose_at = ctx.clock.monotonic() + given.retry_after_s
        if given.waits_for and view.study.detail != given.waits_for:
            ctx.add(e.ProposerWaits(detail=given.waits_for))
    elif view.proposer_waits:
        ctx.add(e.ProposerWaits(detail=""))
    if given.items or given.retry_after_s is None:
        ctx.add(
            e.ProposalsMade(
                first_number=asked.history.next_number,
                asked=asked.count,
                given=len(given.items),
                watermark=asked.watermark,
                seed=view.study.seed,
                state_digest=None if given.state is None else sha256_hex(given.state),
                retries=given.retry_after_s is not None,
                state=given.state,
            )
        )


def _settle(ctx: StepContext, first: int, price: Price, made: Sequence[ModelCall]) -> None:
    """Record what was asked and answered, and give the rest of the reservation back."""
    for call in made:
        ctx.add(
            e.ModelCalled(
                number=ctx.view.model_calls,
                first_number=first,
                model=call.model,
                endpoint=call.endpoint,
                outcome=call.outcome,
                prompt_version=call.prompt_version,
                prompt_tokens=call.prompt_tokens,
                completion_tokens=call.completion_tokens,
                cost_usd=call.cost_usd,
                latency_s=round(call.latency_s, 3),
                content_digest=json_digest([call.request, call.response]),
                request=call.request,
                response=call.response,
            )
        )
    ctx.add(
        e.ModelCallsSettled(
            first_number=first,
            reserved_tokens=price.tokens,
            reserved_cost_usd=price.cost_usd,
            tokens=float(sum(c.prompt_tokens + c.completion_tokens for c in made)),
            cost_usd=sum(c.cost_usd for c in made),
        )
    )


def finish(ctx: StepContext) -> None:
    """Let go of what was asked: the search is over. An answer that comes while trials still run
    is paid for as it is, one that nobody waits for any longer at its worst; nothing is proposed.
    """
    asked, ctx.asked = ctx.asked, None
    if asked is None:
        _settle_lost(ctx)
        return
    given: Proposals | None = Proposals(items=())
    if asked.is_called:
        try:
            given = ctx.proposing.take(asked.key)
        except ProposerFailed:
            given = None
        else:
            if given is None and ctx.view.live:
                ctx.asked = asked
                return
        ctx.proposing.forget(asked.key)
    if given is None:
        _settle_lost(ctx)
    elif asked.price != Price():
        _settle(ctx, asked.history.next_number, asked.price, given.calls)


def _settle_lost(ctx: StepContext) -> None:
    """A reservation nobody is using is that of a call whose answer was lost: charged whole."""
    lines = [ctx.view.budgets.get(r) for r in (Resource.LLM_TOKENS, Resource.LLM_COST_USD)]
    tokens, cost = (0.0 if line is None else line.reserved for line in lines)
    if tokens <= 0 and cost <= 0:
        return
    lost = ModelCall(
        model="",
        endpoint="",
        prompt_version="",
        request="",
        response=None,
        outcome=LOST,
        prompt_tokens=round(tokens),
        cost_usd=cost,
    )
    _settle(ctx, ctx.view.next_search, Price(tokens=tokens, cost_usd=cost), (lost,))


# --- what it is told -----------------------------------------------------------------------------


def told(ctx: StepContext, registered: Registered) -> History:
    """The history as this proposer may know it."""
    history = ctx.view.history(ctx.noise_floor())
    history = replace(history, baseline_id=ctx.baseline_candidate_id(), brief=ctx.brief)
    if registered.writes_patches:
        history = replace(
            history, sources=source_reader(ctx), baseline_source=ctx.view.baseline_source
        )
    chosen = ctx.view.spec.proposer.options.get("release")
    if chosen == "ladder" or (chosen is None and registered.asks_models):
        return released(history)
    return replace(history, best=ctx.view.best_value)


def released(history: History) -> History:
    """The history with rounded scores and the Ladder's best; other metrics are left out."""
    step, direction = history.noise_floor, history.objective.direction
    best: float | None = None
    finished: list[FinishedTrial] = []
    for trial in history.finished:
        value = trial.value
        if value is not None:
            value = rounded(value, step)
            if trial.state is TrialState.COMPLETE and trial.reason is not Reason.INFEASIBLE:
                best = next_best(best, trial.value or 0.0, step=step, direction=direction)
        finished.append(replace(trial, value=value, scores={}))
    return replace(
        history,
        finished=tuple(finished),
        baseline=tuple(rounded(value, step) for value in history.baseline),
        best=best,
        is_released=True,
    )
