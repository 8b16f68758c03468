"""What news costs while a study runs: few requests, no page anew, and nothing that jumps."""

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from controller.client import Client
from tests.acceptance.shell_study import document
from tests.e2e_pages import Watched, study_file

pytestmark = pytest.mark.browser
PROGRAM = document()["program"]["argv"][2]
WATCHED_MS = 6000
MOST_SHIFTED = 0.02
OF_THE_STUDY = ("/api/v1/studies/STUDY", "/api/v1/entries")


def asked_for(watched: Watched, study: str) -> Counter[str]:
    """How often each thing was asked for since the list was cleared, the stream aside."""
    paths = [urlsplit(url).path.replace(study, "STUDY") for url in watched.requests]
    return Counter(path for path in paths if not path.endswith("/events"))


def _trials(client: Client, study: str) -> int:
    return int(client.study(study).counts["total"] or 0)


@pytest.mark.parametrize(
    "page_of",
    [
        "",
        pytest.param("/trials", marks=pytest.mark.slow),
        pytest.param("/analysis?view=timeline", marks=pytest.mark.slow),
    ],
)
def test_news_is_shown_with_few_requests_and_without_a_jump(
    watched: Watched, client: Client, tmp_path: Path, page_of: str
) -> None:
    slow: dict[str, Any] = {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep 0.2; {PROGRAM}"]}
    name = f"news{page_of}".replace("/", "-").split("?")[0]
    made = client.submit(study_file(tmp_path, name=name, program=slow, budget={"trials": 400}))
    page = watched.page
    watched.open(f"/studies/{made.study}{page_of}")
    tab = page.get_by_role("link", name="Trials")
    # Past the baselines: then every part of the page is there, and only numbers change.
    expect(tab).to_contain_text("8", timeout=60_000)
    if page_of != "/trials":
        expect(page.locator("main canvas").first).to_be_visible(timeout=30_000)
    before = _trials(client, made.study)
    watched.requests.clear()
    shifted = watched.shifted()
    page.wait_for_timeout(WATCHED_MS)
    asked = asked_for(watched, made.study)
    shifted = watched.shifted() - shifted
    client.cancel(made.study)
    new = _trials(client, made.study) - before
    print(f"{page_of or '/'}: {new} trials, {sum(asked.values())} requests, shifted {shifted:.4f}")
    assert new >= 5, "it was not watched running"
    assert asked["/api/v1/studies/STUDY/trials"] == 0, "the stream says what is new in the list"
    assert {path for path in asked if not path.startswith(OF_THE_STUDY)} == set(), "more than news"
    slowest = {path: count for path, count in asked.items() if "/plots/" in path}
    assert all(count <= WATCHED_MS / 3000 + 1 for count in slowest.values()), slowest
    assert sum(asked.values()) <= WATCHED_MS / 250, asked
    assert shifted <= MOST_SHIFTED
