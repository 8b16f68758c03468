"""What opens over a page, and the pages of a server that asks who one is, or is gone."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.client import Client
from tests.e2e_pages import ONE_LOOK, Look, Watched, look_at
from tests.e2e_studies import fill_awkward
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("opened")
    fill_awkward(home, trials=40)
    with served(home / ".arl", "--no-worker") as made:
        yield made


@pytest.fixture(params=ONE_LOOK, ids=str)
def look(request: pytest.FixtureRequest) -> Look:
    made: Look = request.param
    return made


@pytest.fixture
def seen(browser: Browser, server: Served, look: Look) -> Iterator[Watched]:
    with looked_at(browser, server, look) as made:
        yield made


@contextmanager
def looked_at(browser: Browser, server: Served, look: Look) -> Iterator[Watched]:
    context = browser.new_context(
        viewport={"width": look.width_px, "height": 860}, color_scheme=look.scheme
    )
    yield Watched(context.new_page(), server.url)
    context.close()


def picture(name: str, look: Look) -> Path | None:
    folder = os.environ.get("ARL_SCREENSHOTS")
    return Path(folder) / f"opened-{name}-{look}.png" if folder else None


def open_help(page: Page) -> None:
    page.keyboard.press("?")


def open_cancel(page: Page) -> None:
    page.get_by_role("button", name="Cancel").click()


def open_columns(page: Page) -> None:
    page.get_by_text("Columns", exact=True).click()


def open_filters(page: Page) -> None:
    page.get_by_role("button", name="Kept", exact=True).click()
    page.get_by_label("Add a condition").fill("value>>")
    page.keyboard.press("Enter")


def open_entry(page: Page) -> None:
    page.get_by_role("cell", name="candidate proposed").first.click()


def open_token(page: Page) -> None:
    page.get_by_role("button", name="New token").click()


def open_table(page: Page) -> None:
    page.get_by_role("button", name="Table").first.click()


def open_price(page: Page) -> None:
    page.get_by_role("button", name="Example").click()
    page.get_by_role("button", name="Check and price").click()
    expect(page.get_by_role("heading", level=2).nth(1)).to_be_visible(timeout=20_000)


def open_system(page: Page) -> None:
    page.get_by_role("button", name="Check the system").click()
    expect(page.get_by_role("heading", level=2).nth(1)).to_be_visible(timeout=20_000)


def open_approval(page: Page) -> None:
    page.get_by_role("link", name=re.compile("promoting")).first.click()
    page.get_by_role("button", name="Approve").click()


OPENED: tuple[tuple[str, Callable[[Page], None]], ...] = (
    ("/studies", open_help),
    ("/studies/hostile", open_cancel),
    ("/studies/hostile", open_table),
    ("/studies/hostile/trials", open_columns),
    ("/studies/long-names/trials", open_filters),
    ("/ledger?chain=hostile", open_entry),
    ("/system?tab=tokens", open_token),
    ("/plan", open_price),
    ("/plan?tab=system", open_system),
    ("/promotions", open_approval),
)


def test_what_opens_over_a_page_is_whole(seen: Watched, look: Look) -> None:
    wrong = {}
    for path, opens in OPENED:
        seen.open(path)
        expect(seen.page.locator("main [aria-busy=true]")).to_have_count(0, timeout=20_000)
        opens(seen.page)
        if found := look_at(seen, picture(opens.__name__, look)):
            wrong[f"{path} {opens.__name__}"] = found
    assert wrong == {}
    assert seen.errors == []


def test_the_page_that_asks_for_a_token_is_whole(
    browser: Browser, tmp_path: Path, look: Look
) -> None:
    with served(tmp_path / ".arl", "--no-worker") as server, Client(server.url) as client:
        client.connection.post("/tokens", {"name": "me", "scopes": ["admin"]})
        with looked_at(browser, server, look) as seen:
            seen.page.goto(f"{server.url}/studies")
            seen.page.get_by_label("Token").fill("arl_wrong")
            assert look_at(seen, picture("sign_in", look)) == []
            seen.page.get_by_role("button", name="Sign in").click()
            expect(seen.page.get_by_label("Token")).to_have_attribute("aria-invalid", "true")
            assert look_at(seen, picture("sign_in_refused", look)) == []
            assert seen.errors == []


@pytest.mark.slow
def test_pages_of_a_server_that_is_gone_say_so_and_come_back_with_it(
    browser: Browser, tmp_path: Path, look: Look
) -> None:
    with (
        served(tmp_path / ".arl", "--no-worker") as server,
        looked_at(browser, server, look) as seen,
    ):
        seen.open("/studies")
        expect(seen.page.get_by_text("live", exact=True)).to_be_visible()
        server.kill()
        gone = seen.page.get_by_text("The server does not answer", exact=False).first
        expect(gone).to_be_visible(timeout=30_000)
        assert look_at(seen, picture("gone", look)) == []
        if look.width_px > 1000:  # the others lie behind the menu
            seen.page.get_by_role("link", name="Ledger", exact=True).click()
            said = seen.page.get_by_role("heading", name="This page could not be shown")
            expect(said).to_be_visible(timeout=30_000)
            assert look_at(seen, picture("gone_ledger", look)) == []
        server.start()
        seen.page.get_by_role("button", name="Try now").click()
        expect(seen.page.get_by_text("live", exact=True)).to_be_visible(timeout=30_000)
        if look.width_px > 1000:
            seen.page.get_by_role("button", name="Try again").click()
            expect(seen.page.get_by_role("heading", name="Ledger")).to_be_visible(timeout=30_000)
        # A page's code that could not be had is no fault of the page.
        assert [error for error in seen.errors if "preload" not in error] == []
