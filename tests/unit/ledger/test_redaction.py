"""A secret is found again in whatever form somebody repeats it."""

import base64
import json
from urllib.parse import quote

import pytest

from ledger.redaction import SHOWN, without_secret, without_secret_in

KEY = 'sk-"live"/+=\\0f3a'
FORMS = {
    "plain": KEY,
    "json": json.dumps({"error": KEY}),
    "json with escaped slashes": json.dumps({"error": KEY}).replace("/", r"\/"),
    "address": f"https://host/?key={quote(KEY)}&other={quote(KEY, safe='')}",
    "repr": f"Illegal header value {KEY.encode()!r}",
    "hex": KEY.encode().hex(),
    **{
        f"base64 after {len(user)}": base64.b64encode(f"{user}:{KEY}\n".encode()).decode()
        for user in ("", "a", "ab", "abc")
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_taken_out_in_every_form(form: str) -> None:
    text = f"before {FORMS[form]} after"
    for found in (without_secret(text, KEY), without_secret_in(text.encode(), KEY).decode()):
        assert SHOWN in found
        assert found.startswith("before ")
        assert found.endswith(" after")
        for other in FORMS.values():
            assert other not in found


def test_a_word_that_is_no_secret_takes_nothing_out_of_an_answer() -> None:
    body = b'{"choices": [{"index": 0}], "x": "\xff"}'
    assert without_secret_in(body, "x") == body
    assert without_secret("all is well", None) == "all is well"
    assert without_secret_in(body, "none-of-it") == body
