"""Score documents that are none: what an evaluator writes that was fooled or broken."""

from typing import Final

from ledger.states import Reason
from tests.hostile.corpus.entry import Attack, Shape, ends

RULE: Final = "one JSON object, capped, keys once, numbers finite, typed and in range"

_TEXTS: Final[dict[str, bytes]] = {
    "nan": b'{"metrics": {"score": NaN}}',
    "infinity": b'{"metrics": {"score": Infinity}}',
    "minus-infinity": b'{"metrics": {"score": -Infinity}}',
    "overflow": b'{"metrics": {"score": 1e999}}',
    "number-as-text": b'{"metrics": {"score": "0.97"}}',
    "true-as-number": b'{"metrics": {"score": true}}',
    "null": b'{"metrics": {"score": null}}',
    "list-as-number": b'{"metrics": {"score": [0.97]}}',
    "duplicate-key": b'{"metrics": {"score": 0.1, "score": 0.97}}',
    "duplicate-metrics": b'{"metrics": {"score": 0.1}, "metrics": {"score": 0.97}}',
    "out-of-range": b'{"metrics": {"score": 1.5}}',
    "just-out-of-range": b'{"metrics": {"score": 1.0000000000000002}}',
    "undeclared-metric": b'{"metrics": {"score": 0.97, "other": 1}}',
    "missing-metric": b'{"metrics": {}}',
    "other-case": b'{"Metrics": {"Score": 0.97}}',
    "extra-key": b'{"metrics": {"score": 0.97}, "promote": true}',
    "two-objects": b'{"metrics": {"score": 0.97}} {"metrics": {"score": 0.97}}',
    "trailing-text": b'{"metrics": {"score": 0.97}} # done',
    "comment": b'/* */ {"metrics": {"score": 0.97}}',
    "no-object": b"0.97",
    "array": b'[{"metrics": {"score": 0.97}}]',
    "empty": b"",
    "nul-bytes": b'\0{"metrics": {"score": 0.97}}\0',
    "not-utf-8": b'{"metrics": {"score": 0.97}, "items": ["\xff"]}',
    "utf-16": '{"metrics": {"score": 0.97}}'.encode("utf-16"),
    "byte-order-mark": b'\xef\xbb\xbf{"metrics": {"score": 0.97}}',
    "deeply-nested": b"[" * 200_000,
    "nested-items": b'{"metrics": {"score": 0.97}, "items": ' + b"[" * 900 + b"]" * 900 + b"}",
    "texts-as-items": b'{"metrics": {"score": 0.97}, "items": ["1"]}',
    "nan-items": b'{"metrics": {"score": 0.97}, "items": [1, NaN]}',
    "five-thousand-digits": b'{"metrics": {"score": ' + b"9" * 5000 + b"}}",
    "hexadecimal": b'{"metrics": {"score": 0x1}}',
    "python-literal": b"{'metrics': {'score': 0.97}}",
    "half-written": b'{"metrics": {"score": 0.97',
}

ATTACKS: Final = (
    *(
        Attack(
            name=f"document-{name}",
            tries=f"a score document: {name.replace('-', ' ')}",
            breaks=RULE,
            files={"document": text},
            saves=False,
            shape=Shape.DOCUMENTS,
            ends=ends(Reason.EVALUATOR_ERROR),
        )
        for name, text in _TEXTS.items()
    ),
    Attack(
        name="document-of-a-gigabyte",
        tries="a score document of a gigabyte, valid if one were to read it",
        breaks=RULE,
        files={"repeat": b"1024"},
        saves=False,
        shape=Shape.DOCUMENTS,
        ends=ends(Reason.EVALUATOR_ERROR),
    ),
    Attack(
        name="document-then-failure",
        tries="an evaluator that writes a score and then fails",
        breaks="a failed evaluation has no score",
        files={"document": b'{"metrics": {"score": 0.97}}', "exit": b"1"},
        saves=False,
        shape=Shape.DOCUMENTS,
        ends=ends(Reason.EVALUATOR_ERROR),
    ),
    Attack(
        name="document-then-death",
        tries="an evaluator that writes a score and is killed",
        breaks="a failed evaluation has no score",
        files={"document": b'{"metrics": {"score": 0.97}}', "exit": b"-9"},
        saves=False,
        shape=Shape.DOCUMENTS,
        ends=ends(Reason.EVALUATOR_ERROR),
    ),
    Attack(
        name="document-on-standard-output",
        tries="an evaluator that prints its score instead of writing it to its channel",
        breaks="a score comes over the channel that only the evaluator has",
        files={"printed": b'{"metrics": {"score": 0.97}}'},
        saves=False,
        shape=Shape.DOCUMENTS,
        ends=ends(Reason.EVALUATOR_ERROR),
    ),
    Attack(
        name="document-never",
        tries="an evaluator that is made to wait for ever",
        breaks="an evaluation that does not end is no score",
        files={"sleep": b"600"},
        saves=False,
        shape=Shape.DOCUMENTS,
        ends=ends(Reason.EVALUATOR_ERROR),
    ),
)
