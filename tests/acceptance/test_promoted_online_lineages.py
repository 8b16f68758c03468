"""Models taught by preferences or by their own samples, promoted with what they were made of."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.cli import front
from controller.decisions.lineage import LINKS
from controller.steps import run_facts
from controller.wiring import Service
from examples import demo_inputs
from inner_trials import demo_task
from ledger import reads, writes
from ledger.records import CommandVerb, Json
from ledger.registry_reads import find_sealed
from ledger.states import FamilyState, Reason
from tests.acceptance.shell_study import drive, open_service
from tests.acceptance.trained_study import promoted, repeat, submit_trained
from tests.promoted_models import copied

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(1500)]

SAMPLED: Mapping[str, Any] = {
    "verifier": "exact",
    "temperature": 0.9,
    "max_completion_length": 8,
    "guard_every": 0,
    "save_every": 1,
}
STUDIES: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    "dpo": ({"train": "pairs/train.jsonl"}, {"save_every": 1}),
    "grpo": (
        {"train": "data/train.jsonl"},
        {
            **SAMPLED,
            "parameterization": "lora",
            "lora_r": 4,
            "per_device_train_batch_size": 32,
            "num_generations": 8,
        },
    ),
    "ppo": (
        {"train": "data/train.jsonl"},
        {**SAMPLED, "rollout_batch_size": 32, "per_device_train_batch_size": 32, "epochs": 1},
    ),
}
ONLINE_ONLY = {"reward", "sampling", "policy_versions"}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sorting task with a base that half knows it, so that some samples are right."""
    directory = tmp_path_factory.mktemp("task")
    demo_task.write_task(directory)
    demo_inputs.split_rows(
        directory / "data" / "train.jsonl", directory / "data" / "heldout.jsonl"
    )
    demo_inputs.write_pairs(directory)
    demo_inputs.teach(directory)
    return directory


@contextmanager
def service_in(place: Path) -> Iterator[Service]:
    opened = open_service(place)
    yield opened
    opened.close()


def ask_to_promote(service: Service, study_id: str) -> str:
    """What the study says afterwards."""
    with service.ledger.read() as session:
        (family,) = reads.list_families(session, study_id)
    assert family.state is FamilyState.AWAITING_APPROVAL, family
    winner = str(family.evidence["best"])
    with service.ledger.write() as session:
        asked = {"candidate_id": winner}
        writes.insert_command(session, study_id, CommandVerb.PROMOTE, asked, "operator")
    return str(drive(service, study_id).detail)


@pytest.mark.parametrize("kind", sorted(STUDIES))
def test_a_model_is_promoted_with_every_link_checked_and_repeated_by_a_stranger(
    kind: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(task, tmp_path, dirs_exist_ok=True)
    data, options = STUDIES[kind]
    approved = {"model": "tiny", "profile": "quick", "approval": "required"}
    with service_in(tmp_path) as service:
        study_id = submit_trained(
            service, tmp_path, kind, data=data, options=options, promotion=approved
        )
        drive(service, study_id)
        home = service.settings.home
    copied(home, tmp_path / "blocked")
    check_that_each_link_blocks(kind, tmp_path / "blocked", study_id, monkeypatch)
    with service_in(tmp_path) as service:
        assert ask_to_promote(service, study_id) == "promoted"
        with service.ledger.read() as session:
            sealed = find_sealed(session, promoted(service))
    assert sealed is not None
    check_links(kind, sealed.entry.lineage)
    monkeypatch.setenv("ARL_HOME", str(home))
    check_evidence(tmp_path)
    assert front.run(["reproduce", "tiny", str(tmp_path / "bundle")]) == 0
    repeated = repeat(tmp_path / "bundle", tmp_path / "stranger")
    assert repeated["outcome"] == "same_model", repeated


def check_that_each_link_blocks(
    kind: str, home: Path, study_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a copy of the ledger whose program left nothing of who sampled, judged and optimised."""
    read = run_facts.read_facts

    def without(*given: Any) -> Mapping[str, Json]:
        gone = {*ONLINE_ONLY, "settings"}
        return {name: value for name, value in read(*given).items() if name not in gone}

    with monkeypatch.context() as patched, service_in(home) as service:
        patched.setattr("controller.steps.lineage.read_facts", without)
        said = ask_to_promote(service, study_id)
        with service.ledger.read() as session:
            (family,) = reads.list_families(session, study_id)
            assert reads.latest_incumbent(session, "tiny") is None
    assert (family.state, family.reason) == (FamilyState.DECLINED, Reason.LINEAGE_INCOMPLETE)
    named = {"adapter", "optimizer"} | (set() if kind == "dpo" else ONLINE_ONLY)
    for name, (words, _) in LINKS.items():
        assert (words in said) == (name in named), (name, said)


def check_links(kind: str, links: Mapping[str, Any]) -> None:
    absent = {name for name in LINKS if not links.get(name)}
    assert absent == {"image"} | (ONLINE_ONLY if kind == "dpo" else set())
    assert set(links["data"]) == {"train"}
    sampled = kind != "dpo"
    assert links["precision"] == {
        "train_precision": "fp32",
        "gradient_precision": "fp32",
        "optimizer_precision": "fp32",
        "base_precision": "fp32" if kind == "grpo" else "none",
        "rollout_precision": "fp32" if sampled else "none",
        "kv_precision": "fp32" if sampled else "none",
        "sync_payload": "none",
        "deployment_quant": "none",
        "serving_kv_precision": "auto",
        "qat": "none",
    }
    placement = "colocated" if sampled else "none"
    assert links["trainer"]["placement"] == placement
    assert (links["trainer"]["trainer_gpus"], links["trainer"]["data_parallel"]) == (0, 1)
    assert links["sync"] == {
        "rollout": placement,
        "sync": "local" if sampled else "none",
        "sync_payload": "none",
        "staleness_bound": 0,
        "correction": "tis" if kind == "grpo" else "none",
        "placement": placement,
    }
    assert "3.11" in links["runtime"] or "cpython" in links["runtime"].lower()
    assert {"python", "torch", "trl", "transformers"} <= set(links["libraries"])
    assert links["checkpoints"]["saved"] == [1], links["checkpoints"]
    assert links["checkpoints"]["last_step"] == 2
    assert links["optimizer"]["learning_rate"] == 0.1
    merged = kind == "grpo"
    assert links["conversion"]["method"] == ("adapter merged into the base" if merged else "none")
    assert links["adapter"]["parameterization"] == ("lora" if merged else "full")
    for half in ("holdout_a", "holdout_b"):
        assert links["holdout"][half]["candidate"]["runs"] == 4
    if kind == "dpo":
        return
    assert links["reward"]["judge"].startswith("exact/")
    assert links["sampling"]["temperature"] == 0.9
    assert links["sampling"]["max_completion_length"] == 8
    assert links["sampling"]["stop_token_ids"]
    assert links["policy_versions"] == {"first": 0, "last": 1}


def check_evidence(base: Path) -> None:
    """As a person does it, from the command line."""
    assert front.run(["evidence", "tiny", "-o", str(base / "evidence")]) == 0
    assert front.run(["verify", "--promotion", "tiny"]) == 0
    assert front.run(["verify", "--promotion", str(base / "evidence")]) == 0
    statement = json.loads((base / "evidence" / "promotion.json").read_text())
    assert statement["digest"]
    weights = base / "evidence" / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert front.run(["verify", "--promotion", str(base / "evidence")]) == 1
