"""Reads calls of tools out of an answer's tokens, the way the base's chat template writes them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from inner_trials.data import DataError
from inner_trials.environments.protocol import Call


class CallReader:
    def __init__(self, tokenizer: Any, tools: Sequence[Mapping[str, Any]]) -> None:
        """The tokenizer itself stays as it is: it is saved with the model.

        Raises:
            DataError: the template writes no tools, or it is not known how it writes calls.
        """
        from trl.chat_template_utils import add_response_schema, supports_tool_calling

        if not supports_tool_calling(tokenizer):
            raise DataError(
                "base: its chat template writes no tool calls and results, which environment"
                " tools needs; take a base whose template does"
            )
        self._tools = list(tools)
        self._tokenizer = copy.deepcopy(tokenizer)
        if getattr(tokenizer, "response_template", None) is None:
            try:
                add_response_schema(self._tokenizer)
            except ValueError:
                raise DataError(
                    "base: it is not known how its chat template writes tool calls; its"
                    " tokenizer_config.json may say so in response_template"
                ) from None

    def read(self, prefix: Sequence[int], answer: Sequence[int]) -> tuple[str, list[Call]]:
        """The words of an answer, and what it calls; what cannot be read is words."""
        from trl.chat_template_utils import parse_response

        try:
            parsed = parse_response(
                self._tokenizer, list(answer), prefix=list(prefix), tools=self._tools
            )
        except RecursionError:  # a call of nothing but opening brackets, which policies fall into
            return self._tokenizer.decode(answer, skip_special_tokens=True).strip(), []
        calls = [_call(call) for call in parsed.get("tool_calls") or ()]
        return str(parsed.get("content") or "").strip(), calls


def _call(written: Mapping[str, Any]) -> Call:
    function = written.get("function", written)
    arguments = function.get("arguments")
    return Call(
        name=str(function["name"]),
        arguments=arguments if isinstance(arguments, Mapping) else {},
    )
