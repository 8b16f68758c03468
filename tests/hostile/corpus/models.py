"""Placeholder."""

from typing import Final

from tests.hostile.corpus.entry import Attack

ATTACKS: Final[tuple[Attack, ...]] = ()
