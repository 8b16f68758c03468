"""Every page of the dashboard over studies that hardly are any, and over words that attack."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from controller.client import Client
from tests.e2e_pages import LOOKS, LOOKS_IN_TURN, ONE_LOOK, Look, Watched, look_at
from tests.e2e_studies import ROWS, RUN
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser
SLOW = [pytest.mark.slow]
STUDIES = (*ROWS, *RUN, "bulk")
OF_STUDY = ("", "/trials", "/proposer", "/spec")
VIEWS = (
    *("parallel", "importances", "slice", "contour"),
    *("edf", "pareto", "intermediate", "timeline"),
)
ELSEWHERE = (
    *("/studies", "/compare", "/promotions", "/models", "/ledger", "/ledger?chain=service"),
    *("/plan", "/plan?tab=system", "/plan?tab=rollouts"),
    *("/system", "/system?tab=tokens", "/system?tab=audit"),
)


@pytest.fixture(scope="module")
def server(awkward_server: Served) -> Served:
    return awkward_server


def id_of(server: Served, study: str) -> str:
    with Client(server.url) as client:
        return {one.name: one.study for one in client.studies()}.get(study, study)


def view_of(server: Served, study: str, view: str) -> str:
    return f"/studies/{id_of(server, study)}/analysis?view={view}"


def addresses(server: Served, study: str) -> list[str]:
    """Every page there is of a study, and one view of its analysis: the others are slow."""
    of = id_of(server, study)
    with Client(server.url) as client:
        pages = [f"/studies/{of}{page}" for page in OF_STUDY]
        pages.append(view_of(server, study, VIEWS[STUDIES.index(study) % len(VIEWS)]))
        trials = [trial for trial, _ in zip(client.trials(of), range(5), strict=False)]
        pages += [f"/studies/{of}/trials/{trial.number}" for trial in trials[:2]]
        pages += [f"/candidates/{trial.candidate}" for trial in trials[-1:]]
        if len(trials) > 1:
            pages.append(f"/compare?trials={','.join(trial.id for trial in trials)}")
        if study == "promoting":
            pages += [f"/promotions/{one.family}" for one in client.promotions()]
            pages.append("/models/toy")
        if study == "model-answers":
            pages += [f"/studies/{of}/model-calls/{number}" for number in (0, 2)]
    return pages


def every_look() -> list[Any]:
    """Each study in each look; by default each in one, and the looks in turn."""
    return [
        pytest.param(study, look, marks=[] if (number - at) % 4 == 0 else SLOW)
        for number, study in enumerate(STUDIES)
        for at, look in enumerate(LOOKS)
    ]


@pytest.mark.parametrize(("study", "look"), every_look(), ids=str)
def test_every_page_of_an_awkward_study_is_whole(
    browser: Browser, server: Served, study: str, look: Look
) -> None:
    assert wrong_with(browser, server, study, addresses(server, study), look) == {}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS, ids=str)
@pytest.mark.parametrize("study", STUDIES)
def test_every_view_of_an_analysis_is_whole(
    browser: Browser, server: Served, study: str, look: Look
) -> None:
    paths = [view_of(server, study, view) for view in VIEWS]
    assert wrong_with(browser, server, f"{study}-analysis", paths, look) == {}


@pytest.mark.parametrize("look", LOOKS_IN_TURN, ids=str)
def test_every_page_of_no_one_study_is_whole(browser: Browser, server: Served, look: Look) -> None:
    missing = ("/studies/none", "/studies/one-trial/trials/77", "/candidates/none", "/nowhere")
    assert wrong_with(browser, server, "all", [*ELSEWHERE, *missing], look) == {}


@pytest.mark.parametrize("look", ONE_LOOK, ids=str)
def test_every_page_of_an_empty_ledger_is_whole(
    browser: Browser, tmp_path: Path, look: Look
) -> None:
    with served(tmp_path / ".arl", "--no-worker") as server:
        paths = [*ELSEWHERE, "/models/none", "/promotions/none"]
        assert wrong_with(browser, server, "empty", paths, look) == {}


def wrong_with(
    browser: Browser, server: Served, name: str, paths: list[str], look: Look
) -> dict[str, Any]:
    """What is wrong with each page, and what the browser complained of; pictures of all."""
    context = browser.new_context(
        viewport={"width": look.width_px, "height": 860}, color_scheme=look.scheme
    )
    watched = Watched(context.new_page(), server.url)
    pictures = os.environ.get("ARL_SCREENSHOTS")
    wrong: dict[str, Any] = {}
    for number, path in enumerate(paths):
        watched.open(path)
        picture = f"{name}-{number:02}{path.split('?')[0].replace('/', '-')[:70]}-{look}.png"
        found = look_at(watched, Path(pictures) / picture if pictures else None)
        if found:
            wrong[path] = found
    context.close()
    return {**wrong, **({"console": watched.errors} if watched.errors else {})}


def test_a_study_of_many_trials_is_painted_soon(browser: Browser, server: Served) -> None:
    page = browser.new_page()
    page.goto(f"{server.url}/ledger")  # what is common to all pages is cached by then
    page.goto(f"{server.url}/studies/bulk")
    page.wait_for_selector("main canvas, main svg[role=img]", timeout=20_000)
    painted_ms: float = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    shown_ms: float = page.evaluate("performance.now()")
    page.close()
    print(f"first contentful paint {painted_ms:.0f} ms, history drawn by {shown_ms:.0f} ms")
    assert painted_ms < 5000, "ten times what it takes on an idle machine"
