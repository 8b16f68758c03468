r"""Reads an answer written in LaTeX or plain text into an exact value, or a collection of values.

A small grammar, read from left to right with bounds on length and depth: numbers (with groups of
thousands), names of one letter, \pi, \frac, \sqrt, + - * / ^, brackets, products without a sign,
mixed numbers, per cent, units after a value, one `x =` in front; tuples, intervals, sets, lists.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from inner_trials.verifiers import algebra
from inner_trials.verifiers.algebra import TooLargeError, Value
from inner_trials.verifiers.numbers import MAX_DIGITS

MAX_DEPTH: Final = 20

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
    r"|(?P<command>\\[A-Za-z]+|\\[{}%])|(?P<letter>[A-Za-z](?![A-Za-z]))"
    r"|(?P<sign>[-+*/^()\[\]{},%=]))",
    re.ASCII,
)
_DROPPED: Final = re.compile(
    r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]|\\?\$|~|\^\{?\\circ\}?"
)
_UNIT: Final = re.compile(r"(?<=[\w})\]])\s*\\(?:text|mathrm|mbox)\s?\{[^{}]*\}(?:\^[0-9])?\s*$")
_SHORT_FRACTION: Final = re.compile(r"\\[dt]?frac\s?([0-9])\s?([0-9])(?![0-9])", re.ASCII)
_SAME: Final = {
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac", "\\cdot": "*", "\\times": "*",
    "\\div": "/", "\\lbrace": "\\{", "\\rbrace": "\\}", "\\%": "%",
}  # fmt: skip
_OPENING: Final = {"(": ")", "[": "]", "\\{": "\\}"}


class UnreadableError(ValueError):
    """The text is not in the grammar."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Several values. Sets and lists without brackets have no order."""

    opened: str
    closed: str
    values: tuple[Value, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        if (self.opened, self.closed) != (other.opened, other.closed):
            return False
        if len(self.values) != len(other.values):
            return False
        if self.opened not in ("\\{", ""):
            return self.values == other.values
        left = list(other.values)
        for value in self.values:
            if value not in left:
                return False
            left.remove(value)
        return True

    __hash__ = None  # type: ignore[assignment]  # like the values in it


def read_answer(text: str) -> Value | Collection:
    """Raises UnreadableError, TooLargeError."""
    plain = text.replace("\u2212", "-").replace("\u03c0", "\\pi ")
    plain = _UNIT.sub("", _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _DROPPED.sub(" ", plain)))
    reader = _Reader(_tokens(plain.strip().removesuffix(".")))
    if len(reader.tokens) > 2 and reader.tokens[1] == "=" and reader.tokens[0].isalpha():
        reader.at = 2
    read = reader.collection()
    if reader.at != len(reader.tokens):
        raise UnreadableError(f"{reader.tokens[reader.at]!r} is not expected here")
    return read


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].isspace():
                break
            raise UnreadableError(f"{text[at : at + 12]!r} is not part of an answer")
        token = match[0].strip()
        found.append(_SAME.get(token, token))
        at = match.end()
    if not found:
        raise UnreadableError("nothing there")
    return found


class _Reader:
    """Recursive descent; `at` is the next token."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if not token or (expected and token not in expected):
            raise UnreadableError(f"expected {' or '.join(expected) or 'more'}")
        self.at += 1
        return token

    def collection(self) -> Value | Collection:
        """The whole text: one value, `(a, b]`, `{a, b}` or `a, b`."""
        start, opened = self.at, self.peek()
        if opened in _OPENING:
            self.take()
            values = self.values()
            closed = self.peek()
            is_last = self.at == len(self.tokens) - 1
            is_fit = closed == "\\}" if opened == "\\{" else closed in (")", "]")
            if is_last and is_fit and (len(values) > 1 or opened == "\\{"):
                self.take()
                return Collection(opened, closed, values)
            self.at = start
        values = self.values()
        return values[0] if len(values) == 1 else Collection("", "", values)

    def values(self) -> tuple[Value, ...]:
        values = [self.sum()]
        while self.peek() == ",":
            self.take()
            values.append(self.sum())
        return tuple(values)

    def sum(self) -> Value:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError("too deep")
        total = self.signed_product()
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            total = algebra.add(total, term if sign == "+" else algebra.negate(term))
        self.depth -= 1
        return total

    def signed_product(self) -> Value:
        if self.peek() in ("+", "-"):
            is_minus = self.take() == "-"
            return algebra.negate(self.product()) if is_minus else self.product()
        return self.product()

    def product(self) -> Value:
        total = self.power()
        while True:
            token = self.peek()
            if token in ("*", "/"):
                self.take()
                other = self.power()
                total = (algebra.multiply if token == "*" else algebra.divide)(total, other)
            elif token == "%":
                self.take()
                total = algebra.divide(total, algebra.number(100))
            elif token and (token[0].isalpha() or token in ("(", "\\frac", "\\sqrt", "\\pi")):
                total = algebra.multiply(total, self.power())
            else:
                return total

    def power(self) -> Value:
        base = self.atom()
        if self.peek() != "^":
            return base
        self.take()
        return algebra.power(base, self.argument())

    def argument(self) -> Value:
        """`{...}` or one atom, as after ^ and \\frac."""
        if self.peek() != "{":
            is_minus = self.peek() == "-" and bool(self.take())
            value = self.atom()
            return algebra.negate(value) if is_minus else value
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def atom(self) -> Value:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            return self.mixed(token)
        if token == "\\frac":
            above = self.argument()
            return algebra.divide(above, self.argument())
        if token == "\\sqrt":
            return algebra.square_root(self.argument())
        if token == "\\pi" or token.isalpha():
            return algebra.name(token)
        if token in ("(", "{"):
            value = self.sum()
            self.take(")" if token == "(" else "}")
            return value
        raise UnreadableError(f"{token!r} has no value")

    def mixed(self, token: str) -> Value:
        """A number; a whole one right before a proper \\frac is added to it: 1\\frac{1}{2}."""
        if len(token) > MAX_DIGITS:
            raise TooLargeError("number too long")
        value = algebra.number(Fraction(token.replace(",", "")))
        if token.isdigit() and self.peek() == "\\frac":
            part = algebra.as_fraction(self.atom())
            if part is None or not 0 < part < 1:
                raise UnreadableError("a whole number before \\frac")
            value = algebra.add(value, algebra.number(part))
        return value
