"""What was sampled, one Parquet row a completion: enough to compute every ratio again, exactly.

Tokens and log-probabilities are the learner's own numbers; nothing is ever tokenised again.
`behaviour_logprobs` are the sampler's where it gives any (vLLM), else the trainer's at the policy
that sampled; `trainer_logprobs` are always those.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from inner_trials import distributed, facts
from inner_trials.rollout_columns import rollout_schema

Source: TypeAlias = Literal["sampler", "trainer"]
PART: Final = "part-{:05d}.parquet"
ROWS_AT_ONCE: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all completions of a run share."""

    tokenizer: str
    chat_template: str | None
    """Digests, as inner_trials.pins has them."""
    sampling: Mapping[str, Any]
    seed: int
    verifier: str
    """Like math/2; of a learned reward, the reward model's version."""
    verifier_options: Mapping[str, Any]
    environment: str | None = None
    """Version of the tools or the environment, where there are any."""


@dataclass(slots=True, kw_only=True)
class Rollout:
    policy_version: int
    """Updates that the sampling weights had seen."""
    group: int
    sample: int
    """Its number within the group."""
    prompt_revision: str
    """sha256 of the prompt's row."""
    prompt_tokens: list[int]
    completion_tokens: list[int]
    loss_mask: list[int]
    """1 for tokens that are learned from."""
    behaviour_source: Source
    behaviour_logprobs: list[float]
    trainer_logprobs: list[float]
    reference_logprobs: list[float] | None
    rewards: dict[str, float | None]
    """By component, before weights."""
    reward: float | None
    advantage: float
    ended: bool
    """Whether the model ended it, rather than the length limit."""


_ROW: Final = tuple(field.name for field in fields(Rollout))


class RolloutWriter:
    """Appends rows to files of one directory, up to a size; parts that are closed never change."""

    def __init__(self, directory: Path, origin: Origin, *, limit_bytes: int) -> None:
        self.left_out = 0
        """Rows that no room was left for."""
        self._directory = directory
        self._origin = origin
        self._limit = limit_bytes
        self._waiting: list[Rollout] = []
        self._writer: Any = None

    def add(self, rows: Sequence[Rollout]) -> None:
        facts.note_range("policy_versions", (row.policy_version for row in rows))
        self._waiting += rows
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._write()

    def close_part(self) -> None:
        """Make everything added so far durable."""
        self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._unfinished.rename(self._directory / PART.format(len(self.parts())))

    def keep_in(self, checkpoint: Path) -> None:
        """Put the closed parts into a checkpoint, without copying a byte."""
        for part in self.parts():
            (checkpoint / self._directory.name).mkdir(exist_ok=True)
            os.link(part, checkpoint / self._directory.name / part.name)

    def take_from(self, checkpoint: Path) -> None:
        """Start with the parts of a checkpoint; later ones are sampled again."""
        kept = checkpoint / self._directory.name
        if kept.is_dir():
            shutil.rmtree(self._directory, ignore_errors=True)
            shutil.copytree(kept, self._directory)
            facts.note_range("policy_versions", (0,))

    def parts(self) -> list[Path]:
        return sorted(self._directory.glob("part-*.parquet"))

    @property
    def _unfinished(self) -> Path:
        return self._directory / ".writing"

    def _write(self) -> None:
        import pyarrow
        import pyarrow.parquet

        if not self._waiting:
            return
        rows, self._waiting = self._waiting, []
        unfinished = self._unfinished.stat().st_size if self._writer is not None else 0
        if sum(part.stat().st_size for part in self.parts()) + unfinished >= self._limit:
            if not self.left_out:
                mib = self._limit / (1024 * 1024)
                print(f"rollouts: {mib:g} MiB are full; later completions are not recorded")
            self.left_out += len(rows)
            return
        same = asdict(self._origin)
        for name in ("sampling", "verifier_options"):
            same[name] = json.dumps(same[name], sort_keys=True)
        schema = rollout_schema()
        table = pyarrow.Table.from_pylist([{**_columns(row), **same} for row in rows], schema)
        if self._writer is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._writer = pyarrow.parquet.ParquetWriter(
                self._unfinished, schema, compression="zstd"
            )
        self._writer.write_table(table)


class SharedWriter(RolloutWriter):
    """That of one of several ranks: the first writes what all have. All make the same calls."""

    def add(self, rows: Sequence[Rollout]) -> None:
        super().add(distributed.gathered(rows))

    def close_part(self) -> None:
        if distributed.is_first():
            super().close_part()

    def keep_in(self, checkpoint: Path) -> None:
        if distributed.is_first():
            super().keep_in(checkpoint)

    def take_from(self, checkpoint: Path) -> None:
        if distributed.is_first():
            super().take_from(checkpoint)


def read_rollouts(directory: Path) -> list[dict[str, Any]]:
    """All rows below a directory, in the order they were sampled."""
    import pyarrow.parquet

    rows = []
    for part in sorted(directory.glob("part-*.parquet")):
        for row in pyarrow.parquet.read_table(part).to_pylist():
            row["rewards"] = dict(row["rewards"])
            rows.append(row)
    return rows


def token_logprobs(
    model: Any, rows: Sequence[Mapping[str, Any]], *, temperature: float, pad: int
) -> list[list[float]]:
    """Each recorded completion's log-probabilities under `model`, at the sampling temperature.

    Prompts are padded on the left and completions on the right, as the trainer does it.
    """
    import torch

    before = max(len(row["prompt_tokens"]) for row in rows)
    after = max(len(row["completion_tokens"]) for row in rows)
    ids, mask = [], []
    for row in rows:
        prompt, answer = row["prompt_tokens"], row["completion_tokens"]
        left, right = before - len(prompt), after - len(answer)
        ids.append([pad] * left + prompt + answer + [pad] * right)
        mask.append([0] * left + [1] * (len(prompt) + len(answer)) + [0] * right)
    tokens = torch.tensor(ids, device=model.device)
    with torch.no_grad():
        logits = model(
            input_ids=tokens,
            attention_mask=torch.tensor(mask, device=model.device),
            logits_to_keep=after + 1,
        ).logits
    scores = torch.log_softmax(logits[:, -after - 1 : -1].float() / temperature, dim=-1)
    chosen = scores.gather(-1, tokens[:, -after:].unsqueeze(-1)).squeeze(-1)
    return [
        line[: len(row["completion_tokens"])].tolist()
        for line, row in zip(chosen, rows, strict=True)
    ]


def _columns(row: Rollout) -> dict[str, Any]:
    # Not asdict, which copies every token: with a tiny model that is a tenth of a run.
    columns: dict[str, Any] = {name: getattr(row, name) for name in _ROW}
    return {**columns, "rewards": list(row.rewards.items())}
