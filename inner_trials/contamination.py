"""How much of an evaluation split the training data already holds. Standard library only.

An item counts as contaminated when its prompt is, apart from case and white space, a prompt of
the training data, or when at least SHARE of its n-grams of words occur in one input's rows (the
13-gram test of Brown et al. 2020, appendix C, with a share in place of a single hit so that a
common instruction in every prompt does not condemn them all).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inner_trials import data

SHARE: Final = 0.8
_PROMPT_FIELDS: Final = ("prompt", "question", "input", "instruction", "text")
_EXAMPLES: Final = 3

Gram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """What of one split was found in the training data."""

    items: int
    same_prompt: int
    ngrams: int
    """Items that are no exact match, but share enough n-grams."""
    examples: tuple[str, ...]
    """Where the first few of them stand."""

    @property
    def share(self) -> float:
        return (self.same_prompt + self.ngrams) / self.items


@dataclass(slots=True)
class _Item:
    where: str
    prompt: str
    grams: frozenset[Gram]
    has_same_prompt: bool = False
    seen: set[Gram] = field(default_factory=set)


class Split:
    """One split's items, to be shown every training row once."""

    def __init__(self, path: Path, *, ngram: int) -> None:
        """Raises data.DataError as `read_rows` does."""
        self._ngram = ngram
        self._items = [
            _Item(row.where, prompt := prompt_of(row.fields), frozenset(grams(prompt, ngram)))
            for row in data.read_rows(path)
        ]
        # Indexed by what is looked for, so that memory grows with the split, not the data.
        self._by_prompt: dict[str, list[_Item]] = {}
        self._by_gram: dict[Gram, list[_Item]] = {}
        for item in self._items:
            self._by_prompt.setdefault(item.prompt, []).append(item)
            for gram in item.grams:
                self._by_gram.setdefault(gram, []).append(item)

    def see(self, row: Mapping[str, Any]) -> None:
        """Compare one training row with every item."""
        for item in self._by_prompt.get(prompt_of(row), ()):
            item.has_same_prompt = True
        if not self._by_gram:
            return
        for gram in grams(" ".join(texts(row)), self._ngram):
            for item in self._by_gram.get(gram, ()):
                item.seen.add(gram)

    def overlap(self) -> Overlap:
        same = [item for item in self._items if item.has_same_prompt]
        near = [
            item
            for item in self._items
            if not item.has_same_prompt
            and item.grams
            and len(item.seen) >= SHARE * len(item.grams)
        ]
        examples = tuple(item.where for item in [*same, *near][:_EXAMPLES])
        return Overlap(len(self._items), len(same), len(near), examples)

    def prompts(self) -> frozenset[str]:
        return frozenset(self._by_prompt)


def prompt_of(fields: Mapping[str, Any]) -> str:
    """The normalised text of what a row asks, whatever its format."""
    for name in ("messages", "chosen"):  # a pair may have no prompt apart
        talk = fields.get(name)
        if isinstance(talk, list) and "prompt" not in fields:
            return _normalised(_asked(talk))
    for name in _PROMPT_FIELDS:
        if name in fields:
            return _normalised(texts(fields[name]))
    return _normalised(texts(fields))


def _asked(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, dict) and message.get("role") != "assistant":
            yield from texts(message.get("content"))


def texts(value: object) -> Iterator[str]:
    """Every text in a row, in order, however deep; the role of a message is not one."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name != "role":
                yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def grams(text: str, size: int) -> Iterator[Gram]:
    """The n-grams of the lower-case words of `text`; none when it has fewer words."""
    words = text.lower().split()
    return (tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def _normalised(parts: Iterable[str]) -> str:
    return " ".join(" ".join(parts).lower().split())
