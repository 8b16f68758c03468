"""A stored model as the folder that the Hugging Face libraries load, with a card of its facts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from controller.drafts import new_directory
from controller.interchange.promoted_model import StoredModel
from controller.interchange.told_trials import read_spec
from ledger.artifacts import ArtifactStore
from ledger.records import Json

CARD: Final = "README.md"
KEPT_CARD: Final = "README.program.md"
"""Where the program's own card goes: nobody's words are lost."""
_ADAPTER: Final = "adapter_config.json"


def export_model_folder(
    store: ArtifactStore, model: StoredModel, directory: Path
) -> dict[str, Json]:
    """Write the model's files as they are and a card, whole or not at all.

    Raises:
        Conflict: the directory has something in it.
        ArtifactCorrupt: a stored file is not what its digest says.
        InvalidInput: the place cannot be written.
        DiskFull: there is no room.
    """
    with new_directory(directory) as draft:
        store.copy_tree(model.digest, draft)
        card = draft / CARD
        if card.exists():
            card.rename(draft / KEPT_CARD)
        is_adapter = (draft / _ADAPTER).is_file()
        card.write_text(model_card(model, is_adapter=is_adapter), encoding="utf-8")
    return {
        "candidate": model.candidate.id,
        "trial": model.trial.id,
        "study": model.study.id,
        "kind": "adapter" if is_adapter else "model",
        "digest": model.digest,
        "promoted": None if model.incumbent is None else model.incumbent.model,
        "file": str(directory),
        "format": "huggingface",
    }


def model_card(model: StoredModel, *, is_adapter: bool) -> str:
    """What the ledger knows, and nothing that it does not: no license, no languages, no task."""
    head = yaml.safe_dump(_metadata(model, is_adapter=is_adapter), sort_keys=False, width=100)
    return f"---\n{head}---\n\n" + "\n".join(_body(model, is_adapter=is_adapter)) + "\n"


def _called(model: StoredModel) -> str:
    return model.study.name if model.incumbent is None else model.incumbent.model


def _metadata(model: StoredModel, *, is_adapter: bool) -> dict[str, Json]:
    bundle = model.study.bundle_digest
    results: list[Json] = [
        {
            "task": {"type": "other", "name": f"study {model.study.name}"},
            "dataset": {
                "type": f"sha256:{bundle}" if bundle else "reported",
                "name": f"{evaluation.split} split",
                "split": str(evaluation.split),
            },
            "metrics": [
                {"type": metric, "name": metric, "value": value}
                for metric, value in sorted(evaluation.scores.items())
            ],
        }
        for evaluation in model.evaluations
    ]
    metadata: dict[str, Json] = {
        "library_name": "peft" if is_adapter else "transformers",
        "tags": ["arl"],
    }
    if results:
        metadata["model-index"] = [{"name": _called(model), "results": results}]
    return metadata


def _body(model: StoredModel, *, is_adapter: bool) -> Iterator[str]:
    study, candidate, trial = model.study, model.candidate, model.trial
    yield f"# {_called(model)}"
    yield ""
    yield "The license is not stated: that of the base model and of the data is for you to settle."
    yield ""
    yield f"- program: `{read_spec(study.spec).program.kind}`, study `{study.name}` (`{study.id}`)"
    yield f"- candidate `{candidate.id}`, trial `{trial.id}`, seed {trial.seed}"
    yield f"- model files (tree digest): `{model.digest}`"
    for name, digest in sorted(study.inputs.items()):
        yield f"- input `{name}` (tree digest): `{digest}`"
    yield f"- scored by: {_scored_by(model)}"
    if model.incumbent is not None:
        won = model.incumbent
        yield f"- promoted as `{won.model}` number {won.seq} by {won.approver}"
    if is_adapter:
        yield "- it is an adapter: it needs the base model, input `base` above, to be loaded"
    yield ""
    yield "Parameters:"
    yield ""
    yield "```json"
    yield json.dumps(dict(candidate.params), indent=2)
    yield "```"


def _scored_by(model: StoredModel) -> str:
    bundle = model.study.bundle_digest
    if not bundle:
        return "the program itself; nobody else checked"
    return f"the frozen evaluator bundle `{bundle}`"
