"""Chromium over a served ledger."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from controller.client import Client
from tests.e2e_pages import Watched
from tests.serve_runs import Served, served


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found is not None, "no Chromium: sudo apt-get install chromium"
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / ".arl") as made:
        yield made


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


@pytest.fixture
def watched(browser: Browser, server: Served) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(20_000)
    made = Watched(page, server.url)
    yield made
    context.close()
    assert made.errors == []
