"""The dashboard in a real browser: a study watched live, opened up, steered, and cut off."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.client import Client
from tests.acceptance.shell_study import document
from tests.e2e.conftest import NAME
from tests.e2e_pages import AXE, HOSTILE, PAGES, Watched, study_file
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser
PROGRAM = document()["program"]["argv"][2]


def slow_program(seconds: float) -> dict[str, Any]:
    return {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep {seconds}; {PROGRAM}"]}


def test_a_study_is_watched_live_and_steered(
    watched: Watched, client: Client, tmp_path: Path
) -> None:
    page = watched.page
    watched.open("/studies")
    made = client.submit(
        study_file(tmp_path, name="watched", program=slow_program(0.3), budget={"trials": 40})
    )
    page.get_by_role("link", name="watched").first.click()
    expect(page.get_by_role("heading", name="watched")).to_be_visible()
    expect(page.get_by_text("Best trial")).to_be_visible(timeout=30_000)
    loads = sum(url.endswith(f"/studies/{made.study}/trials") for url in watched.requests)
    before = int(page.get_by_role("link", name=re.compile("^Trials")).inner_text().split()[-1])
    page.wait_for_function(
        "before => Number([...document.querySelectorAll('a')].find(a => "
        "a.textContent.startsWith('Trials')).textContent.replace(/\\D/g, '')) > before",
        arg=before,
        timeout=30_000,
    )
    now = sum(url.endswith(f"/studies/{made.study}/trials") for url in watched.requests)
    assert now <= loads + 1, "once more where entries came while the list was on its way"
    page.get_by_role("button", name=re.compile("^Pause")).click()
    confirm(page, "Pause")
    expect(page.get_by_text("paused").first).to_be_visible(timeout=20_000)
    page.get_by_role("button", name=re.compile("^Resume")).click()
    confirm(page, "Resume")
    expect(page.get_by_text("running").first).to_be_visible(timeout=20_000)
    client.cancel(made.study)
    expect(page.get_by_text("cancelled").first).to_be_visible(timeout=20_000)


def test_a_page_that_came_over_plain_http_from_elsewhere_steers_and_copies(
    browser: Browser, tmp_path: Path
) -> None:
    with served(tmp_path / ".arl", "--name", NAME) as server, Client(server.url) as client:
        program, budget = slow_program(1.0), {"trials": 40}
        made = client.submit(
            study_file(tmp_path / "s", name="far", program=program, budget=budget)
        )
        page = browser.new_page()
        page.goto(f"http://{NAME}:{server.port}/studies/{made.study}")
        expect(page.get_by_role("heading", name="far")).to_be_visible(timeout=20_000)
        assert page.evaluate("isSecureContext") is False
        page.get_by_role("button", name=re.compile("^Pause")).click()
        confirm(page, "Pause")
        expect(page.get_by_text("paused").first).to_be_visible(timeout=20_000)
        page.goto(f"http://{NAME}:{server.port}/ledger")
        page.get_by_role("button", name=re.compile("^Copy ")).first.click()
        expect(page.get_by_role("button", name=re.compile("^Copied ")).first).to_be_visible()
        page.close()
        client.cancel(made.study)


def confirm(page: Page, word: str) -> None:
    """Where the button asks back."""
    dialog = page.get_by_role("dialog")
    if dialog.count():
        dialog.get_by_role("button", name=re.compile(word)).click()


def test_a_cut_server_is_said_and_nothing_is_lost_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    with served(tmp_path / ".arl") as server, Client(server.url) as client:
        made = client.submit(
            study_file(
                tmp_path / "s", name="cut", program=slow_program(0.5), budget={"trials": 12}
            )
        )
        page = browser.new_page()
        page.goto(f"{server.url}/studies/{made.study}")
        expect(page.get_by_role("heading", name="cut")).to_be_visible(timeout=20_000)
        server.kill()
        expect(
            page.get_by_text(re.compile("stopped|reconnecting|does not answer", re.I)).first
        ).to_be_visible(timeout=30_000)
        server.start()
        found = client.wait(made.study, timeout_s=120)
        expect(page.get_by_text(str(found.state)).first).to_be_visible(timeout=30_000)
        page.close()


@pytest.fixture(scope="module")
def hostile_study(server: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A finished study whose every word that a candidate or user may write is an attack."""
    report = json.dumps({"step": 1, "metric": HOSTILE.tag, "value": "nan"})
    write = (
        f"printf '%s\\n' {shlex.quote(HOSTILE.shell)}; "
        f'printf "%s\\n" {shlex.quote(report)} >> "$ARL_REPORTS"; {PROGRAM}'
    )
    with Client(server.url) as client:
        made = client.submit(
            study_file(
                tmp_path_factory.mktemp("hostile"),
                name=HOSTILE.name,
                program={"kind": "command", "argv": ["/bin/sh", "-c", write]},
                space={
                    "x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.1},
                    HOSTILE.name: {
                        "type": "categorical",
                        "choices": [HOSTILE.tag, "b"],
                        "default": HOSTILE.tag,
                    },
                },
            )
        )
        client.wait(made.study, timeout_s=120)
    return made.study


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        ("light", "laptop"),
        ("dark", "phone"),
        pytest.param("dark", "laptop", marks=pytest.mark.slow),
        pytest.param("light", "phone", marks=pytest.mark.slow),
    ],
)
def test_every_page_stands_hostile_words_and_is_accessible(
    browser: Browser, server: Served, hostile_study: str, scheme: Any, size: str
) -> None:
    width = {"laptop": 1280, "phone": 390}[size]
    context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    watched = Watched(page, server.url)
    found: dict[str, Any] = {}
    for path in PAGES:
        watched.open(path.format(study=hostile_study))
        page.wait_for_timeout(300)
        assert page.evaluate("window.hacked") is None, path
        if watched.overflow_px() > 0:
            found[f"{path}: wider than the window by"] = watched.overflow_px()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            f"{violation['id']}: {violation['nodes'][0]['html'][:120]}"
            for violation in report["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
        if serious:
            found[path] = serious
    context.close()
    assert found == {}
    assert watched.errors == []


def test_a_token_is_asked_for_and_kept_from_scripts(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / ".arl") as server, Client(server.url) as client:
        body = {"name": "me", "scopes": ["admin"]}
        token = client.connection.post("/tokens", body).json()["token"]
        page = browser.new_page()
        page.goto(f"{server.url}/studies")
        page.get_by_label(re.compile("token", re.I)).first.fill(token)
        page.get_by_role("button", name=re.compile("sign in", re.I)).click()
        expect(page.get_by_role("heading", name="Studies")).to_be_visible(timeout=20_000)
        assert token not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
        page.close()
