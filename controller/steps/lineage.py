"""Collects, link by link, what a candidate that is about to be promoted was made of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from controller.decisions.lineage import LineageNeeds, scores_with_interval
from controller.spec.plan_section import study_plan
from controller.steps import evidence
from controller.steps.context import StepContext
from controller.steps.gate_input import halves_of
from controller.steps.loading import ENTRIES_BEFORE_FROZEN
from controller.steps.run_facts import read_facts
from controller.steps.view import Measured
from inner_trials.planning.settled import PLANES, settled
from ledger import entries as e
from ledger import reads
from ledger.origin_reads import AttemptTotals, attempt_totals, trial_origin
from ledger.records import Family, Json, Params, Resource, Split
from ledger.states import TrialState

NOT_DATA: Final = frozenset({"base", "code", "source"})
TOPOLOGY: Final = (
    "trainer",
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "trainer_gpus",
    "rollout_gpus",
    "placement",
)
SYNC: Final = ("rollout", "sync", "sync_payload", "staleness_bound", "correction", "placement")
OPTIMIZER: Final = (
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "precision",
)
ADAPTER: Final = ("parameterization", "keep_adapter")


def needs_of(ctx: StepContext) -> LineageNeeds:
    spec = ctx.view.spec
    return LineageNeeds(
        kind=spec.program.kind,
        reported=ctx.bundle is None,
        has_image=spec.target.image is not None,
    )


def collect_links(
    ctx: StepContext, family: Family, candidate_id: str, artifact: str
) -> dict[str, Json]:
    """What is known of every link; None for what is not. The artifact is that of the candidate's
    first confirmation run."""
    trial_id = evidence.confirmed_trial(ctx, family.id, candidate_id) or ""
    params, source = evidence.candidate_parts(ctx, candidate_id)
    sources = _Sources(ctx, trial_id)
    plan = study_plan(ctx.view.spec, params)
    whole = None if plan is None else settled(plan, ctx.view.spec.resources.gpus)
    return {
        **_made_of(ctx, params, source, sources),
        "plan": None if plan is None else asdict(plan),
        **_trained_how(whole, sources),
        **_sampled_how(whole, sources),
        **_ran_where(ctx, sources),
        "checkpoints": {
            **_section(sources.facts, "checkpoints"),
            "base": ctx.view.study.inputs.get("base"),
            "resumed": list(sources.origin.resumed),
            "model": artifact,
        },
        "cost": _cost(ctx, sources.used),
        **_scores(ctx, family, candidate_id),
    }


class _Sources:
    """What the ledger and the store hold of one trial and its study."""

    def __init__(self, ctx: StepContext, trial_id: str) -> None:
        with ctx.ledger.read() as session:
            head = reads.list_entries(session, ctx.view.study.id, limit=ENTRIES_BEFORE_FROZEN)
            self.origin = trial_origin(session, trial_id)
            self.used = attempt_totals(session, ctx.view.study.id)
        payloads = {entry.kind: entry.payload for entry in reversed(head)}
        submitted = payloads.get(e.StudySubmitted.kind, {})
        self.environment = str(submitted.get("environment") or "") or None
        report = payloads.get(e.InputsFrozen.kind, {}).get("report")
        pins = report.get("pins") if isinstance(report, Mapping) else None
        self.pins: Mapping[str, Json] = pins if isinstance(pins, Mapping) else {}
        is_ours = ctx.view.spec.program.kind != "command"
        self.facts = read_facts(ctx.store, self.origin.facts) if is_ours else {}
        self.settings = _section(self.facts, "settings")


def _section(document: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _some(values: Mapping[str, Json]) -> dict[str, Json] | None:
    return dict(values) or None


def _chosen(values: Mapping[str, Json] | None, names: Sequence[str]) -> dict[str, Json] | None:
    return _some({name: values[name] for name in names if name in values}) if values else None


def _made_of(
    ctx: StepContext, params: Params, source: str | None, sources: _Sources
) -> dict[str, Json]:
    spec, inputs = ctx.view.spec, ctx.view.study.inputs
    return {
        "program": {
            "kind": spec.program.kind,
            "argv": list(spec.program.argv or ()),
            "source": source,
            "code": inputs.get("code"),
        },
        "parameters": dict(params),
        "data": {name: digest for name, digest in inputs.items() if name not in NOT_DATA},
        "objective": {
            "metric": ctx.view.objective.metric,
            "direction": str(ctx.view.objective.direction),
        },
        "base": inputs.get("base"),
        "tokenizer": sources.pins.get("tokenizer"),
        "chat_template": (sources.pins.get("chat_template") or "none") if sources.pins else None,
        "evaluator": ctx.bundle.digest if ctx.bundle is not None else None,
    }


def _trained_how(plan: Mapping[str, Json] | None, sources: _Sources) -> dict[str, Json]:
    settings = sources.settings
    adapter = {n: v for n, v in settings.items() if n in ADAPTER or n.startswith("lora_")}
    merged = settings.get("parameterization") not in (None, "full")
    return {
        "settings": _some(settings),
        "adapter": _some(adapter),
        "trainer": _chosen(plan, TOPOLOGY),
        "precision": _chosen(plan, PLANES),
        "optimizer": _chosen(settings, OPTIMIZER),
        "conversion": {"method": "adapter merged into the base" if merged else "none"},
    }


def _sampled_how(plan: Mapping[str, Json] | None, sources: _Sources) -> dict[str, Json]:
    facts = sources.facts
    return {
        "reward": _some(_section(facts, "reward")),
        "sampling": _some(_section(facts, "sampling")),
        "policy_versions": _some(_section(facts, "policy_versions")),
        "sync": _chosen(plan, SYNC),
    }


def _ran_where(ctx: StepContext, sources: _Sources) -> dict[str, Json]:
    spec, origin = ctx.view.spec, sources.origin
    where: list[Json] = [{"target": target, "host": host} for target, host in origin.places]
    return {
        "runtime": sources.environment,
        "libraries": _some(_section(sources.facts, "runtime")),
        "image": spec.target.image,
        "seeds": {"study": ctx.view.study.seed, "trial": origin.seed},
        "hardware": {
            **_section(sources.facts, "hardware"),
            "places": where,
            "cpus": spec.resources.cpus,
            "gpus_given": spec.resources.gpus,
        }
        if where
        else None,
    }


def _cost(ctx: StepContext, used: AttemptTotals) -> dict[str, Json]:
    """Of the whole study up to here, what is about to be committed included."""
    view = ctx.view
    spent = {str(resource): line.spent for resource, line in view.budgets.items()}
    fresh = [entry for entry in ctx.batch if isinstance(entry, e.AttemptExited)]
    return {
        "trials": view.next_number,
        "wall_s": ctx.active_s(),
        "attempts": used.attempts,
        "attempt_wall_s": used.wall_s + sum(entry.wall_s for entry in fresh),
        "cpu_s": used.cpu_s + sum(entry.cpu_s for entry in fresh),
        "gpu_s": used.gpu_s + sum(entry.gpu_s for entry in fresh),
        "llm_tokens": spent.get(str(Resource.LLM_TOKENS), 0.0),
        "llm_cost_usd": spent.get(str(Resource.LLM_COST_USD), 0.0),
    }


def _scores(ctx: StepContext, family: Family, candidate_id: str) -> dict[str, Json]:
    """Of the confirmation's runs: fresh, and not those that the candidate was chosen by."""
    runs = ctx.view.replays.get(family.id, ())
    confirmed = [
        m for m in runs if (m.stage or "").startswith("confirm") and m.state is TrialState.COMPLETE
    ]
    own = [m for m in confirmed if m.candidate_id == candidate_id]
    old = [m for m in confirmed if m.candidate_id == family.incumbent_id]
    halves = halves_of(ctx.view)
    holdout: dict[str, Json] = {
        str(half): {"candidate": _score(own, half), "incumbent": _score(old, half)}
        for half in halves
        if half is not Split.SEARCH
    }
    return {
        "search": _score(own, Split.SEARCH),
        "holdout": holdout if holdout and all(_score(own, half) for half in halves) else None,
        "runs": {
            "candidate": [m.trial_id for m in own],
            "incumbent": [m.trial_id for m in old],
        },
    }


def _score(runs: Sequence[Measured], split: Split) -> dict[str, Json] | None:
    return scores_with_interval([m.values[split] for m in runs if split in m.values])
