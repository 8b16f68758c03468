"""What a built-in program says it ran with, and what of it a controller believes."""

import json
from pathlib import Path

import pytest

from controller.steps.run_facts import read_facts
from inner_trials import contract, facts
from ledger.artifacts import ArtifactStore
from tests.integration.sft_runs import Trial


def stored(tmp_path: Path, content: bytes, name: str = contract.FACTS_FILE) -> str:
    store = ArtifactStore(tmp_path / "store")
    digest = store.put_bytes(content)
    return store.put_manifest([(name, 0o644, len(content), digest)])


@pytest.mark.train
def test_a_program_says_what_it_ran_with(full: Trial, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    tree = store.put_tree(full.directory / "output" / contract.FACTS_DIR)
    found = read_facts(store, tree)
    settings, runtime = found["settings"], found["runtime"]
    assert isinstance(settings, dict)
    assert isinstance(runtime, dict)
    assert (settings["learning_rate"], settings["weight_decay"]) == (2e-3, 0.0), "defaults, too"
    assert {"python", "torch", "transformers", "trl", "cuda"} <= set(runtime)
    assert found["checkpoints"] == {"last_step": 60, "resumed_from": None, "saved": []}
    assert "cpu_capability" in json.dumps(found["hardware"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{" * 2000,
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 400 + b"}",
        b'{"a": "' + b"x" * 3000 + b'"}',
        b'{"a": ' + b"[" * 9 + b"]" * 9 + b"}",
        b" " * (contract.FACTS_BYTES + 1),
        b"\xff",
    ],
)
def test_a_hostile_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    tree = stored(tmp_path, content)
    assert read_facts(ArtifactStore(tmp_path / "store"), tree) == {}


def test_facts_are_safe_to_show_and_to_hash(tmp_path: Path) -> None:
    tree = stored(tmp_path, b'{"a": "\\ud800\\u001b[31m\\u202e", "b": {"c": [1, true, null]}}')
    found = read_facts(ArtifactStore(tmp_path / "store"), tree)
    assert found == {"a": "\\ud800\\x1b[31m\\u202e", "b": {"c": [1, True, None]}}
    assert read_facts(ArtifactStore(tmp_path / "store"), None) == {}
    other = stored(tmp_path, b"{}", "other.json")
    assert read_facts(ArtifactStore(tmp_path / "store"), other) == {}


def test_what_was_noted_is_of_this_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(contract.OUTPUT, str(tmp_path / "output"))
    facts.note("sampling", temperature=0.5)
    facts.begin()
    facts.note_range("policy_versions", [3, 1])
    facts.note_range("policy_versions", [])
    facts.note_range("policy_versions", [7])
    facts.note("reward", weight=float("inf"), judge="math/2")
    written = json.loads(facts.write("sft", None).read_text())
    assert "sampling" not in written
    assert written["policy_versions"] == {"first": 1, "last": 7}
    assert written["reward"] == {"weight": "inf", "judge": "math/2"}
    assert written["settings"] == {}
    assert [p.name for p in (tmp_path / "output" / "facts").iterdir()] == [contract.FACTS_FILE]
