"""Ages go by the server's clock, and moments are in the reader's zone, which is named."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from controller.client import Client
from tests.acceptance.shell_study import document
from tests.e2e_pages import Watched, study_file
from tests.serve_runs import Served

pytestmark = pytest.mark.browser
BEHIND = "const real = Date.now; Date.now = () => real() - 7200000;"


def test_a_browser_elsewhere_whose_clock_is_wrong_shows_right_times(
    browser: Browser, server: Served, client: Client, tmp_path: Path
) -> None:
    train = document()["program"]["argv"][2]
    slow = {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep 20; {train}"]}
    study = client.submit(study_file(tmp_path, name="clocked", program=slow)).study
    client.extend(study, {"parallel": 2})
    context = browser.new_context(timezone_id="Asia/Kathmandu")
    context.add_init_script(BEHIND)
    page = context.new_page()
    watched = Watched(page, server.url)
    watched.open(f"/studies/{study}/spec")
    expect(page.get_by_text(re.compile(r"\d\d:\d\d:\d\d GMT\+5:45")).first).to_be_visible()
    expect(page.get_by_text("parallel: 1 → 2")).to_be_visible()
    watched.open("/studies")
    expect(page.get_by_role("link", name="clocked").first).to_be_visible()
    ages = page.locator("time").all_inner_texts()
    assert ages
    assert not [age for age in ages if " h " in age or age.startswith("in ")], ages
    client.cancel(study)
    context.close()
    assert watched.errors == []
