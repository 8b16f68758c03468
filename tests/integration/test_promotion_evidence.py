"""Signed evidence of a promotion: it verifies anywhere, and whatever was changed is named."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.registry.checking import Checked, check_directory, check_promotions
from controller.registry.keys import KeyLost, ensure_key, find_key, key_path, make_key
from controller.registry.making import latest_signature, make_evidence
from controller.registry.signing import sign_unsigned
from controller.wiring import Service
from ledger.errors import InvalidInput
from ledger.records import Incumbent
from ledger.verify import verify_ledger
from tests.acceptance.shell_study import open_service
from tests.promoted_models import artifact_file, numbered


@dataclass(frozen=True)
class Promoted:
    service: Service
    pointer: Incumbent

    @property
    def home(self) -> Path:
        return self.service.settings.home

    def sign(self) -> None:
        store = self.service.store
        make_evidence(self.service.ledger, store, self.home, self.pointer, "ann")

    def check(self) -> Checked:
        found = check_promotions(self.service.ledger, self.service.store, [self.pointer])
        return next(iter(found))

    def write(self, directory: Path) -> Path:
        """As `arl evidence -o` does it."""
        with self.service.ledger.read() as session:
            signature = latest_signature(session, self.pointer)
        assert signature is not None
        self.service.store.copy_tree(signature.tree, directory)
        tree = json.loads(json.loads((directory / "promotion.json").read_text())["body"])
        artifact = tree["payload"]["artifact_digest"]
        self.service.store.copy_tree(artifact, directory / "model")
        return directory


@pytest.fixture(scope="module")
def whole(promoted_home: Path) -> Iterator[Promoted]:
    """Promoted and signed; only to be looked at."""
    service = open_service(promoted_home.parent)
    yield Promoted(service, numbered(service, 2))
    service.close()


@pytest.fixture
def mine(promoted: Service) -> Promoted:
    """A copy, to be changed."""
    return Promoted(promoted, numbered(promoted, 2))


@pytest.fixture(scope="module")
def written(whole: Promoted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole.write(tmp_path_factory.mktemp("written") / "evidence")


@pytest.fixture
def evidence(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "evidence"))


def test_what_was_promoted_and_signed_is_found_whole(whole: Promoted, written: Path) -> None:
    found = whole.check()
    assert found.findings == []
    assert (found.signatures, found.key_is_known) == (1, True)
    alone = check_directory(written, {}, None)
    assert alone.findings == []
    assert alone.key == found.key
    assert not alone.key_is_known, "whose key it is has to be told another way"
    assert verify_ledger(whole.service.ledger, whole.service.store) == []


def test_other_tools_read_the_statement_and_the_signature(written: Path, tmp_path: Path) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as StatementProto

    envelope = json.loads((written / "statement.dsse.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    proto = json_format.Parse(payload, StatementProto())
    Statement.copy_from_pb(proto).validate()
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(written / "model")]
    command += ["--signature", str(written / "model.sig")]
    command += ["--public_key", str(written / "public_key.pem")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "other").write_text("x")
    command[5] = str(tmp_path / "model")
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_an_artifact_that_changed_at_rest_is_named(mine: Promoted) -> None:
    file = artifact_file(mine.service, mine.pointer)
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b" ")
    findings = mine.check().findings
    assert [f.where for f in findings] == ["toy:2 artifact"]
    assert "params.json" in findings[0].problem


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("model/params.json", "model/params.json"),
        ("model/added", "model/added"),
        ("model/.gitattributes", "model/.gitattributes"),
        ("card.md", "card.md"),
        ("promotion.json", "promotion.json"),
        ("statement.dsse.json", "statement.dsse.json"),
        ("model.sig", "model.sig"),
        ("public_key.pem", "statement.dsse.json"),
    ],
)
def test_whatever_is_changed_in_a_directory_is_named(
    evidence: Path, name: str, where: str
) -> None:
    path = evidence / name
    content = path.read_bytes() if path.exists() else b""
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"Z" + content[middle + 1 :])
    found = check_directory(evidence, {}, None)
    assert any(f.where.endswith(where) for f in found.findings), found.findings
    assert found.signatures == 0


@pytest.mark.parametrize("name", ["model/params.json", "card.md", "model.sig"])
def test_what_is_missing_from_a_directory_is_named(evidence: Path, name: str) -> None:
    (evidence / name).unlink()
    found = check_directory(evidence, {}, None)
    assert any(name in f.where for f in found.findings), found.findings


def test_evidence_of_another_key_is_not_believed(
    evidence: Path, written: Path, tmp_path: Path
) -> None:
    """Somebody made the whole directory anew with their own key."""
    other = open_service(tmp_path)
    key = make_key(other.ledger, other.settings.home, "mallory")
    other.close()
    found = check_directory(evidence, {}, key.public_pem)
    assert any("not signed with key" in f.problem for f in found.findings)
    public = (written / "public_key.pem").read_text()
    assert check_directory(evidence, {}, public).findings == []


def test_a_changed_number_of_the_ledger_is_found_against_the_card(mine: Promoted) -> None:
    with mine.service.ledger.write() as session:
        session.connection.exec_driver_sql(
            "UPDATE evaluations SET value = value + 0.25 WHERE split = 'holdout_a'"
        )
    findings = mine.check().findings
    assert findings
    assert all("scores of the" in f.problem for f in findings)


def test_a_lost_key_is_said_and_another_signs_on(mine: Promoted) -> None:
    ledger, home = mine.service.ledger, mine.home
    first = find_key(home)
    assert first is not None
    key_path(home).unlink()
    with pytest.raises(KeyLost, match="arl keys new"):
        mine.sign()
    assert mine.check().findings == [], "what it signed still verifies"
    second = make_key(ledger, home, "ann")
    mine.sign()
    found = mine.check()
    assert (found.findings, found.signatures, found.key) == ([], 2, second.id)
    assert first.id != second.id
    assert verify_ledger(ledger, mine.service.store) == []


def unsigned(mine: Promoted) -> None:
    """As before anything was signed."""
    with mine.service.ledger.write() as session:
        session.connection.exec_driver_sql("DROP TRIGGER promotion_signatures_refuse_delete")
        session.connection.exec_driver_sql("DELETE FROM promotion_signatures")


def test_a_key_that_others_may_read_signs_nothing(mine: Promoted) -> None:
    assert key_path(mine.home).stat().st_mode & 0o777 == 0o600
    assert key_path(mine.home).parent.stat().st_mode & 0o777 == 0o700
    key_path(mine.home).chmod(0o640)
    with pytest.raises(InvalidInput, match="chmod 600"):
        mine.sign()
    key_path(mine.home).chmod(0o600)
    key_path(mine.home).write_text("no key at all")
    with pytest.raises(InvalidInput, match="no private key"):
        ensure_key(mine.service.ledger, mine.home, "ann")


def test_a_key_that_cannot_be_read_is_told_and_stops_nothing(
    mine: Promoted, caplog: pytest.LogCaptureFixture
) -> None:
    unsigned(mine)
    key_path(mine.home).unlink(missing_ok=True)
    key_path(mine.home).mkdir(parents=True)  # root may read every file, but no directory as one
    with pytest.raises(InvalidInput, match=r"cannot be read \(Is a directory\).*ARL_SIGN=0"):
        mine.sign()
    assert sign_unsigned(mine.service.ledger, mine.service.store, mine.home) == []
    assert "toy:1 is not signed" in caplog.text


def test_what_nobody_signed_is_signed_once(mine: Promoted) -> None:
    service = mine.service
    unsigned(mine)
    assert any("not signed" in f.problem for f in mine.check().findings)
    assert verify_ledger(service.ledger, None) != []
    other = sign_unsigned(service.ledger, service.store, mine.home, ["another study"])
    assert other == []
    made = sign_unsigned(service.ledger, service.store, mine.home)
    assert [(one.model, one.seq) for one in made] == [("toy", 1), ("toy", 2)]
