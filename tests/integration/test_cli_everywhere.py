"""Each verb says the same of one ledger, on its machine and through its server."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from controller.cli import front
from controller.client import Client
from controller.client.verifying import check_chain
from ledger.database import open_ledger
from tests.acceptance.shell_study import document, drive, open_service, submit, write_evaluator
from tests.api_server import api_server


@dataclass(frozen=True)
class Done:
    code: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Place:
    base: Path
    url: str
    study: str

    def run(self, *arguments: str, there: bool) -> Done:
        """The verb here, or through the server as where no ledger is; in this process, because
        there are many."""
        away = {"ARL_SERVER": self.url, "ARL_HOME": str(self.base / "none")}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (away if there else {"ARL_HOME": str(self.base / ".arl")}).items():
                patch.setenv(name, value)
            with redirect_stdout(out), redirect_stderr(err):
                code = front.run(arguments)
        out.flush()
        err.flush()
        assert not (self.base / "none").exists()
        return Done(code, out.buffer.getvalue(), err.buffer.getvalue())

    def both(self, *arguments: str) -> list[bytes]:
        found = [self.run(*arguments, there=there) for there in (False, True)]
        assert {done.code for done in found} == {0}, [done.err for done in found]
        return [done.out for done in found]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server over a study with a value that is not finite."""
    base = tmp_path_factory.mktemp("everywhere")
    said = '{\\"step\\": 1, \\"metric\\": \\"train/loss\\", \\"value\\": \\"nan\\"}'
    train = document()["program"]["argv"][2]
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", f'echo "{said}" >>"$ARL_REPORTS"; {train}'],
    }
    service = open_service(base)
    study = submit(service, base, budget={"trials": 2}, program=program)
    assert drive(service, study).state == "completed"
    with api_server(service) as url:
        yield Place(base, url, study)
    service.close()


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_an_export_is_the_same_to_the_byte(place: Place, form: str) -> None:
    here, there = place.both("export", "shell", "--format", form)
    assert len(here) > 300
    assert here == there
    file = str(place.base / f"out.{form}")
    told = place.both("export", "shell", "--format", form, "-o", file, "--json")
    assert told[0] == told[1]
    assert Path(file).read_bytes() == here


def test_documents_are_the_same_in_every_key_that_both_have(place: Place) -> None:
    candidate = json.loads(place.both("show", "--json")[0])["best"]["candidate"]
    for arguments in (
        ("studies",),
        ("show", place.study),
        ("show", f"{place.study}/2"),
        ("show", candidate),
        ("logs", f"{place.study}/2"),
        ("lineage", candidate),
    ):
        here, there = (json.loads(out) for out in place.both(*arguments, "--json"))
        assert common(here, there) == here, arguments
    detail = json.loads(place.both("show", f"{place.study}/2", "--json")[1])
    assert detail["non_finite"] == [{"path": "latest/0/value", "value": "nan"}]


def common(here: Any, there: Any) -> Any:
    """What `there` has of what `here` has: a server may say more."""
    if isinstance(here, dict) and isinstance(there, dict):
        return {key: common(here[key], there[key]) for key in here if key in there}
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        return [common(a, b) for a, b in zip(here, there, strict=True)]
    return there


def test_a_plan_and_the_schema_are_the_same(place: Place) -> None:
    write_evaluator(place.base)
    file = place.base / "study.json"
    promotion = {"model": "toy", "profile": "quick"}
    file.write_text(json.dumps(document(promotion=promotion, noise={})), encoding="utf-8")
    for arguments in (("--json",), (), ("--trial-time", "90s")):
        here, there = place.both("plan", str(file), *arguments)
        assert here == there
    here, there = place.both("schema")
    assert here == there
    file.write_text(json.dumps(document(budget={"trials": 0})), encoding="utf-8")
    ends = [place.run("plan", str(file), there=there) for there in (False, True)]
    assert {done.code for done in ends} == {2}
    assert ends[0].err == ends[1].err


def test_verify_finds_the_same_and_recomputes_the_chains_itself(place: Place) -> None:
    here, there = (json.loads(out) for out in place.both("verify", "--json"))
    assert (here["ok"], here["findings"]) == (there["ok"], there["findings"]) == (True, [])
    assert there["ledger"] == place.url
    assert b"are as they were written" in place.both("verify", "--no-artifacts")[1]


def test_verify_names_what_was_changed_in_a_servers_ledger(place: Place) -> None:
    ledger = open_ledger(place.base / ".arl" / "ledger.db", create=False)
    with ledger.write() as session:
        session.connection.execute(text("DROP TRIGGER entries_refuse_update"))
        changed = "UPDATE entries SET body = replace(body, 'kept', 'kepd') WHERE seq = 3"
        session.connection.execute(text(f"{changed} AND chain != 'service'"))
        forged = "UPDATE entries SET body = body || ' ' WHERE seq = 4 AND chain != 'service'"
        session.connection.execute(text(forged))
    ledger.close()
    with Client(place.url) as client:
        finding = check_chain(client.connection, place.study)
    assert finding is not None
    assert finding.where == f"entries {place.study}/4"
    done = place.run("verify", "--json", there=True)
    assert done.code == 1
    assert finding.where in [one["where"] for one in json.loads(done.out)["findings"]]
