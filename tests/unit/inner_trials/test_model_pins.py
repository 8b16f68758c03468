"""Pinned tokenizers and chat templates, adapters and reward models on disk, without torch."""

import json
from pathlib import Path

import pytest

from inner_trials import adapters, demo_task, models, pins, rewards
from inner_trials.models import ModelError
from inner_trials.settings import SettingsError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    demo_task.write_base(tmp_path / "base")
    demo_task.write_tokenizer(tmp_path / "base")
    return tmp_path / "base"


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_digest_is_of_what_the_tokenizer_does_not_of_how_it_is_written(base: Path) -> None:
    before = pins.read_pins(base)
    path = base / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=None))
    edit(path, padding={"strategy": "BatchLongest"}, truncation={"max_length": 8})
    assert pins.read_pins(base) == before
    edit(path, model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"})
    assert pins.read_pins(base)["tokenizer"] != before["tokenizer"]


def test_a_template_counts_the_same_in_either_file(base: Path) -> None:
    before = pins.read_pins(base)
    template = (base / "chat_template.jinja").read_text()
    (base / "chat_template.jinja").unlink()
    assert pins.read_pins(base)["chat_template"] is None
    edit(base / "tokenizer_config.json", chat_template=template + "\n")
    assert pins.read_pins(base) == before


def test_a_pinned_template_that_changed_is_refused_with_both_digests(base: Path) -> None:
    pinned = pins.read_pins(base)["chat_template"]
    assert pinned is not None
    assert pins.verify_pins(base, chat_template=pinned)["chat_template"] == pinned
    (base / "chat_template.jinja").write_text("{{ messages }}")
    changed = pins.read_pins(base)["chat_template"]
    assert changed is not None
    reason = f"chat template is {changed[:16]}…, but {pinned[:16]}… was pinned in options.chat_te"
    with pytest.raises(ModelError, match=reason):
        pins.verify_pins(base, chat_template=pinned)


def test_a_saved_model_whose_template_changed_is_refused(base: Path) -> None:
    pins.write_pins(base)
    pins.verify_pins(base)
    (base / "chat_template.jinja").unlink()
    with pytest.raises(
        ModelError, match=r"chat template is none, but .* when the model was saved"
    ):
        pins.verify_pins(base)


def write_adapter(directory: Path, shapes: dict[str, tuple[int, ...]], **base: object) -> None:
    directory.mkdir()
    demo_task._write_safetensors(directory / adapters.WEIGHTS_FILE, shapes, 0)
    (directory / adapters.CONFIG_FILE).write_text("{}")
    if base:
        (directory / adapters.BASE_FILE).write_text(json.dumps(base))


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    params = tmp_path / "params.json"
    params.write_text(json.dumps({"inputs": {"adapter": str(tmp_path / "adapter")}}))
    monkeypatch.setenv("ARL_PARAMS", str(params))
    return tmp_path / "adapter"


QUERY = "base_model.model.model.layers.0.self_attn.q_proj"
LORA = adapters.AdapterSettings(parameterization="lora")


def test_an_adapter_that_fits_the_base_is_taken(base: Path, mounted: Path) -> None:
    digest = adapters.weights_digest(base)
    shapes = {f"{QUERY}.lora_A.weight": (4, 64), f"{QUERY}.lora_B.weight": (64, 4)}
    write_adapter(mounted, shapes, weights_sha256=digest)
    adapters.check_adapter(LORA, base)


@pytest.mark.parametrize(
    ("shapes", "noted", "reason"),
    [
        ({f"{QUERY}.lora_A.weight": (4, 128)}, {}, "is for another base, which has one of"),
        ({f"{QUERY}.lora_B.weight": (128, 4)}, {}, "is for another base, which has one of"),
        (
            {"base_model.model.model.layers.9.mlp.up_proj.lora_A.weight": (4, 64)},
            {},
            "is for another base, which has none of that name",
        ),
        (
            {f"{QUERY}.lora_A.weight": (4, 64)},
            {"weights_sha256": "f" * 64},
            "was trained on another base",
        ),
    ],
)
def test_an_adapter_for_another_base_is_refused(
    base: Path,
    mounted: Path,
    shapes: dict[str, tuple[int, ...]],
    noted: dict[str, object],
    reason: str,
) -> None:
    write_adapter(mounted, shapes, **noted)
    with pytest.raises(ModelError, match=reason):
        adapters.check_adapter(LORA, base)


def test_what_is_no_adapter_is_refused(base: Path, mounted: Path) -> None:
    mounted.mkdir()
    with pytest.raises(ModelError, match=r"adapter/adapter_config\.json: no such file"):
        adapters.check_adapter(LORA, base)


def test_qlora_without_its_library_says_what_to_install(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"qlora needs bitsandbytes.*arl\[qlora\]"):
        adapters.check_adapter(adapters.AdapterSettings(parameterization="qlora"), base)


@pytest.mark.parametrize("pad", [None, demo_task.END])
def test_a_reward_model_needs_padding_of_its_own(base: Path, pad: str | None) -> None:
    models.check_padding(base)
    edit(base / "tokenizer_config.json", pad_token=pad)
    with pytest.raises(ModelError, match="a reward model needs one that is not the end token"):
        models.check_padding(base)


def as_reward_model(base: Path) -> dict[str, object]:
    edit(base / "config.json", architectures=["LlamaForSequenceClassification"])
    return rewards.write_description(
        base, base_sha256="", pairs=1, chat=True, settings={}, metrics={}
    )


def test_a_language_model_is_no_reward_model(base: Path) -> None:
    with pytest.raises(ModelError, match="is no reward model"):
        rewards.check_reward_model(base)


def test_a_reward_model_keeps_its_version_until_anything_of_it_changes(base: Path) -> None:
    version = str(as_reward_model(base)["version"])
    assert rewards.check_reward_model(base, version=version)["version"] == version
    with pytest.raises(ModelError, match="but the study says aaaa"):
        rewards.check_reward_model(base, version="a" * 64)
    with (base / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(ModelError, match=r"but reward\.json says"):
        rewards.check_reward_model(base)
