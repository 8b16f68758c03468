"""The dashboard by its addresses and by the keyboard alone: what was chosen survives a reload, and
nothing needs a mouse."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e_pages import Watched
from tests.e2e_studies import fill_bulk
from tests.serve_runs import Served, served

pytestmark = pytest.mark.browser
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("keys")
    fill_bulk(home, trials=300)
    with served(home / ".arl", "--no-worker") as made:
        yield made


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


CHOSEN = """() => {
  const all = (selector, of) => [...document.querySelectorAll(`main ${selector}`)].map(of);
  const text = (element) => element.innerText;
  return {
    pressed: all("[aria-pressed=true]", text),
    tabs: all("[aria-selected=true]", text),
    here: all("[aria-current=page]", text),
    sorted: all("th:not([aria-sort=none])[aria-sort]", (e) => e.innerText + e.ariaSort),
    fields: all(":is(input:not([type=checkbox]), select)", (e) => e.value),
    row: document.querySelector("main tbody tr")?.innerText ?? null,
    tags: all("[aria-label^=Remove]", (e) => e.ariaLabel),
  };
}"""


def chosen_of(page: Page) -> dict[str, Any]:
    """Everything on the page that says what was chosen, once it has all there is to show."""
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    page.wait_for_timeout(400)  # what was typed reaches the address
    found: dict[str, Any] = page.evaluate(CHOSEN)
    return found


def filter_trials(page: Page) -> None:
    page.get_by_role("button", name="Discarded", exact=True).click()
    page.get_by_role("columnheader", name="Value").get_by_role("button").click()
    page.get_by_label("Add a condition").fill("params.layers>=6")
    page.keyboard.press("Enter")
    page.get_by_role("searchbox").fill("adam")


def choose_contour(page: Page) -> None:
    page.get_by_role("tab", name="Contour").click()
    page.get_by_label("Across").select_option("p3")
    page.get_by_label("Up").select_option("layers")


def choose_slices(page: Page) -> None:
    page.get_by_role("tab", name="Slices").click()
    page.get_by_role("button", name="p7", exact=True).click()


def choose_entries(page: Page) -> None:
    page.get_by_label("Kind").select_option("trial_decided")
    page.get_by_label("Order").select_option("asc")


def sort_studies(page: Page) -> None:
    page.get_by_role("button", name="Completed", exact=True).click()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    page.get_by_role("searchbox").fill("bul")


def choose_tab(page: Page) -> None:
    page.get_by_role("tab").nth(1).click()


@pytest.mark.parametrize(
    ("path", "choose"),
    [
        pytest.param("/studies", sort_studies, marks=SLOW),
        ("/studies/bulk/trials", filter_trials),
        ("/studies/bulk/analysis", choose_contour),
        pytest.param("/studies/bulk/analysis", choose_slices, marks=SLOW),
        pytest.param("/ledger", choose_entries, marks=SLOW),
        pytest.param("/plan", choose_tab, marks=SLOW),
        pytest.param("/system", choose_tab, marks=SLOW),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_was_chosen_is_in_the_address_and_survives_a_reload(
    watched: Watched, page: Page, path: str, choose: Any
) -> None:
    watched.open(path)
    before = chosen_of(page)
    choose(page)
    chosen = chosen_of(page)
    assert chosen != before, "nothing was chosen"
    page.reload()
    page.wait_for_selector("main h1")
    assert chosen_of(page) == chosen
    page.goto("about:blank")
    page.go_back()
    page.wait_for_selector("main h1")
    assert chosen_of(page) == chosen


def test_a_table_is_walked_and_a_row_opened_without_a_mouse(watched: Watched, page: Page) -> None:
    watched.open("/studies/bulk/trials")
    expect(page.locator("main tbody tr[data-row]").first).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator("main tr:focus")).to_have_attribute("data-row", "1")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(page.locator("main tr:focus")).to_have_attribute("data-row", "0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Trial 298", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Studies", level=1)).to_be_visible()


def test_tabs_are_changed_with_arrows_and_the_focus_goes_with_them(
    watched: Watched, page: Page
) -> None:
    watched.open("/studies/bulk/analysis")
    page.get_by_role("tab", name="Parallel coordinates").focus()
    for name in ("Importances", "Slices", "Contour"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Slices")).to_be_focused()
    assert page.url.endswith("view=slice")


def test_a_dialog_keeps_the_focus_closes_with_esc_and_gives_it_back(
    watched: Watched, page: Page
) -> None:
    watched.open("/system?tab=tokens")
    opener = page.get_by_role("button", name="New token")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        # Between the last and the first it is the window's own.
        is_inside = page.evaluate("document.activeElement.matches('body, dialog *')")
        assert is_inside, "Tab leads out of the dialog"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize(
    "path",
    [
        "/studies/bulk/trials",
        *(
            pytest.param(path, marks=SLOW)
            for path in ("/studies/bulk", "/plan", "/ledger", "/studies/bulk/trials/3")
        ),
    ],
)
def test_every_stop_of_the_tab_key_is_seen_and_in_reading_order(
    watched: Watched, page: Page, path: str
) -> None:
    watched.open(path)
    chosen_of(page)
    stops: list[dict[str, Any]] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        stop: dict[str, Any] = page.evaluate(STOP)
        if stop["is_end"]:
            break
        stops.append(stop)
    assert len(stops) >= 8
    assert stops[0]["name"] == "Skip to the content"
    unseen = [stop["name"] for stop in stops if not stop["is_marked"] or not stop["is_in_sight"]]
    assert unseen == []
    # Down the page: a stop far above the one before is where a reader does not look for it.
    jumps = [
        (one["name"], other["name"])
        for one, other in pairwise(stops)
        if one["part"] == other["part"] == "main"
        and other["column"] == one["column"]
        and other["top"] < one["top"] - 40
    ]
    assert jumps == []


STOP = """() => {
  const at = document.activeElement;
  if (at === document.body) return {is_end: true};
  const box = at.getBoundingClientRect();
  const look = getComputedStyle(at);
  const ringed = (l) => l.outlineStyle !== "none" && parseFloat(l.outlineWidth) >= 2;
  return {
    is_end: false,
    name: (at.ariaLabel || at.innerText || at.id || at.tagName).trim().slice(0, 60),
    is_marked: ringed(look) || look.boxShadow !== "none",
    is_in_sight: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    part: at.closest("main") ? "main" : at.closest("header") ? "header" : "",
    column: Math.round((at.closest("section")?.getBoundingClientRect().left ?? 0) / 50),
    top: Math.round(box.top + scrollY),
  };
}"""


def test_the_skip_link_leads_past_the_navigation(watched: Watched, page: Page) -> None:
    watched.open("/studies")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_phone_opens_its_navigation_and_closes_it_by_going(
    browser: Browser, server: Served
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    watched = Watched(context.new_page(), server.url)
    watched.open("/studies")
    page = watched.page
    menu = page.get_by_role("button", name="Navigation")
    expect(page.get_by_role("link", name="Ledger", exact=True)).not_to_be_visible()
    menu.tap()
    expect(menu).to_have_attribute("aria-expanded", "true")
    page.get_by_role("link", name="Ledger", exact=True).tap()
    expect(page.get_by_role("heading", name="Ledger", level=1)).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Plan$"))).not_to_be_visible()
    context.close()
    assert watched.errors == []
