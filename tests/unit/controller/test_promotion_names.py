"""How a position in a model's history is written."""

import pytest

from controller.registry.names import LARGEST, read_number
from ledger.errors import InvalidInput


def test_a_position_is_a_number_from_one() -> None:
    assert [read_number(text, "NUMBER") for text in ("1", "007", str(LARGEST))] == [1, 7, LARGEST]


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1.0", "x", "٣", str(LARGEST + 1), "0" * 11 + "1" + "9" * 5000]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"NUMBER: .*from 1"):
        read_number(text, "NUMBER")
