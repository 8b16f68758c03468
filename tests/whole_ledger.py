"""A ledger with one of everything that the API has an address for."""

from pathlib import Path
from typing import Any

from controller.registry.making import make_evidence
from controller.registry.pointers import roll_back, set_alias
from controller.wiring import Service
from controller.worker.noticing import Noticing
from ledger.registry_reads import get_pointer
from tests.acceptance.shell_study import open_service
from tests.e2e_studies import fill_awkward
from tests.integration.test_campaign_reading import fill as fill_campaign
from tests.promoted_models import promote
from tests.webhook_studies import fails, told_study

MODEL = "winner"
CAMPAIGN = "live"


def fill_whole(home: Path, *, trials: int) -> None:
    """Every awkward study, a model that was promoted twice, signed, rolled back and named by an
    alias, a campaign, a notification that waits."""
    fill_awkward(home, trials=trials)
    service = open_service(home)
    promote(service, home / "first", 0.1, 0.3, model=MODEL)
    promote(service, home / "second", 0.3, 0.9, model=MODEL)
    _register(service)
    fill_campaign(service, CAMPAIGN)
    fails(told_study(service.ledger, "told", {"webhook": "https://example.org/hook"}))
    Noticing(service.ledger, service.settings).look()
    service.close()


def _register(service: Service) -> None:
    with service.ledger.read() as session:
        first, second = (get_pointer(session, MODEL, number) for number in (1, 2))
    for pointer in (first, second):
        make_evidence(service.ledger, service.store, service.settings.home, pointer, "ann")
    with service.ledger.write() as session:
        roll_back(session, first, expected=2, actor="ann", note="answers too long")
        named: dict[str, Any] = {"model": MODEL, "actor": "ann", "note": ""}
        set_alias(session, alias="production", promotion=2, expected=None, **named)
