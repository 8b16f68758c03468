"""Which rows cannot be trained on once a tokenizer has read them: too long, or refused by the
chat template. Found only when something went wrong, so that sound data costs nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from inner_trials import data, failures, pairs, reporting

ANSWERS: Final = ("completion", "chosen", "rejected")
SAID_CHARS: Final = 200
IGNORED: Final = -100
"""The label of a token that is not learned from."""


class LengthSettings(Protocol):
    """The part of a program's settings that is about lengths."""

    @property
    def too_long(self) -> str: ...


Given: TypeAlias = tuple[Sequence[Mapping[str, Any]], Path | None]
"""Rows, and where they were read; None: the program made them."""


def check_left_out(
    trainer: Any,
    train: Given,
    heldout: Given,
    settings: LengthSettings,
    max_length: int,
    *,
    whole: bool = False,
) -> None:
    """Rows that TRL leaves out because too little of them fits are refused, or counted. `whole`:
    it takes none that is cut, as a reward is read at an answer's end.

    Raises:
        DataError: there are some and the study does not say `too_long: drop`, or none is left.
    """
    for name, (rows, source), kept in (
        ("train", train, trainer.train_dataset),
        ("heldout", heldout, trainer.eval_dataset),
    ):
        left_out = len(rows) - (len(kept) if rows else 0)
        if left_out == 0:
            continue
        first = _first_too_long(rows, trainer.processing_class, max_length, source, whole=whole)
        why = (
            "are longer with one of their answers"
            if whole
            else "have nothing left to learn from (their prompt alone is as long, or the base has"
            " no more positions)"
        )
        text = f"{name}: with max_length {max_length} {left_out} of {len(rows)} rows {why}{first}"
        if left_out == len(rows) or settings.too_long == "refuse":
            hint = "shorten them, raise max_length, or write too_long: drop"
            raise data.DataError(f"{text}; {hint}")
        print(text, flush=True)
        scope = "data" if name == "train" else f"data/{name}"
        reporting.report(0, {f"{scope}/rows_left_out": left_out})


def check_packed(trainer: Any, max_length: int) -> None:
    """Rows that share sequences leave nothing out that could be counted; but all of them may have
    been cut down to their prompts.

    Raises:
        DataError: no token of `train` is learned from, or none of `heldout` measured.
    """
    for name, packed in (("train", trainer.train_dataset), ("heldout", trainer.eval_dataset)):
        if packed is None or "labels" not in packed.column_names:
            continue
        if all(label == IGNORED for row in packed for label in row["labels"]):
            raise data.DataError(
                f"{name}: with packing and max_length {max_length} every row is cut before its"
                " answer, and nothing is left to learn from; shorten the prompts or raise"
                " max_length"
            )


@contextmanager
def naming(
    tokenizer: Any, *inputs: tuple[Sequence[Mapping[str, Any]], Path | None]
) -> Iterator[None]:
    """Around what writes rows with the chat template: a row that the template refuses is named.
    Each of `inputs` is rows and where they were read.

    Raises:
        DataError: there is one.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(failures.typed(error), failures.TemplateFailure):
            raise
        for rows, source in inputs:
            for index, row in enumerate(rows):
                if (said := _refusal(row, tokenizer)) is not None:
                    raise refused(place(source, index), said) from error
        raise


def prompt_tokens(
    tokenizer: Any,
    messages: Sequence[Mapping[str, str]],
    where: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
) -> list[int]:
    """A prompt's tokens, ready for the answer; `tools` are schemas that are written into it.

    Raises:
        DataError: the template refuses it.
    """
    try:
        ids = tokenizer.apply_chat_template(
            messages,
            tools=list(tools) or None,
            tokenize=True,
            add_generation_prompt=True,
            return_dict=False,
        )
    except Exception as error:
        if isinstance(failures.typed(error), failures.TemplateFailure):
            raise refused(where, error) from error
        raise
    return list(ids)


def refused(where: str, error: Exception) -> data.DataError:
    said = " ".join(str(error).split())[:SAID_CHARS]
    return data.DataError(
        f"{where}: the base's chat template cannot write it: {said}; write the row as the template"
        " wants it, or give the base another chat_template.jinja"
    )


def place(source: Path | None, index: int) -> str:
    """How a row is told to the one who wrote it."""
    if source is None:
        return f"row {index + 1} of the data set that was made"
    return data.place_of(source, index)


def _first_too_long(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    max_length: int,
    source: Path | None,
    *,
    whole: bool,
) -> str:
    """Empty where none of the prompts explains it, or of the `whole` rows."""
    for index, row in enumerate(rows):
        prompt = row.get("prompt")
        if prompt is None:
            continue
        count = 0
        if whole:
            count = max(_row_tokens(tokenizer, prompt + row[name]) for name in pairs.SIDES) - 1
        elif isinstance(prompt, str):
            count = len(tokenizer(prompt)["input_ids"])
        else:
            count = len(prompt_tokens(tokenizer, prompt, place(source, index)))
        if count >= max_length:
            what = f"which has {count + 1}" if whole else f"whose prompt has {count}"
            return f", the first {place(source, index)}, {what} tokens"
    return ""


def _row_tokens(tokenizer: Any, row: Any) -> int:
    if isinstance(row, str):
        return len(tokenizer(row + tokenizer.eos_token)["input_ids"])
    return len(tokenizer.apply_chat_template(row, tokenize=True, return_dict=False))


def _refusal(row: Mapping[str, Any], tokenizer: Any) -> Exception | None:
    """What the template says to the row; None: nothing."""
    prompt = row.get("prompt", [])
    if isinstance(prompt, str):
        return None
    wholes = [row["messages"]] if "messages" in row else []
    wholes += [prompt + row[name] for name in ANSWERS if name in row]
    for messages in wholes:
        try:
            tokenizer.apply_chat_template(messages, tokenize=False)
        except Exception as error:  # noqa: BLE001  # a template may raise whatever it likes
            return error
    return None
