"""Operations on floating-point numbers as instructions define them, on bits, by exact arithmetic.

Each maker takes a ``Format`` and gives a function from the bits of the operands to those of the result.
"""

import math
from fractions import Fraction

from formats import exactly


def fractional(kind, operation):
    """An operation on numbers, rounded once."""
    return lambda *bits: kind.bits(exactly(operation, *map(kind.value, bits)))


def rounded(kind, function):
    """A rounding to whole numbers, which keeps the sign of zero."""

    def operation(bits):
        x = kind.value(bits)
        return kind.bits(math.copysign(float(function(x)), x) if math.isfinite(x) else x)

    return operation


def fraction(kind):
    """What is above the next lower whole number, below 1."""

    def operation(bits):
        x = kind.value(bits)
        if not math.isfinite(x):
            return kind.bits(math.nan)
        below_one = Fraction(1) - Fraction(1, 2 << kind.mantissa)
        return min(kind.bits(Fraction(x) - math.floor(x)), kind.bits(below_one))

    return operation


def extreme(kind, better):
    """Of two numbers, the other one where one is NaN; negative zero is below the positive one."""

    def key(bits):
        x = kind.value(bits)
        return (x, -1 if x == 0 and bits else 0)

    def operation(a, b):
        left, right = kind.value(a), kind.value(b)
        if math.isnan(left) or math.isnan(right):
            return b if math.isnan(left) else a
        return better(a, b, key=key)

    return operation


def strict(kind, operation):
    """NaN where an operand is."""
    return lambda *bits: kind.bits(math.nan) if any(math.isnan(kind.value(b)) for b in bits) else operation(*bits)


def median(kind):
    """The middle one; the lowest where one is NaN."""
    low, high = extreme(kind, min), extreme(kind, max)

    def operation(a, b, c):
        if any(math.isnan(kind.value(x)) for x in (a, b, c)):
            return low(low(a, b), c)
        return high(low(a, b), low(high(a, b), c))

    return operation


def then(first, second):
    """Two operations on two operands, one behind the other."""
    return lambda a, b, c: second(first(a, b), c)


def to_integer(kind, low, high):
    """Cut to a whole number, held within bounds; NaN gives 0."""

    def operation(bits):
        x = kind.value(bits)
        if math.isnan(x):
            return 0
        return math.trunc(max(low, min(high, x))) if math.isfinite(x) else high if x > 0 else low

    return operation


def scaled(kind):
    """x·2^n of a signed 32-bit n."""

    def operation(bits, power):
        x, n = kind.value(bits), power - (1 << 32) if power >> 31 else power
        if not math.isfinite(x) or x == 0:
            return bits
        return kind.bits(Fraction(x) * Fraction(2) ** max(-5000, min(5000, n))) | bits & 1 << (kind.width - 1)

    return operation


def mantissa(kind):
    """The value over the power of two that brings it to 0.5 up to 1."""

    def operation(bits):
        x = kind.value(bits)
        return kind.bits(math.frexp(x)[0]) if math.isfinite(x) else bits

    return operation


def power_of_two(kind):
    """That power; 0 where there is none."""

    def operation(bits):
        x = kind.value(bits)
        return math.frexp(x)[1] if math.isfinite(x) else 0

    return operation


def product(a, b):
    """Of two numbers."""
    return a * b


def fused(a, b, c):
    """Product and sum."""
    return a * b + c
