"""What the operator says about job services reaches the target, whatever a study says."""

from pathlib import Path

import pytest

from controller.places import options_of, place_of
from controller.settings import read_settings
from controller.spec.target import TargetSpec
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from targets.outbound_addresses import LOOPBACK
from targets.registry import Place, make_target

NAME = "ARL_SECRET_PLACES_TEST"
SPEC = TargetSpec(name="http", url="https://jobs.example.org", secret=NAME)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "s" * 40)


def place(tmp_path: Path, **environment: str) -> Place:
    settings = read_settings({"ARL_HOME": str(tmp_path), **environment})
    options = options_of(SPEC, settings)
    return place_of("http", options, settings, ArtifactStore(tmp_path / "artifacts"))


def test_only_loopback_is_allowed_until_the_operator_says_more(tmp_path: Path) -> None:
    assert place(tmp_path).operator == {"allow_private": LOOPBACK, "trust_sandbox": ""}
    more = place(tmp_path, ARL_HTTP_ALLOW_PRIVATE="10.1.0.0/16", ARL_HTTP_TRUST_SANDBOX="1")
    assert more.operator == {"allow_private": "10.1.0.0/16", "trust_sandbox": "1"}


def test_what_the_operator_says_does_not_make_another_place(tmp_path: Path) -> None:
    assert place(tmp_path).root == place(tmp_path, ARL_HTTP_ALLOW_PRIVATE="0").root


def test_the_secret_is_written_nowhere(tmp_path: Path) -> None:
    made = make_target("http", place(tmp_path))
    made.close()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"s" * 40 not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "target.url is missing"),
        ({"url": "https://h"}, "target.secret is missing"),
        ({"url": "h", "secret": NAME}, "target.url 'h': write https://host"),
        ({"url": "https://u:p@h", "secret": NAME}, "target.url: remove the user and password"),
    ],
)
def test_a_service_that_is_not_described_is_refused_by_its_key(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    incomplete = Place(
        root=tmp_path, store=store, host="here", options=options, secrets={NAME: "s" * 40}
    )
    with pytest.raises(InvalidInput, match=message):
        make_target("http", incomplete)
