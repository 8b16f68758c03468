"""A stored model becomes a folder that the Hugging Face libraries load, with a card of facts."""

import json
from pathlib import Path

import pytest
import yaml

from controller.interchange.model_folder import export_model_folder
from controller.interchange.promoted_model import StoredModel, model_of, promoted_by
from inner_trials import demo_task
from ledger import reads
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.errors import ArtifactCorrupt, Conflict, NotFound
from tests.interchange_studies import (
    autoresearch_run,
    autoresearch_taken,
    manifest,
    ours,
    promoting,
    record,
)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def stored(ledger: Ledger, store: ArtifactStore, model: Path) -> StoredModel:
    promoting(ledger, store, model)
    with ledger.read() as session:
        return model_of(session, "s1-c0")


def small_model(directory: Path) -> Path:
    (directory / "deep").mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / "deep" / "weights").write_bytes(b"\0\1")
    return directory


def card(directory: Path) -> tuple[dict[str, object], str]:
    _, head, body = (directory / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_promoted_model_is_that_of_the_run_that_confirmed_it(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    model = stored(sqlite_ledger, store, small_model(tmp_path / "model"))
    assert model.trial.id == "s1-t1"
    assert model.incumbent is not None
    assert model.incumbent.model == "demo-model"
    with sqlite_ledger.read() as session:
        assert promoted_by(session, "s1") == model
        assert model_of(session, "s1-c0", "s1-t0").trial.id == "s1-t0"


def test_the_files_are_as_they_were_stored(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    model = stored(sqlite_ledger, store, small_model(tmp_path / "model"))
    told = export_model_folder(store, model, tmp_path / "a" / "out")
    out = tmp_path / "a" / "out"
    assert (out / "deep" / "weights").read_bytes() == b"\0\1"
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert (told["kind"], told["promoted"], told["trial"]) == ("model", "demo-model", "s1-t1")
    (out / "README.md").unlink()
    assert store.put_tree(out) == model.digest


def test_the_card_says_what_the_ledger_knows_and_invents_nothing(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    model = stored(sqlite_ledger, store, small_model(tmp_path / "model"))
    export_model_folder(store, model, tmp_path / "out")
    head, body = card(tmp_path / "out")
    assert set(head) == {"library_name", "tags", "model-index"}
    assert head["library_name"] == "transformers"
    (entry,) = head["model-index"]  # type: ignore[misc]  # read from YAML
    assert entry["name"] == "demo-model"
    (result,) = entry["results"]
    assert result["metrics"] == [
        {"type": "accuracy", "name": "accuracy", "value": 0.5},
        {"type": "loss", "name": "loss", "value": 0.25},
    ]
    assert result["dataset"]["split"] == "search"
    for fact in ("s1-c0", "s1-t1", model.digest, "a" * 64, '"lr": 0.01', "number 1 by gate"):
        assert fact in body
    assert "The license is not stated" in body


def test_the_programs_own_card_is_kept_beside_and_an_adapter_is_called_one(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    source = small_model(tmp_path / "model")
    (source / "README.md").write_text("mine")
    (source / "adapter_config.json").write_text("{}")
    model = stored(sqlite_ledger, store, source)
    told = export_model_folder(store, model, tmp_path / "out")
    assert told["kind"] == "adapter"
    assert card(tmp_path / "out")[0]["library_name"] == "peft"
    assert (tmp_path / "out" / "README.program.md").read_text() == "mine"


def test_a_directory_in_the_way_and_a_damaged_file_leave_nothing(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    model = stored(sqlite_ledger, store, small_model(tmp_path / "model"))
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("")
    with pytest.raises(Conflict, match="exists already"):
        export_model_folder(store, model, taken)
    files = [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]
    (path,) = [path for path in files if path.read_bytes() == b"\0\1"]
    path.chmod(0o600)
    path.write_bytes(b"\0\2")
    with pytest.raises(ArtifactCorrupt):
        export_model_folder(store, model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".out")] == []


def test_a_candidate_without_a_model_has_none_to_export(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    study = ours(sqlite_ledger)
    study.record(study.proposed(0))
    with autoresearch_taken(autoresearch_run(tmp_path / "run", manifest(0))) as taken:
        imported = record(taken, sqlite_ledger).study_id
    with sqlite_ledger.read() as session:
        with pytest.raises(Conflict, match="no complete run that saved a model"):
            model_of(session, "s1-c0")
        with pytest.raises(NotFound):
            model_of(session, "nobody")
        candidate = reads.get_trial(session, f"{imported}-0").candidate.id
        with pytest.raises(Conflict, match="was imported"):
            model_of(session, candidate)
        assert promoted_by(session, "s1") is None


@pytest.mark.train
def test_from_pretrained_loads_the_folder_and_the_hub_reads_its_card(
    sqlite_ledger: Ledger, store: ArtifactStore, tmp_path: Path
) -> None:
    demo_task.write_task(tmp_path / "task")
    base = tmp_path / "task" / "base"
    model = stored(sqlite_ledger, store, base)
    export_model_folder(store, model, tmp_path / "out")

    import torch
    from huggingface_hub import ModelCard
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    again = AutoModelForCausalLM.from_pretrained(base)
    for mine, theirs in zip(loaded.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("1 2")["input_ids"]
    read = ModelCard.load(tmp_path / "out" / "README.md").data
    assert read.model_name == "demo-model"
    results = read.eval_results or []
    assert {r.metric_type: r.metric_value for r in results} == {"loss": 0.25, "accuracy": 0.5}
    assert json.loads((tmp_path / "out" / "config.json").read_text())
