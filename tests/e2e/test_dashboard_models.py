"""What is done with a promoted model from the dashboard: named, noted, checked, rolled back."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from controller.campaigns.log import CampaignLog
from controller.client import Client
from controller.registry.making import make_evidence
from controller.wiring import Service
from ledger.campaign_entries import CampaignAlarm, CampaignSet
from tests.acceptance.shell_study import open_service
from tests.e2e_pages import HOSTILE, ONE_LOOK, Look, Watched, look_at
from tests.promoted_models import MODEL, promoted_twice
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser
PAGE = f"/models/{MODEL}"
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over a ledger in which a model was promoted twice, and the second of them signed."""
    place = tmp_path_factory.mktemp("models")
    service = open_service(place)
    _, second = promoted_twice(service, place)
    make_evidence(service.ledger, service.store, service.settings.home, second, "ann")
    with_a_campaign(service)
    service.close()
    with served(place / ".arl", ARL_SIGN="0") as made:
        yield made


def with_a_campaign(service: Service) -> None:
    """One that rings: it has fallen on a slice and does nothing about it by itself."""
    CampaignLog(service.ledger, "learns").add(
        lambda number: CampaignSet(
            campaign="learns",
            number=number,
            model=MODEL,
            document={"name": "learns"},
            bundle_digest="b",
            slices={"basics": "d"},
            actor="ann",
        ),
        lambda number: CampaignAlarm(
            campaign="learns",
            number=number,
            alarm="forgetting",
            detail=HOSTILE.word,
            action="tell",
            promotion=2,
            back_to=1,
        ),
    )


def asked(page: Page, button: str, verb: str | None = None) -> Locator:
    """The dialog that a button opens; it is confirmed with `verb`."""
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    if verb is not None:
        dialog.get_by_role("button", name=verb, exact=True).click()
    return dialog


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def test_an_alias_is_set_moved_and_removed(watched: Watched, client: Client) -> None:
    page = watched.page
    watched.open(PAGE)
    dialog = asked(page, "New alias")
    dialog.get_by_label("Alias").fill("7up")
    dialog.get_by_label("Names").select_option("1")
    dialog.get_by_role("button", name="Set the alias").click()
    expect(dialog.get_by_role("alert")).to_contain_text("write a letter")
    dialog.get_by_label("Alias").fill("production")
    dialog.get_by_role("button", name="Set the alias").click()
    named = card(page, "Aliases").get_by_role("list", name="Aliases")
    expect(named).to_contain_text("@production")
    expect(named).to_contain_text("names 1")
    asked(page, "Move @production", "Move the alias")
    expect(named).to_contain_text("names 2")
    assert client.model(MODEL).aliases[0].promotion == 2
    asked(page, "Remove @production", "Remove the alias")
    expect(named).not_to_contain_text("@production")
    card(page, "Aliases").get_by_text("3 changes").click()
    expect(card(page, "Aliases")).to_contain_text("names nothing")


def test_a_campaign_shows_how_it_stands_and_what_rings(watched: Watched) -> None:
    watched.open(PAGE)
    listed = card(watched.page, "Campaigns").get_by_role("listitem")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("learns")
    expect(listed).to_contain_text("active, 0 new records, 0 studies, 1 alarm")


def test_who_comes_second_is_told_and_sees_what_is_there_now(
    watched: Watched, client: Client
) -> None:
    page = watched.page
    client.set_alias(MODEL, "staging", 1, expected=None)
    watched.open(PAGE)
    dialog = asked(page, "Move @staging")
    client.set_alias(MODEL, "staging", None, expected=1)
    dialog.get_by_role("button", name="Move the alias").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(dialog.get_by_role("alert")).to_contain_text("names nothing now, not number 1")
    dialog.get_by_role("button", name="Look again").click()
    expect(page.get_by_role("button", name="Move @staging")).to_have_count(0)
    assert client.model(MODEL).aliases == []


def test_a_promotion_is_noted_checked_and_its_evidence_saved(
    watched: Watched, client: Client
) -> None:
    page = watched.page
    watched.open(PAGE)
    dialog = asked(page, "Note on incumbent 2")
    expect(dialog.get_by_role("button", name="Add the note")).to_be_disabled()
    dialog.get_by_label("Note", exact=True).fill(f"terser {HOSTILE.tag}")
    dialog.get_by_role("button", name="Add the note").click()
    expect(page.get_by_role("list", name="Notes on incumbent 2")).to_contain_text("terser <img")
    page.get_by_role("button", name="Check incumbent 2").click()
    expect(card(page, "Incumbents").get_by_role("status")).to_contain_text("as it was promoted")
    page.get_by_role("button", name="Check incumbent 1").click()
    expect(card(page, "Incumbents").get_by_role("alert")).to_contain_text("not signed")
    with page.expect_download() as saving:
        page.get_by_role("link", name="Evidence of incumbent 2", exact=True).click()
    assert saving.value.suggested_filename == f"{MODEL}-2.tar"
    assert saving.value.failure() is None


def test_a_promotion_page_has_its_evidence(watched: Watched, client: Client) -> None:
    page = watched.page
    position = client.incumbent(MODEL, 2)
    watched.open(f"/promotions/{position.family}")
    evidence = card(page, "Evidence")
    expect(evidence).to_contain_text(f"arl reproduce {MODEL}:2 DIR")
    evidence.get_by_role("button", name="Check incumbent 2").click()
    expect(evidence.get_by_role("status")).to_contain_text("as it was promoted")


def stored_file(server: Served, client: Client, number: int) -> Path:
    """Where the store keeps the only file of what was promoted."""
    tree = client.connection.get(f"/artifacts/{client.incumbent(MODEL, number).artifact}")
    (file,) = tree["listed"]
    digest = str(file["digest"])
    return server.home / "artifacts" / "objects" / digest[:2] / digest[2:]


def test_a_roll_back_to_what_is_gone_is_refused_and_to_what_is_there_done(
    watched: Watched, client: Client, server: Served
) -> None:
    page = watched.page
    file = stored_file(server, client, 1)
    watched.open(PAGE)
    kept = file.rename(file.with_suffix(".kept"))
    dialog = asked(page, "Roll back to incumbent 1")
    expect(dialog.get_by_role("button", name="Roll back")).to_be_disabled()
    dialog.get_by_label("Why").fill("answers too long")
    dialog.get_by_role("button", name="Roll back").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(dialog.get_by_role("alert")).to_contain_text("not in the store any more")
    incumbent = client.model(MODEL).incumbent
    assert incumbent is not None
    assert incumbent.seq == 2
    kept.rename(file)
    dialog.get_by_role("button", name="Look again").click()
    dialog = asked(page, "Roll back to incumbent 1")
    dialog.get_by_label("Why").fill("answers too long")
    dialog.get_by_role("button", name="Roll back").click()
    incumbents = card(page, "Incumbents")
    expect(incumbents).to_contain_text("Incumbent 3, rolled back to 1")
    expect(incumbents).to_contain_text("answers too long")
    moved = client.incumbent(MODEL, 3)
    assert (moved.rolled_back_to, moved.note) == (1, "answers too long")


def test_a_promoted_model_is_converted_and_what_came_of_it_shown(
    watched: Watched, client: Client
) -> None:
    """What a shell program left is no language model: the conversion runs, and says so."""
    page = watched.page
    promoted = client.incumbent(MODEL, 2)
    watched.open(f"/candidates/{promoted.candidate}")
    dialog = asked(page, "Convert")
    dialog.get_by_label("Runs").fill("many")
    dialog.get_by_role("button", name="Convert and judge").click()
    expect(dialog.get_by_text("valid integer")).to_be_visible()
    dialog.get_by_label("Runs").fill("1")
    dialog.get_by_role("button", name="Convert and judge").click()
    expect(dialog.get_by_role("alert")).to_contain_text("name it in program.base")
    dialog.get_by_label("What is made of it").select_option("int8")
    dialog.get_by_role("button", name="Convert and judge").click()
    shown = card(page, "Conversion: 8 bits")
    expect(shown).to_be_visible(timeout=PATIENCE_MS)
    until = time.monotonic() + PATIENCE_MS / 1000
    while not (made := client.candidate(promoted.candidate).conversions[0]).ended_at:
        assert time.monotonic() < until
        time.sleep(0.2)
    expect(shown).to_contain_text(str(made.state), timeout=PATIENCE_MS)


def filled(client: Client) -> None:
    """As much as a model may have: long names and notes, and words that attack."""
    for number, alias in enumerate(("production", "w" * 64)):
        client.set_alias(MODEL, alias, number + 1, expected=None, note=HOSTILE.word)
    client.add_note(MODEL, 1, HOSTILE.shell)
    client.add_note(MODEL, 2, "w" * 2000)


def picture(name: str, look: Look) -> Path | None:
    folder = os.environ.get("ARL_SCREENSHOTS")
    return Path(folder) / f"model-{name}-{look}.png" if folder else None


OPENED = {
    "alias": "New alias",
    "move": "Move @production",
    "remove": "Remove @production",
    "note": "Note on incumbent 1",
}


@pytest.mark.parametrize("look", ONE_LOOK, ids=str)
def test_a_model_full_of_words_and_what_opens_over_it_are_whole(
    browser: Browser, server: Served, client: Client, look: Look
) -> None:
    if not client.model(MODEL).aliases:
        filled(client)
    context = browser.new_context(
        viewport={"width": look.width_px, "height": 860}, color_scheme=look.scheme
    )
    seen = Watched(context.new_page(), server.url)
    seen.page.set_default_timeout(20_000)
    wrong = {}
    position = client.incumbent(MODEL, 2)
    for path in (PAGE, "/models", f"/promotions/{position.family}"):
        seen.open(path)
        wrong[path] = look_at(seen, picture(path.replace("/", "-")[1:], look))
    seen.open(f"/candidates/{position.candidate}")
    wrong["candidate"] = look_at(seen, picture("candidate", look))
    seen.page.get_by_role("button", name="Convert", exact=True).click()
    seen.page.get_by_label("What is made of it").select_option("gptq")
    wrong["convert"] = look_at(seen, picture("convert", look))
    seen.open(PAGE)
    seen.page.get_by_role("button", name="Check incumbent 1").click()
    expect(card(seen.page, "Incumbents").get_by_role("alert")).to_be_visible()
    seen.page.get_by_text(re.compile("^[0-9]+ changes$")).click()
    wrong["checked"] = look_at(seen, picture("checked", look))
    for name, button in OPENED.items():
        asked(seen.page, button)
        wrong[name] = look_at(seen, picture(f"opened-{name}", look))
        seen.page.keyboard.press("Escape")
    seen.page.get_by_role("button", name=re.compile("^Roll back")).first.click()
    wrong["back"] = look_at(seen, picture("opened-back", look))
    context.close()
    assert {path: found for path, found in wrong.items() if found} == {}
    assert seen.errors == []


def test_who_may_only_look_sees_why_a_button_is_not_for_them(
    browser: Browser, server: Served, client: Client
) -> None:
    """The last one: from the first token on the server asks for one."""
    candidate = client.incumbent(MODEL, 2).candidate
    made = client.connection.post("/tokens", {"name": "eyes", "scopes": ["read"]}).json()
    page = browser.new_page()
    page.goto(f"{server.url}{PAGE}")
    page.get_by_label(re.compile("token", re.I)).first.fill(made["token"])
    page.get_by_role("button", name="Sign in").click()
    for button in ("New alias", "Note on incumbent 1", "Note on incumbent 2"):
        found = page.get_by_role("button", name=button, exact=True)
        expect(found).to_be_disabled(timeout=20_000)
        expect(found).to_have_attribute("title", "Your token lacks the scope promote")
    expect(page.get_by_role("button", name="Check incumbent 2")).to_be_enabled()
    expect(card(page, "Aliases")).to_contain_text("lacks the scope promote")
    page.goto(f"{server.url}/candidates/{candidate}")
    for button in ("Convert", "Replay"):
        found = page.get_by_role("button", name=button, exact=True)
        expect(found).to_be_disabled(timeout=20_000)
        expect(found).to_have_attribute("title", "Your token lacks the scope submit")
    page.close()
