"""What browser tests share: a watched page, every page's address, and hostile words."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.shell_study import document, write_evaluator

AXE = Path(__file__).resolve().parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"
SIGHT = Path(__file__).resolve().parent / "e2e_sight.js"
WATCH = """
window.shifted = 0;
// Where news come in at the top by design, the older ones make room.
const isFeed = ({node}) =>
  (node?.nodeType === 3 ? node.parentElement : node)?.closest("[data-feed]");
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    if (!entry.hadRecentInput && !entry.sources.every(isFeed)) window.shifted += entry.value;
}).observe({type: "layout-shift", buffered: true});
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
MOST_SHIFTED = 0.1
"""Of the window, times how far: what the web's vitals call good."""
LEAST_CHARACTERS = 20
PAGES = (
    "/studies",
    "/studies/{study}",
    "/studies/{study}/trials",
    "/studies/{study}/spec",
    "/studies/{study}/trials/3",
    "/ledger",
)


@dataclass(frozen=True)
class Hostile:
    tag: str = '<img src=x onerror="window.hacked=1">'
    name: str = "w" * 90
    """The longest names are what a study file allows; markup is not."""
    word: str = tag + " \u202eesrever\u2066 \u200b\x1b[31mred\x07 e" + "\u0301" * 40
    """What a program may report as a name: markup, turned and hidden text, colours, a pile."""
    shell: str = "<svg onload=window.hacked=1> \x1b]0;x\x07 \u202e drow"


HOSTILE = Hostile()


class Watched:
    """A page, and everything wrong that the browser said about it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        page.on("console", self._said)
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith(f"{self.url}/"):
            self.errors.append(f"it asks another host: {url[:200]}")

    def _said(self, message: Any) -> None:
        # That a resource failed to load is told apart: a server that was cut is no fault here.
        if message.type == "error" and "Failed to load resource" not in message.text:
            if "ERR_CONNECTION" not in message.text:
                self.errors.append(message.text)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")
        self.page.wait_for_selector("main h1, main [role=alert]", timeout=20_000)

    def overflow_px(self) -> int:
        """How far the document is wider than the window."""
        found: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found

    def shifted(self) -> float:
        """How much moved by itself since the page was opened."""
        found: float = self.page.evaluate("window.shifted")
        return found


@dataclass(frozen=True)
class Look:
    """How a page is looked at."""

    scheme: Literal["light", "dark"]
    width_px: int

    def __str__(self) -> str:
        return f"{self.scheme}-{self.width_px}"


LOOKS: tuple[Look, ...] = (
    *(Look("light", 1280), Look("dark", 1280)),
    *(Look("light", 390), Look("dark", 390)),
)
LOOKS_IN_TURN = [
    pytest.param(look, marks=[] if look in (LOOKS[0], LOOKS[3]) else [pytest.mark.slow])
    for look in LOOKS
]
"""By default each theme and each width once."""
ONE_LOOK = [
    pytest.param(look, marks=[] if look == LOOKS[3] else [pytest.mark.slow]) for look in LOOKS
]
"""By default the one in which there is least room."""


def look_at(watched: Watched, picture: Path | None = None) -> list[str]:
    """What is wrong with the page that is open; a picture of it goes to `picture`."""
    page = watched.page
    expect(page.locator("main [aria-busy=true]")).to_have_count(0, timeout=20_000)
    page.wait_for_timeout(150)  # what is drawn once the answer is there
    found = []
    if page.evaluate("window.hacked") is not None:
        found.append("a script of the page's words has run")
    if watched.overflow_px() > 0:
        found.append(f"wider than the window by {watched.overflow_px()} px")
    if watched.shifted() > MOST_SHIFTED:
        found.append(f"it jumps while it loads: {watched.shifted():.2f}")
    found += page.evaluate(SIGHT.read_text(encoding="utf-8"))
    for landmark in ("header", "nav", "main h1"):
        if page.locator(landmark).count() == 0:
            found.append(f"no {landmark}")
    if len(page.locator("main").inner_text()) < LEAST_CHARACTERS:
        found.append("it says nothing")
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=picture, full_page=True)
    return found + serious_findings(page)


def serious_findings(page: Page) -> list[str]:
    """What axe-core finds that is serious or critical."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    report = page.evaluate(
        "axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
    )
    return [
        f"{violation['id']}: {violation['nodes'][0]['html'][:160]}"
        for violation in report["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def study_file(directory: Path, **changes: Any) -> Path:
    """The shell study as a file, with its evaluator beside it."""
    directory.mkdir(exist_ok=True)
    write_evaluator(directory)
    file = directory / "study.json"
    file.write_text(json.dumps(document(**changes)), encoding="utf-8")
    return file
