"""The look-up of known vulnerabilities: what no service vouches for is not called harmless."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scripts import advisories, audit

Answer = Callable[[Any], object]
VULNERABLE = {
    "id": "GHSA-test-1",
    "summary": "it is bad",
    "published": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "fastapi", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}],
        }
    ],
}


class Service:
    """Stands in for both advisory services."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: Answer = lambda _: {}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(made.answer(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Service(f"http://127.0.0.1:{server.server_port}/v1/query")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(advisories, "OSV", made.url)
    monkeypatch.setattr(advisories, "NPM", made.url)
    monkeypatch.setattr(audit, "OSV", made.url)
    yield made
    server.shutdown()
    server.server_close()


def knows_all(asked: Any) -> object:
    return {"vulns": [{"id": "GHSA-x"}]} if "package" in asked else {"minimist": [{"id": 1}]}


def test_a_service_that_knows_what_it_must_is_asked(service: Service) -> None:
    service.answer = knows_all
    assert advisories.missing_advisories() == ""


def test_a_mirror_that_knows_of_nothing_is_no_advisory_service(service: Service) -> None:
    assert "knows of no vulnerability of jinja2 2.10" in advisories.missing_advisories()
    service.answer = lambda asked: knows_all(asked) if "package" in asked else {}
    assert "knows of no vulnerability of minimist 0.0.8" in advisories.missing_advisories()


@pytest.mark.parametrize("answer", [[], "<html>", None])
def test_an_answer_of_another_form_is_no_all_clear(service: Service, answer: object) -> None:
    service.answer = lambda _: answer
    assert "cannot be asked from here" in advisories.missing_advisories()


def test_a_service_that_is_away_is_no_all_clear(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisories, "OSV", "http://127.0.0.1:9/")
    assert "cannot be asked from here: http://127.0.0.1:9/" in advisories.missing_advisories()
    assert audit.main() == 1


@pytest.mark.slow
def test_a_vulnerable_package_fails_the_audit_and_a_reason_lets_it_pass(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "PLACE", tmp_path / "audit")
    assert audit.audit_python() == 0
    service.answer = lambda asked: (
        {"vulns": [VULNERABLE]} if asked["package"]["name"] == "fastapi" else {}
    )
    assert audit.audit_python() == 1
    monkeypatch.setattr(audit, "IGNORED", {"GHSA-test-1": "not here"})
    assert audit.audit_python() == 0
