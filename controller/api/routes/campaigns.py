"""Campaigns: models that learn while they are served. They are run by `arl campaign`."""

from typing import Annotated, Any

from fastapi import Path

from controller.api.models.campaigns import CampaignDetail, CampaignsOut
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, Reader, TheService
from controller.api.routing import new_router
from controller.documents.campaigns import campaign_document, campaign_rows
from controller.documents.finite import flagged
from ledger.campaigns import campaign_facts
from ledger.errors import NotFound

router = new_router("campaigns")

CampaignName = Annotated[str, Path(max_length=LONGEST_NAME, description="A campaign's name")]


@router.get("/campaigns", response_model=CampaignsOut)
def list_campaigns(_: Reader, service: TheService) -> dict[str, Any]:
    """Every campaign, with what it waits for."""
    with service.ledger.read() as session:
        return {"items": campaign_rows(campaign_facts(session))}


@router.get("/campaigns/{campaign}", response_model=CampaignDetail, responses=documented(404))
def show_campaign(_: Reader, service: TheService, campaign: CampaignName) -> dict[str, Any]:
    """One campaign, with what was measured and what rang."""
    with service.ledger.read() as session:
        facts = campaign_facts(session, campaign)
    if not facts:
        raise NotFound(f"no campaign is called {campaign!r}")
    return dict(flagged(campaign_document(facts)))
