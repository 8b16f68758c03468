"""No text of anybody's is more than text: every field that the API answers, full of scripts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route

from controller.api.guard import CSP
from controller.client import Client
from tests.e2e_pages import Watched
from tests.e2e_planted import Planter, payload
from tests.serve_runs import Served

pytestmark = pytest.mark.browser
TRIPWIRE = """
window.tripped = [];
window.hacked = (place) => window.tripped.push(place);
document.addEventListener("securitypolicyviolation", (event) =>
  window.tripped.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
LOOK = """() => {
  const made = [...document.querySelectorAll("[data-planted], [srcdoc], script:not([src])")];
  const runs = [...document.querySelectorAll("*")].filter((one) =>
    [...one.attributes].some(({name, value}) => /^on/i.test(name) ||
      (/^(href|src|action|formaction|xlink:href|data)$/i.test(name) &&
        /^\\s*(javascript|data:text|vbscript)/i.test(value))));
  const away = [...document.querySelectorAll("a[href]")].filter((one) =>
    new URL(one.href).origin !== location.origin);
  return {
    wrong: [...made, ...runs, ...away].map((one) => one.outerHTML.slice(0, 200)),
    tripped: window.tripped,
    polluted: Object.keys({}).concat(typeof {}.polluted === "undefined" ? [] : ["polluted"]),
    text: document.documentElement.innerText,
    titles: [...document.querySelectorAll("[title], [aria-label]")].map((one) =>
      `${one.title} ${one.ariaLabel}`).join("\\n"),
  };
}"""
VIEWS = (
    *("parallel", "importances", "slice", "contour"),
    *("edf", "pareto", "intermediate", "timeline"),
)


@dataclass
class Attacked:
    """A page whose every answer was planted, and what came of it."""

    watched: Watched
    planter: Planter
    wrong: list[str] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    """Fields whose text was read as text."""

    def open(self, path: str) -> None:
        self.watched.open(path)
        page = self.watched.page
        page.locator("main [aria-busy=true]").first.wait_for(state="detached", timeout=20_000)
        page.wait_for_timeout(150)
        self.hover()
        self.press()
        self.look(path)

    def hover(self) -> None:
        """What a chart says of a point, a bar or a cell."""
        page = self.watched.page
        for canvas in page.locator("main canvas").all()[:2]:
            box = canvas.bounding_box()
            if box is not None:
                middle = box["y"] + box["height"] * 0.45
                page.mouse.move(box["x"] + box["width"] * 0.3, middle)
                page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)

    def press(self) -> None:
        """A chart's data as a table, and what is folded away."""
        page = self.watched.page
        for button in page.get_by_role("button", name="Table", exact=True).all()[:3]:
            button.click()
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")

    def look(self, path: str) -> None:
        found = self.watched.page.evaluate(LOOK)
        self.wrong += [f"{path}: {one}" for one in (*found["wrong"], *found["tripped"])]
        self.wrong += [f"{path}: {one}" for one in found["polluted"]]
        text = f"{found['text']}\n{found['titles']}"
        self.shown |= {place for place in self.planter.planted if place in text}


@pytest.fixture
def attacked(browser: Browser, awkward_server: Served) -> Iterator[Attacked]:
    yield from attack(browser, awkward_server.url, Planter())


def attack(browser: Browser, url: str, planter: Planter) -> Iterator[Attacked]:
    context = browser.new_context(viewport={"width": 1280, "height": 1600})
    page = context.new_page()
    page.add_init_script(TRIPWIRE)
    made = Attacked(Watched(page, url), planter)
    page.on("dialog", lambda dialog: made.wrong.append(f"dialog {dialog.message}"))
    page.on("popup", lambda popup: made.wrong.append(f"popup {popup.url}"))
    page.route("**/api/v1/**", lambda route: plant(route, planter))
    yield made
    context.close()


def plant(route: Route, planter: Planter) -> None:
    request = route.request
    if request.method != "GET" or "event-stream" in request.headers.get("accept", ""):
        route.continue_()
        return
    answer, path = route.fetch(), urlsplit(request.url).path
    if answer.status != 200:
        planted = planter.invented(path)
    elif "json" in answer.headers.get("content-type", ""):
        planted = planter.answer(path, answer.json())
    else:
        planted = None
    if planted is None or answer.status == 401:
        route.fulfill(response=answer)
    else:
        route.fulfill(response=answer, status=200, json=planted)


def addresses(server: Served) -> list[str]:
    """A page of each kind, of studies that have something there."""
    with Client(server.url) as client:
        ids = {one.name: one.study for one in client.studies()}
        promoting, answering = ids["promoting"], ids["model-answers"]
        trials = list(client.trials(promoting))[:2]
        family = next(iter(client.promotions())).family
    of = f"/studies/{promoting}"
    return [
        *("/studies", "/models", "/models/toy", "/promotions", f"/promotions/{family}"),
        *(of, f"{of}/trials", f"{of}/spec", f"/studies/{answering}/proposer"),
        *(f"/studies/{answering}/trials/0", f"/studies/{answering}/model-calls/0"),
        f"{of}/trials/0",
        f"/candidates/{trials[-1].candidate}",
        f"/compare?trials={','.join(trial.id for trial in trials)}",
        *("/ledger?chain=service", "/system", "/system?tab=tokens", "/system?tab=audit"),
        *(f"{of}/analysis?view={view}" for view in VIEWS[:4]),
        *(f"/studies/hostile/analysis?view={view}" for view in VIEWS[4:]),
    ]


UNASKED = frozenset(
    {
        "/healthz",
        "/readyz",
        "/api/v1/schema",
        "/api/v1/campaigns/{campaign}",
        "/api/v1/candidates/{candidate}/patch",
        "/api/v1/chains/{chain}/links",
        "/api/v1/models/{model}/incumbents/{number}/evidence",
        "/api/v1/notifications/{notification}",
        "/api/v1/studies/{study}/events",
        "/api/v1/studies/{study}/export",
        "/api/v1/trials/{trial}/inputs/{mount}",
        "/api/v1/trials/{trial}/should-stop",
    }
)
"""What the dashboard never asks for, or only downloads."""
ON_DEMAND = frozenset(
    {
        "/api/v1/artifacts/{digest}",
        "/api/v1/models/{model}/incumbents/{number}",
        "/api/v1/models/{model}/incumbents/{number}/check",
        "/api/v1/notifications",
        "/api/v1/studies/{study}/notifications/counts",
        "/api/v1/studies/{study}/plots/history",
    }
)
"""Asked for when something is pressed, or comes into sight."""
UNPLANTED = frozenset(
    {
        *("AxisCells.categories", "AxisCells.cells"),  # as many as there are cells
        *("NonFinite.path", "NonFinite.value"),  # read, and never shown
        *("SpecChange.after", "SpecChange.before"),  # whatever JSON they are
    }
)
SHOWN = frozenset(
    {
        *("StudyListed.name", "StudyOut.name", "StudyOut.detail", "CandidateOut.rationale"),
        *("TrialDetailOut.rationale", "TrialDetailOut.params", "TrialDetailOut.detail"),
        *("LogOut.text", "ModelCallOut.request", "ModelCallOut.response", "CandidateOut.patch"),
        *("NoteOut.note", "AliasOut.note", "PositionOut.note"),
        *("TokenOut.name", "Audited.actor", "Audited.subject", "SpecOut.spec"),
        *("TrialListed.params", "TrialListed.scores", "CurveOut.metric"),
    }
)
"""What anybody may write, and somebody reads."""


def test_no_text_of_any_answer_becomes_more_than_text(
    attacked: Attacked, awkward_server: Served
) -> None:
    for path in addresses(awkward_server):
        attacked.open(path)
    assert (attacked.wrong, attacked.watched.errors) == ([], [])
    planter = attacked.planter
    assert planter.operations() - planter.asked - ON_DEMAND == UNASKED, "a page should ask for it"
    assert planter.reachable(planter.asked) - planter.planted <= UNPLANTED, "plant in it, too"
    assert SHOWN <= attacked.shown, sorted(SHOWN - attacked.shown)


@pytest.mark.slow
def test_no_name_that_something_is_found_by_becomes_more_than_text(
    browser: Browser, awkward_server: Served
) -> None:
    for made in attack(browser, awkward_server.url, Planter(addressing=True)):
        for path in addresses(awkward_server):
            made.open(path)
        assert made.wrong == []


@pytest.mark.parametrize("policy", [None, CSP], ids=["without a policy", "with ARL's"])
def test_the_tripwire_notices_a_text_that_is_more(
    browser: Browser, attacked: Attacked, policy: str | None
) -> None:
    """The same words in a page that does not take them for text."""
    headers = {} if policy is None else {"Content-Security-Policy": policy}
    body = f"<!doctype html><main><h1>hole</h1>{payload('Hole.text')}</main>"
    page = attacked.watched.page
    page.route(
        "**/hole", lambda r: r.fulfill(body=body, content_type="text/html", headers=headers)
    )
    attacked.open("/hole")
    said = " ".join(attacked.wrong)
    assert "data-planted" in said
    assert ("inline" if policy else "/hole: Hole.text") in said
