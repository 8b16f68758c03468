"""Which rows cannot be trained on once a tokenizer has read them: too long, or refused by the
chat template. Found only when something went wrong, so that sound data costs nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from inner_trials import data, failures, reporting

ANSWERS: Final = ("completion", "chosen", "rejected")
SAID_CHARS: Final = 200


class LengthSettings(Protocol):
    """The part of a program's settings that is about lengths."""

    @property
    def too_long(self) -> str: ...


def check_left_out(
    trainer: Any,
    rows: Sequence[Mapping[str, Any]],
    settings: LengthSettings,
    max_length: int,
    source: Path | None,
) -> None:
    """Rows of `train` that TRL leaves out because too little of them fits are refused, or
    counted. `source` is where they were read; None: the program made them.

    Raises:
        DataError: there are some and the study does not say `too_long: drop`, or none is left.
    """
    given, kept = len(rows), len(trainer.train_dataset)
    if kept == given:
        return
    first = _first_too_long(rows, trainer.processing_class, max_length, source)
    text = (
        f"train: with max_length {max_length} {given - kept} of {given} rows have nothing left to"
        " learn from (their prompt alone is as long, or the base has no more positions)"
        f"{first}"
    )
    if kept == 0 or settings.too_long == "refuse":
        raise data.DataError(f"{text}; shorten them, raise max_length, or write too_long: drop")
    print(text, flush=True)
    reporting.report(0, {"data/rows_left_out": given - kept})


IGNORED: Final = -100
"""The label of a token that is not learned from."""


def check_packed(trainer: Any, max_length: int) -> None:
    """Rows that share sequences leave nothing out that could be counted; but all of them may have
    been cut down to their prompts.

    Raises:
        DataError: no token of `train` is learned from.
    """
    packed = trainer.train_dataset
    if "labels" not in packed.column_names:
        return
    if all(label == IGNORED for row in packed for label in row["labels"]):
        raise data.DataError(
            f"train: with packing and max_length {max_length} every row is cut before its answer,"
            " and nothing is left to learn from; shorten the prompts or raise max_length"
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
    rows: Sequence[Mapping[str, Any]], tokenizer: Any, max_length: int, source: Path | None
) -> str:
    """Empty where none of the prompts explains it."""
    for index, row in enumerate(rows):
        prompt = row.get("prompt")
        if prompt is None:
            continue
        if isinstance(prompt, str):
            ids = tokenizer(prompt)["input_ids"]
        else:
            ids = prompt_tokens(tokenizer, prompt, place(source, index))
        if len(ids) >= max_length:
            return f", the first {place(source, index)}, whose prompt has {len(ids)} tokens"
    return ""


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
