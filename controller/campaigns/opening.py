"""Opens a campaign: its evaluator and slices stored, and what may not change any more checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from controller.campaigns.log import CampaignLog
from controller.campaigns.training import HeldOut, prompts_of_tree
from controller.places import settle_targets
from controller.spec.campaign_loading import Campaign, resolved_campaign
from controller.steps.submit import freeze_evaluator
from controller.wiring import Service
from evaluator.bundle import Bundle
from evaluator.protocol import SPLIT_FILE
from inner_trials.data import DataError, read_rows
from ledger.campaign_entries import CampaignEntry, CampaignSet
from ledger.errors import Conflict, InvalidInput

MODE: Final = 0o644
LEAST_ITEMS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A campaign with what is stored of it."""

    campaign: Campaign
    log: CampaignLog
    bundle: Bundle
    slices: Mapping[str, str]
    """Tree digest by name."""
    held_out: HeldOut
    reference: tuple[Mapping[str, object], ...]
    """Rows to compare incoming prompts with."""


def open_campaign(service: Service, campaign: Campaign, actor: str, *, again: bool) -> Opened:
    """Begin it, or go on. A changed file is recorded.

    Args:
        again: whether to go on although it was stopped.

    Raises:
        Conflict: it was stopped; or what is fixed for its whole life is another now.
        InvalidInput: a slice, the reference or the evaluator cannot be used.
    """
    settled, _ = settle_targets(campaign.study, service.settings)
    campaign = replace(campaign, study=settled)
    spec = campaign.spec
    log = CampaignLog(service.ledger, spec.name)
    if log.state.stopped is not None and not again:
        raise Conflict(
            f"campaign {spec.name} was stopped by {log.state.stopped.actor}: --again goes on"
        )
    slices = {
        name: _stored_slice(service, name, campaign.path(one.file))
        for name, one in spec.slices.items()
    }
    _check_fixed(campaign, slices, log.state.settings)
    bundle = freeze_evaluator(service, campaign.study, campaign.study_base)
    if bundle is None:
        raise InvalidInput("evaluator.mode: reported scores no answers; write weights")
    reference = (
        () if spec.shift is None else _rows("shift.reference", campaign, spec.shift.reference)
    )
    settings = partial(
        CampaignSet,
        campaign=spec.name,
        model=spec.model,
        document=resolved_campaign(spec),
        bundle_digest=bundle.digest,
        slices=slices,
        actor=actor,
    )
    before = log.state.settings
    if log.state.stopped is not None or before is None or _differs(before, settings(number=0)):
        log.add(settings)
    protected = _prompts(service, [*slices.values(), *bundle.splits.values()])
    return Opened(
        campaign=campaign,
        log=log,
        bundle=bundle,
        slices=slices,
        held_out=HeldOut(spec.experience.holdout, protected),
        reference=reference,
    )


def _prompts(service: Service, trees: Sequence[str]) -> frozenset[str]:
    """Digests of the prompts of all of them."""
    return frozenset().union(*(prompts_of_tree(service.store, tree) for tree in trees))


def _differs(before: CampaignSet, now: CampaignEntry) -> bool:
    if not isinstance(now, CampaignSet):
        raise TypeError("settings are compared with settings")
    return (before.document, before.bundle_digest) != (now.document, now.bundle_digest)


def _check_fixed(
    campaign: Campaign, slices: Mapping[str, str], before: CampaignSet | None
) -> None:
    """What was trained on cannot be held out afterwards."""
    if before is None:
        return
    spec = campaign.spec
    experience = before.document["experience"]
    share = experience["holdout"] if isinstance(experience, Mapping) else None
    changed = {
        "model": (before.model, spec.model),
        "experience.holdout": (share, spec.experience.holdout),
        "slices": (dict(before.slices), dict(slices)),
    }
    for field, (old, new) in changed.items():
        if old != new:
            raise Conflict(
                f"{field} of campaign {spec.name} is another than it began with, and is fixed for "
                "its life, since what was trained on cannot be held out afterwards: put it back, "
                "or begin one of another name"
            )


def _stored_slice(service: Service, name: str, file: Path) -> str:
    """A tree laid out as an evaluator's split is."""
    try:
        count = sum(1 for _ in read_rows(file))
    except DataError as error:
        raise InvalidInput(f"slices.{name}.file: {error}") from None
    if count < LEAST_ITEMS:
        raise InvalidInput(f"slices.{name}.file: it has {count} item, and {LEAST_ITEMS} at least")
    content = file.read_bytes()
    digest = service.store.put_bytes(content)
    return service.store.put_manifest([(SPLIT_FILE, MODE, len(content), digest)])


def _rows(field: str, campaign: Campaign, name: str) -> tuple[Mapping[str, object], ...]:
    try:
        return tuple(row.fields for row in read_rows(campaign.path(name)))
    except DataError as error:
        raise InvalidInput(f"{field}: {error}") from None
