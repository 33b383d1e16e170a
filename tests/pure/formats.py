"""Binary floating-point formats by integer arithmetic alone, as a reference for instruction tests."""

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """An IEEE 754 interchange format, or bfloat16."""

    exponent: int  # bits
    mantissa: int  # bits

    @property
    def width(self):
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self):
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self):
        return ((1 << self.exponent) - 1) << self.mantissa

    def value(self, bits):
        """Python float of the bits; exact, since no format here is wider than float64."""
        sign = -1.0 if bits >> (self.width - 1) & 1 else 1.0
        exponent = bits >> self.mantissa & ((1 << self.exponent) - 1)
        fraction = bits & ((1 << self.mantissa) - 1)
        if exponent == (1 << self.exponent) - 1:
            return math.nan if fraction else sign * math.inf
        whole = fraction + (1 << self.mantissa if exponent else 0)
        return sign * math.ldexp(whole, max(exponent, 1) - self.bias - self.mantissa)

    def bits(self, x, *, cut=False):
        """Bits of a Python float or Fraction, to nearest even, or cut toward zero."""
        if isinstance(x, float):
            if math.isnan(x):
                return self.infinity | 1 << (self.mantissa - 1)
            sign = int(math.copysign(1, x) < 0) << (self.width - 1)
            if math.isinf(x):
                return sign | self.infinity
            return sign | self._magnitude(abs(Fraction(x)), cut)
        return (int(x < 0) << (self.width - 1)) | self._magnitude(abs(x), cut)

    def _magnitude(self, size, cut):
        if size == 0:
            return 0
        power = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, 1 - self.bias)
        while size >= Fraction(2) ** (power + 1):
            power += 1
        unit = Fraction(2) ** (power - self.mantissa)
        whole, rest = divmod(size, unit)
        whole = int(whole)
        if not cut:
            whole += 2 * rest > unit or (2 * rest == unit and whole & 1)
        bits = whole + (
            (power + self.bias - 1) << self.mantissa if whole >> self.mantissa or power > 1 - self.bias else 0
        )
        if bits >= self.infinity:
            return self.infinity - 1 if cut else self.infinity
        return bits

    def same(self, got, want):
        """Equal bits, or both NaN."""
        return got == want or (math.isnan(self.value(got)) and math.isnan(self.value(want)))


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)


def exactly(operation, *values):
    """Result of an operation on Fractions where all values are finite and it is not 0; else that on floats.

    The float result settles infinities, NaN and the sign of zero, none of which depends on rounding.
    """
    if all(math.isfinite(value) for value in values):
        exact = operation(*(Fraction(value) for value in values))
        if exact != 0:
            return exact
    try:
        return operation(*values)
    except OverflowError:
        return math.nan


def signed(x, bits):
    """Two's complement."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x
