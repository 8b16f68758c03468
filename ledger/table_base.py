"""What every table of the ledger is declared with: the base class and the types of columns."""

from typing import Final

from sqlalchemy import BigInteger, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase

NAMING: Final = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

ID = String(96)
NAME = String(32)
DIGEST = String(64)
# SQLite gives rowids only to INTEGER primary keys; PostgreSQL gets a 64-bit sequence.
SEQUENCE = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
