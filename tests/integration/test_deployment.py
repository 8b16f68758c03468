"""The files in deploy/ agree with the ARL that they start, and with one another."""

import configparser
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api.metrics import Metrics
from controller.settings import read_settings
from tests.acceptance.shell_study import open_service, submit

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = ("arl-server.service", "arl-worker@.service")
OF_PROMETHEUS = {"up", "le", "job", "instance"}
FUNCTIONS = {
    *("sum", "max", "by", "rate", "increase", "histogram_quantile", "topk", "vector", "or"),
    *("unless", "on"),
}
TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*")|(?P<name>[a-zA-Z_:][\w:]*)|(?P<number>[\d.]+)"""
    r"""|\[(?P<range>\d+[smhd])\]|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/<>=(){},]))"""
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """The names of every sample that /metrics may have, and of their labels."""
    base = tmp_path_factory.mktemp("told")
    service = open_service(base)
    submit(service, base)
    text = (metrics := Metrics(service)).text()
    metrics.answered("GET", "/studies", 200, 0.1)
    text += metrics.text()
    service.close()
    names, labels = set(), set(re.findall(r'(\w+)="', text.decode()))
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text.decode(), re.MULTILINE):
        more = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + end for end in more}
    # Counters without a sample yet, and gauges of what is not there now, say no label.
    names |= {"arl_lease_remaining_seconds"}
    names |= {f"arl_ledger_disk_{one}_bytes" for one in ("free", "size", "min_free")}
    return names, labels | {
        "kind",
        "reason",
        "fault",
        "by",
        "host",
    }


def alerts() -> dict[str, str]:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> list[tuple[str, str]]:
    board = json.loads((DEPLOY / "grafana" / "arl.json").read_text())
    return [(p["title"], t["expr"]) for p in board["panels"] for t in p.get("targets", ())]


@pytest.mark.parametrize(("where", "expression"), [*alerts().items(), *panels()])
def test_alerts_and_panels_ask_for_what_the_server_tells(
    told: tuple[set[str], set[str]], where: str, expression: str
) -> None:
    names, labels = told
    known = names | labels | FUNCTIONS | OF_PROMETHEUS
    at, signs = 0, []
    while at < len(expression.rstrip()):
        found = TOKEN.match(expression, at)
        assert found is not None, f"{where}: what is {expression[at:]!r}?"
        at = found.end()
        signs.append(found["sign"] or "")
        if found["name"]:
            assert found["name"] in known, f"{where}: the server tells no {found['name']}"
    for left, right in ("()", "{}"):
        assert signs.count(left) == signs.count(right), f"{where}: {expression}"
    assert any(name in expression for name in (*names, "up")), f"{where} asks for nothing"


def test_every_panel_has_its_place_and_one_source() -> None:
    board = json.loads((DEPLOY / "grafana" / "arl.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        spot = panel["gridPos"]
        cells = {
            (spot["x"] + i, spot["y"] + j) for i in range(spot["w"]) for j in range(spot["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, f"{panel['title']} covers another panel"
        taken |= cells
        sources = {target["datasource"]["uid"] for target in panel.get("targets", ())}
        assert sources <= {"${source}"}
    assert [one["name"] for one in board["templating"]["list"]] == ["source"]


def known_settings() -> set[str]:
    source = (ROOT / "controller" / "settings.py").read_text()
    return set(re.findall(r'"(ARL_[A-Z_]+)"', source))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_settings_of_the_containers_and_units_are_settings_of_arl() -> None:
    named = [name for one in compose()["services"].values() for name in one.get("environment", {})]
    named += re.findall(r"^(?:ENV +| +)(ARL_\w+)=", (DEPLOY / "Dockerfile").read_text(), re.M)
    example = (DEPLOY / "arl.env.example").read_text()
    named += re.findall(r"^#? ?(\w+)=", example, re.M)
    ours = {name for name in named if name.startswith("ARL_") and name[:11] != "ARL_SECRET_"}
    assert len(ours) > 12
    assert ours <= known_settings()
    given = dict(re.findall(r"^(ARL_\w+)=(.*)$", example, re.M))
    assert read_settings(given).host == "trainer-1"


def prepared(folder: Path) -> Path:
    """deploy/ as prepare.sh leaves it."""
    there = folder / "deploy"
    shutil.copytree(DEPLOY, there, ignore=shutil.ignore_patterns("secrets", ".env"))
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(folder / "docker.sock"))
        for _ in range(2):
            subprocess.run(
                [there / "prepare.sh", folder / "data"],
                env={**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock"},
                check=True,
                capture_output=True,
            )
    return there


def test_what_compose_asks_for_is_written_by_the_script_that_prepares_it(tmp_path: Path) -> None:
    there = prepared(tmp_path)
    text = (there / "compose.yaml").read_text()
    written = dict(re.findall(r"^(\w+)=(.*)$", (there / ".env").read_text(), re.M))
    for name, default in re.findall(r"\$\{(\w+)(:[-?][^}]*)?\}", text):
        assert default.startswith(":-") or name in written, f"nobody says what {name} is"
    for one in compose()["secrets"].values():
        assert (there / one["file"]).exists()
    passwords = [
        (there / "secrets" / f"{n}_password").read_text() for n in ("postgres", "grafana")
    ]
    assert passwords[0] != passwords[1]
    assert all(re.fullmatch(r"[0-9a-f]{48}", one) for one in passwords)
    assert (there / "secrets" / "pgpass").read_text().split(":")[-1].strip() == passwords[0]
    for name, mode in (("", 0o700), ("pgpass", 0o600), ("admin_token", 0o600), ("arl.env", 0o600)):
        assert stat.S_IMODE((there / "secrets" / name).stat().st_mode) == mode
    assert "PASSWORD: " not in text, "a password is in a file that is in no repository"


def test_services_start_in_order_and_say_whether_they_are_well() -> None:
    services = compose()["services"]
    for name in ("server", "worker"):
        needs = services[name]["depends_on"]
        assert needs["setup"]["condition"] == "service_completed_successfully"
        assert needs["postgres"]["condition"] == "service_healthy"
    assert services["setup"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    for name in ("postgres", "server"):
        assert services[name]["healthcheck"]["test"][0] == "CMD"
    assert services["worker"]["pid"] == "host"
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["watch"]
    published = [port for one in services.values() for port in one.get("ports", ())]
    assert all(":-127.0.0.1:" in port for port in published), "nobody else reaches it unasked"
    assert not services["postgres"].get("ports")


@pytest.fixture
def unit_files(tmp_path: Path) -> list[Path]:
    """The units, with this environment's arl in the place of theirs."""
    made = []
    for name in UNITS:
        text = (DEPLOY / name).read_text()
        made.append(tmp_path / name)
        made[-1].write_text(text.replace("/opt/arl/bin/arl", f"{Path(sys.executable).parent}/arl"))
    return made


def test_systemd_knows_what_the_units_say(unit_files: list[Path]) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "verify", *unit_files], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "arl" in line]
    assert not ours


def test_stopping_a_worker_leaves_its_attempts_alone(unit_files: list[Path]) -> None:
    for path in unit_files:
        unit = configparser.RawConfigParser(strict=False, comment_prefixes="#")
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # as the standard library documents it
        unit.read(path)
        service = dict(unit["Service"])
        assert service["User"] == "arl"
        assert service["NoNewPrivileges"] == "yes"
        assert unit["Unit"]["StartLimitIntervalSec"] == "0", "it is tried until its ledger is back"
        assert service["ReadWritePaths"].split()[0] == "/var/lib/arl"
        if "worker" in path.name:
            assert service["KillMode"] == "process"
            assert service["OOMPolicy"] == "continue"
            hurts = (
                "ProtectKernelTunables",
                "RestrictNamespaces",
                "PrivateTmp",
                "SystemCallFilter",
            )
            assert not set(hurts) & set(service), "bubblewrap does not work under it"
