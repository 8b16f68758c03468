"""Chromium over a served ledger."""

import html
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from controller.client import Client
from tests.e2e_pages import Watched
from tests.e2e_studies import fill_awkward
from tests.serve_runs import Served, served

NAME = "arl.test"
"""Under which the browser finds this machine too: a page from there is one from elsewhere."""
MANY_TRIALS = 20_000
"""Of the study `bulk`."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"],
        )
        yield made
        made.close()


@pytest.fixture(scope="session", autouse=True)
def contact_sheet() -> Iterator[None]:
    """With ARL_SCREENSHOTS the folder's index.html: each page's pictures side by side."""
    yield
    if folder := os.environ.get("ARL_SCREENSHOTS"):
        write_contact_sheet(Path(folder))


def write_contact_sheet(folder: Path) -> None:
    pages: dict[str, list[str]] = defaultdict(list)
    for picture in sorted(folder.glob("*.png")):
        pages["-".join(picture.stem.split("-")[:-2])].append(picture.name)
    rows = "".join(
        f"<h2>{html.escape(page)}</h2><p>"
        + "".join(
            f'<a href="{html.escape(name)}"><img loading="lazy" src="{html.escape(name)}"></a>'
            for name in names
        )
        + "</p>"
        for page, names in pages.items()
    )
    style = (
        "body{font:14px system-ui;background:#777}"
        "img{height:420px;margin-right:8px;object-fit:cover;object-position:top}"
        "p{display:flex;overflow-x:auto}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(
        f"<!doctype html><title>Pictures</title><style>{style}</style>{rows}", encoding="utf-8"
    )


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found is not None, "no Chromium: sudo apt-get install chromium"
    return found


@pytest.fixture(scope="session")
def awkward_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over every awkward study, without a worker: nobody takes up what is only rows."""
    home = tmp_path_factory.mktemp("awkward")
    fill_awkward(home, trials=MANY_TRIALS)
    with served(home / ".arl", "--no-worker") as made:
        yield made


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
