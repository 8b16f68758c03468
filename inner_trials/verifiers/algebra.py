"""Exact values of the expressions people write as answers: rational functions of roots and names.

A polynomial is a sum of terms, each a fraction times the square root of a square-free number
times powers of names (pi is one). A value is one polynomial over another; two values are equal
when their cross products are. No floats: 1/sqrt(2) is sqrt(2)/2, and 0.333 is not 1/3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

MAX_TERMS: Final = 24
MAX_BITS: Final = 2048
MAX_POWER: Final = 64
MAX_RADICAND: Final = 10**8

Names: TypeAlias = tuple[tuple[str, int], ...]
"""Powers of names, sorted: (("x", 2), ("y", 1)) is x*x*y."""
Term: TypeAlias = tuple[int, Names]
"""The number below the root, square-free, and the names."""
Polynomial: TypeAlias = Mapping[Term, Fraction]

ONE: Final[Term] = (1, ())


class TooLargeError(ValueError):
    """The value is larger than any answer, or has no value at all."""


@dataclass(frozen=True, slots=True)
class Value:
    """Built by the functions below only, so that the lower polynomial is never zero."""

    above: Polynomial
    below: Polynomial

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        return _times(self.above, other.below) == _times(other.above, self.below)

    __hash__ = None  # type: ignore[assignment]  # equal values have many spellings


def number(value: Fraction | int) -> Value:
    return Value(_cleaned({ONE: Fraction(value)}), {ONE: Fraction(1)})


def name(text: str) -> Value:
    return Value({(1, ((text, 1),)): Fraction(1)}, {ONE: Fraction(1)})


def add(left: Value, right: Value) -> Value:
    above = _plus(_times(left.above, right.below), _times(right.above, left.below))
    return Value(above, _times(left.below, right.below))


def negate(value: Value) -> Value:
    return Value({term: -factor for term, factor in value.above.items()}, value.below)


def multiply(left: Value, right: Value) -> Value:
    return Value(_times(left.above, right.above), _times(left.below, right.below))


def divide(left: Value, right: Value) -> Value:
    """Raises TooLargeError: the divisor is zero."""
    if not right.above:
        raise TooLargeError("division by zero")
    return Value(_times(left.above, right.below), _times(left.below, right.above))


def power(base: Value, exponent: Value) -> Value:
    """A whole power, or a square root written as 1/2.

    Raises:
        TooLargeError: another exponent, or a result beyond all bounds.
    """
    plain = as_fraction(exponent)
    if plain == Fraction(1, 2):
        return square_root(base)
    if plain is None or plain.denominator != 1 or abs(plain) > MAX_POWER:
        raise TooLargeError("exponent")
    if plain < 0:
        base = divide(number(1), base)
    result = number(1)
    for _ in range(abs(int(plain))):
        result = multiply(result, base)
    return result


def square_root(value: Value) -> Value:
    """Of a fraction that is not negative.

    Raises:
        TooLargeError: of anything else, or its numbers are too large to take apart.
    """
    plain = as_fraction(value)
    if plain is None or plain < 0:
        raise TooLargeError("square root")
    if plain == 0:
        return number(0)
    outside, inside = _square_free(plain.numerator * plain.denominator)
    return Value({(inside, ()): Fraction(outside, plain.denominator)}, {ONE: Fraction(1)})


def as_fraction(value: Value) -> Fraction | None:
    """The value if it is a plain fraction."""
    if not value.above:
        return Fraction(0)
    if set(value.above) == {ONE} == set(value.below):
        return value.above[ONE] / value.below[ONE]
    return None


def _plus(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for term, factor in right.items():
        total[term] = total.get(term, Fraction(0)) + factor
    return _cleaned(total)


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) * len(right) > MAX_TERMS**2:
        raise TooLargeError("too many terms")
    total: dict[Term, Fraction] = {}
    for (root, names), factor in left.items():
        for (other_root, other_names), other in right.items():
            common = math.gcd(root, other_root)
            inside = (root // common) * (other_root // common)
            if inside > MAX_RADICAND:
                raise TooLargeError("square root")
            term = (inside, _joined(names, other_names))
            total[term] = total.get(term, Fraction(0)) + factor * other * common
    return _cleaned(total)


def _cleaned(terms: Mapping[Term, Fraction]) -> Polynomial:
    kept = {term: factor for term, factor in terms.items() if factor}
    if len(kept) > MAX_TERMS:
        raise TooLargeError("too many terms")
    for factor in kept.values():
        if max(factor.numerator.bit_length(), factor.denominator.bit_length()) > MAX_BITS:
            raise TooLargeError("number too large")
    return kept


def _joined(left: Names, right: Names) -> Names:
    powers = dict(left)
    for text, exponent in right:
        powers[text] = powers.get(text, 0) + exponent
    return tuple(sorted(powers.items()))


def _square_free(value: int) -> tuple[int, int]:
    """(a, b) with a*a*b == value and no square in b."""
    if value > MAX_RADICAND:
        raise TooLargeError("square root")
    outside, factor = 1, 2
    while factor * factor <= value:
        while value % (factor * factor) == 0:
            value //= factor * factor
            outside *= factor
        factor += 1
    return outside, value
