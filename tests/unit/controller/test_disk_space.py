"""How much of a disk stays free, as an operator writes it, and when a low one is enough again."""

from pathlib import Path

import pytest

from controller.disk_space import Disk, MinFree, parse_min_free
from controller.settings import read_settings
from controller.worker.conditions import find_low_disk
from ledger.errors import InvalidInput

GIB = 1 << 30


def disk(free: int, wanted: int = 100, total: int = 1000) -> Disk:
    return Disk(
        holds="the ledger",
        place=Path("/"),
        total_bytes=total,
        free_bytes=free,
        min_free_bytes=wanted,
    )


@pytest.mark.parametrize(
    ("text", "of_a_thousand_gib"),
    [
        ("5%", 50 * GIB),
        ("0.5 %", 5 * GIB),
        ("2GiB", 2 * GIB),
        ("1 kB", 1000),
        ("9", 9),
    ],
)
def test_a_size_or_a_share_is_read(text: str, of_a_thousand_gib: int) -> None:
    assert parse_min_free(text).of(1000 * GIB) == of_a_thousand_gib


@pytest.mark.parametrize("text", ["0", "0%", "100%", "-1GiB", "much", "5 per cent", "1XB", ""])
def test_another_text_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write a size like 2GiB, or a share"):
        parse_min_free(text)


def test_the_setting_names_itself() -> None:
    with pytest.raises(InvalidInput, match="ARL_DISK_MIN_FREE: 'lots': write a size"):
        read_settings({"ARL_DISK_MIN_FREE": "lots"})
    with pytest.raises(InvalidInput, match="it is ARL_DISK_MIN_FREE now"):
        read_settings({"ARL_DISK_WATERMARK_BYTES": "1000"})
    assert read_settings({}).disk_min_free == MinFree(size_bytes=64 << 20)


def test_the_ledgers_file_is_known_where_it_is_one() -> None:
    assert read_settings({"ARL_HOME": "/h"}).ledger_file == Path("/h/ledger.db")
    assert read_settings({"ARL_LEDGER": "sqlite:////d/l.db"}).ledger_file == Path("/d/l.db")
    assert read_settings({"ARL_LEDGER": "/d/l.db"}).ledger_file == Path("/d/l.db")
    assert read_settings({"ARL_LEDGER": "postgresql://a@/b"}).ledger_file is None


def test_a_low_disk_holds_and_says_which_one() -> None:
    low = find_low_disk([disk(500), disk(99)], was_low=False)
    assert low is not None
    assert "99 bytes are free on the disk that holds the ledger, and 100 are wanted" in low.detail
    assert find_low_disk([disk(100)], was_low=False) is None


def test_it_is_enough_again_only_a_little_above() -> None:
    assert find_low_disk([disk(124)], was_low=True) is not None
    assert find_low_disk([disk(125)], was_low=True) is None


@pytest.mark.parametrize("wanted", [1, 7, 900, 999])
def test_what_is_enough_can_be_reached(wanted: int) -> None:
    assert wanted <= disk(0, wanted).enough_bytes <= 1000
    assert disk(0, 100 * GIB, 1000 * GIB).enough_bytes == 101 * GIB
