"""Asks the two services that know of vulnerable packages something they must know."""

import json
import os
import urllib.error
import urllib.request
from typing import Any, Final

OSV: Final = os.environ.get("ARL_OSV_URL") or "https://api.osv.dev/v1/query"
NPM: Final = "https://registry.npmjs.org/-/npm/v1/security/advisories/bulk"
PATIENCE_S: Final = 8.0
KNOWN_TO_OSV: Final = {"version": "2.10", "package": {"name": "jinja2", "ecosystem": "PyPI"}}
KNOWN_TO_NPM: Final = {"minimist": ["0.0.8"]}


def missing_advisories() -> str:
    """Why nothing can be audited here: a service that does not even know of a vulnerability as
    old as these would find none anywhere, and an audit of its would mean nothing."""
    try:
        if not _ask(OSV, KNOWN_TO_OSV).get("vulns"):
            return f"{OSV} knows of no vulnerability of jinja2 2.10: it is no advisory service"
        if not _ask(NPM, KNOWN_TO_NPM).get("minimist"):
            return f"{NPM} knows of no vulnerability of minimist 0.0.8: it is no advisory service"
    except (OSError, ValueError, AttributeError) as error:
        return f"advisory services cannot be asked from here: {error}"
    return ""


def _ask(url: str, question: object) -> dict[str, Any]:
    request = urllib.request.Request(
        url, json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.URLError as error:
        raise OSError(f"{url}: {error}") from error
    return found
