"""Arithmetic on float32 and float64.

Source: PTX ISA, "Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from portkit.emulate.core import floats
from portkit.emulate.core.floats import fma32_unrounded
from portkit.emulate.core.vectors import Approximation, Range
from portkit.emulate.ptx.contract import ADDED, FROM, LESS
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.interpolation import FUNCTIONS, interpolated
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.isa.rounding import FLOAT_MODES, NEAREST, add32, fused32, fused64, multiply32, rounded
from portkit.emulate.ptx.isa.rows import Function, canonical, computed, row, saturated
from portkit.emulate.ptx.machine import Array
from portkit.emulate.ptx.types import Type, types_of

_FLOAT = "Floating Point Instructions"
_BOTH = "f32 f64"


def mode_of(decoder: Decoder) -> str:
    """Rounding mode; to nearest even where none is named."""
    return decoder.one_of(*FLOAT_MODES) or NEAREST


def finished(decoder: Decoder, function: Function, exact: Function | None = None) -> Function:
    """A function of float32 with .ftz and .sat; ``exact``: its float64 before it is rounded. Float64 has neither."""
    if decoder.kind is Type.F64:
        return function
    flushes, saturates = decoder.has("ftz"), decoder.has("sat")
    if flushes:
        function = _flushing(function) if exact is None else _flushing_tiny(_NORMAL.get(function, function), exact)
    if saturates:
        return _saturating(function)
    return function if flushes or isinstance(function, np.ufunc) else _canonical(function)


def _canonical(function: Function) -> Function:
    return lambda *values: canonical(function(*values))


def _flushing(function: Function) -> Function:
    def operation(*values: Array) -> Array:
        result = np.asarray(function(*[floats.flush(value) for value in values]))
        if floats.all_above_tiny(result):
            return result
        return np.asarray(canonical(floats.flush(result)))

    return operation


_NORMAL: dict[Function, Function] = {floats.fma32: floats.fma32_normal}
"""Function → one that may differ where its result is no normal number."""


_ROUNDED_UP = 2.0**-126 - 2.0**-151
"""From here on 24 bits of any exponent round to the smallest normal number."""


def _flushing_tiny(function: Function, exact: Function) -> Function:
    """As on an H200: what 24 bits of any exponent leave below normal numbers is flushed, though it rounds to one."""

    def operation(*values: Array) -> Array:
        flushed = [floats.flush(value) for value in values]
        result = np.asarray(function(*flushed))
        if floats.all_above_tiny(result):
            return result
        least = np.abs(result) == _SMALL
        if least.any():
            result = np.where(
                least & (np.abs(exact(*flushed)) < _ROUNDED_UP), np.copysign(np.float32(0), result), result
            )
        return np.asarray(canonical(floats.flush(result)))

    return operation


def _saturating(function: Function) -> Function:
    return lambda *values: saturated(function(*values))


def _rounding(
    of32: Callable[[str], Function], of64: Function, *, exact: Function | None = None, required: bool = False
) -> Callable[[Decoder], Function]:
    """Instructions with a rounding mode, float64's to nearest alone."""

    def choose(decoder: Decoder) -> Function:
        mode = decoder.required(*FLOAT_MODES) if required else mode_of(decoder)
        if decoder.kind is Type.F32:
            return finished(decoder, of32(mode), exact)
        if mode != NEAREST:
            raise decoder.unsupported(f"rounding .{mode} of float64")
        return of64

    return choose


def _product(a: Array, b: Array) -> Array:
    return np.multiply(a, b, dtype=np.float64)


# -- quotients and approximations

_APPROXIMATE_RECIPROCAL = interpolated("rcp")


_LARGE, _SMALL = np.float32(2.0**126), np.float32(2.0**-126)
"""Sizes of divisors beyond which div.full scales both operands: up to there their reciprocals are normal numbers."""


def divide_full(a: Array, b: Array) -> Array:
    """div.full: the dividend times the divisor's reciprocal, both scaled where that would leave the normal numbers."""
    return np.asarray(np.multiply(*_factors(a, b)))


def _factors(a: Array, b: Array) -> tuple[Array, Array]:
    """What div.full multiplies."""
    size = np.abs(b)
    if size.size and size.min() >= _SMALL and size.max() <= _LARGE:  # as mostly
        return a, _APPROXIMATE_RECIPROCAL(b)
    scale = np.where(size > _LARGE, np.float32(0.25), np.where(size < _SMALL, np.float32(2.0**24), np.float32(1)))
    return a * scale, _APPROXIMATE_RECIPROCAL(b * scale)


def _in_sum(how: str) -> Function:
    """A quotient of div.full that a sum takes in before it is rounded."""
    quotient, other = np.float32(-1 if how == FROM else 1), np.float32(-1 if how == LESS else 1)
    fused = fused32(NEAREST)

    def function(a: Array, b: Array, c: Array) -> Array:
        dividend, reciprocal = _factors(a, b)
        return np.asarray(fused(dividend * quotient, reciprocal, c * other))

    return function


def divide_approximately(a: Array, b: Array) -> Array:
    """div.approx: divisors that are no normal numbers are scaled, others not, so that those above 2^126 give 0."""
    scale = np.where(np.abs(b) < _SMALL, np.float32(2.0**24), np.float32(1))
    return np.asarray((a * scale) * floats.flush(_APPROXIMATE_RECIPROCAL(b * scale)))


def _divide(decoder: Decoder) -> Step:
    kind = decoder.kind
    if how := decoder.one_of(ADDED, LESS, FROM):
        decoder.required("full")
        return computed(decoder, finished(decoder, _in_sum(how)), kind, [kind] * 3)
    decoder.need(3)
    form = decoder.one_of("full", "approx", *FLOAT_MODES) or NEAREST
    if kind is Type.F64:
        if form != NEAREST:
            raise decoder.unsupported(f"div.{form}.f64")
        return computed(decoder, np.divide, kind, [kind] * 2)
    function: Function = divide_full if form == "full" else divide_approximately
    if form in FLOAT_MODES:
        function = np.divide if form == NEAREST else _directed_quotient(form)
    return computed(decoder, finished(decoder, function), kind, [kind] * 2)


def _directed_quotient(mode: str) -> Function:
    """A float64 quotient that is not exact is rounded to odd by its remainder."""

    def function(a: Array, b: Array) -> Array:
        wide = np.asarray(a, np.float64) / np.asarray(b, np.float64)
        lost = floats.fma64(-wide, b, a) * np.sign(b)
        exact = floats.to_odd(wide, np.asarray(lost), np.isfinite(wide) & np.isfinite(b))
        return rounded(exact, np.float32, mode)

    return function


FITTED = ".approx: an H200's bits; other devices may have others"

_TINY = np.float32(2.0**24)
"""What the assembler multiplies denormal arguments with, which the unit takes for zeros."""


def _scaled(name: str, back: Callable[[Array], Array]) -> Function:
    """The unit's function without .ftz: what a result of a scaled argument becomes is ``back``."""
    unit = interpolated(name)

    def operation(x: Array) -> Array:
        x = np.asarray(x)
        tiny = np.abs(x) < _SMALL
        result = unit(np.where(tiny, x * _TINY, x))
        return np.where(tiny, back(result), result)

    return operation


def _inverse_without_flush(x: Array) -> Array:
    """rcp: divisors whose inverses are denormals are scaled, too."""
    return divide_full(np.float32(1), x)


def _power_without_flush(x: Array) -> Array:
    """ex2: below 2^-126 the square of the half's."""
    x = np.asarray(x)
    low = x < np.float32(-126)
    result = interpolated("ex2")(np.where(low, x * np.float32(0.5), x))
    return np.where(low, result * result, result)


_WITHOUT_FLUSH: dict[str, Function] = {
    "ex2": _power_without_flush,
    "rcp": _inverse_without_flush,
    "rsqrt": _scaled("rsqrt", lambda y: y * np.float32(2.0**12)),
    "sqrt": _scaled("sqrt", lambda y: y * np.float32(2.0**-12)),
    "lg2": _scaled("lg2", lambda y: y - np.float32(24)),
}
"""As ``ptxas`` builds functions without .ftz from the unit's own."""
_HALF = 2.0**-25  # of what float32 rounds off
_SINES = Approximation(FITTED, ranges=(Range(2 * np.pi, 2.0**-20.5 + _HALF), Range(100 * np.pi, 2.0**-14.7 + _HALF)))
"""The document's bounds on what a device's sine or cosine is off; beyond there are none."""


def _of_float64(function: Callable[[Array], Array]) -> Function:
    return lambda x: function(np.asarray(x).astype(np.float64)).astype(np.float32)


_ROUNDED = frozenset({"rcp", "sqrt"})
"""Functions that have rounding modes."""


def _approximate(function: Callable[[Array], Array], table: str | None) -> Callable[[Decoder], Function]:
    """Float32 functions of one argument; a rounding mode, where there is one, makes them exact."""

    def choose(decoder: Decoder) -> Function:
        mode = decoder.required("approx", *(FLOAT_MODES if decoder.instruction.opcode in _ROUNDED else ()))
        if mode == "approx" and table:
            unit = interpolated(table)
            flushes = "ftz" in decoder.instruction.modifiers
            return finished(decoder, unit if flushes else _WITHOUT_FLUSH.get(table, unit))
        if mode in {"approx", NEAREST}:
            return finished(decoder, _of_float64(function))
        return finished(decoder, lambda x: rounded(_odd_root(function, x), np.float32, mode))

    return choose


def _odd_root(function: Callable[[Array], Array], x: Array) -> Array:
    """Float64 result rounded to odd: where one is not exact, no float32 lies between it and the true one."""
    return function(np.asarray(x).astype(np.float64))


def _reciprocal(x: Array) -> Array:
    return np.asarray(1.0 / x)


def _inverse_root(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


def _of64(decoder: Decoder, function: Callable[[Array], Array], table: str | None) -> Step:
    """Float64 functions; approximate ones, where there is a table for them, of the upper word."""
    decoder.need(2)
    modes = (["approx"] if table else []) + ([NEAREST] if decoder.instruction.opcode in _ROUNDED else [])
    if decoder.required(*modes) == "approx" and table:
        decoder.required("ftz")
        function = _upper_word(table)
    return computed(decoder, function, Type.F64, [Type.F64])


_UPPER = np.uint64(0xFFFF_FFFF_0000_0000)
_NAN64: np.float64 = np.uint64(0x7FFF_FFFF_0000_0000).view(np.float64)
_SMALL64 = 2.0**-1022


def _upper_word(name: str) -> Callable[[Array], Array]:
    """What the unit makes of an upper word, with 20 bits of its mantissa: an H200's bits."""
    unit, roots = interpolated(name), name == "rsqrt"

    def operation(x: Array) -> Array:
        x = np.asarray(x, np.float64)
        part, power = np.frexp(np.abs((x.view(np.uint64) & _UPPER).view(np.float64)))
        ordinary = np.isfinite(x) & (np.abs(x) >= _SMALL64)
        odd = (power - 1) & 1 if roots else np.zeros_like(power)
        found = unit(np.where(ordinary, part * 2.0 ** (odd + 1), 1.0).astype(np.float32)).astype(np.float64)
        scaled = np.ldexp(found, (odd + 1 - power) >> 1 if roots else 1 - power)
        cut = (np.asarray(scaled).view(np.uint64) & _UPPER).view(np.float64)
        result = np.copysign(np.where(np.abs(cut) < _SMALL64, 0.0, cut), x)
        result = np.where(np.isinf(x), np.copysign(0.0, x), result)
        result = np.where(np.abs(x) < _SMALL64, np.copysign(np.inf, x), result)
        return np.where(np.isnan(x) | (roots & (x <= -_SMALL64)), _NAN64, result)

    return operation


# -- signs and extremes


def extreme(function: Function, quiet: bool) -> Function:
    """Min or max; with .NaN, of a NaN it is NaN."""
    if quiet:
        return function

    def operation(a: Array, b: Array) -> Array:
        result = function(a, b)
        return np.where(np.isnan(a) | np.isnan(b), np.asarray(np.nan, np.asarray(result).dtype), result)

    return operation


def _extreme(function: Function) -> Callable[[Decoder], Step]:
    """Of two sources, or of three."""

    def build(decoder: Decoder) -> Step:
        decoder.need(3, 4)
        kind = decoder.kind
        two = extreme(function, quiet=not decoder.has("NaN"))
        if decoder.has("xorsign"):
            decoder.required("abs")
            two = _by_sizes(two)
        if len(decoder.operands) == 3:
            return computed(decoder, finished(decoder, two), kind, [kind] * 2)
        decoder.since(100, "min and max of three")
        return computed(decoder, finished(decoder, lambda a, b, c: two(two(a, b), c)), kind, [kind] * 3)

    return build


def _by_sizes(function: Function) -> Function:
    """.xorsign.abs: of the sizes, with the product's sign."""

    def operation(a: Array, b: Array) -> Array:
        size = function(np.abs(a), np.abs(b))
        return np.where(np.signbit(a) != np.signbit(b), -size, size)

    return operation


def _one(function: Function) -> Callable[[Decoder], Function]:
    """Signs; a NaN of float64 keeps its bits, but is quiet (seen on an H200)."""

    def quiet(x: Array) -> Array:
        return np.where(np.isnan(x), x + 0.0, function(x))

    return lambda decoder: quiet if decoder.kind is Type.F64 else finished(decoder, function)


def _copy_sign(a: Array, b: Array) -> Array:
    return np.copysign(b, a)


_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(np.asarray(x).dtype).smallest_normal) | (x == 0)),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(np.asarray(x).dtype).smallest_normal),
}


def _test(decoder: Decoder) -> Step:
    decoder.need(2)
    return computed(decoder, _TESTS[decoder.required(*_TESTS)], Type.PRED, [decoder.kind])


def tanh(x: Array) -> Array:
    """Of float64."""
    return np.tanh(x)


def _built(
    name: str, build: Callable[[Decoder], Step], types: str = _BOTH, bound: Approximation | None = None
) -> Entry:
    return Entry(build, f"{_FLOAT}: {name}", types_of(types), approximation=bound)


_UPPER_BOUND = Approximation(".approx.ftz: an H200's bits; other devices may have others", 0, 0.0, 2.0**-19)


def _function(name: str, function: Callable[[Array], Array], bound: Approximation) -> Entry:
    table = name if name in FUNCTIONS else None
    return row(_approximate(function, table), "f32", f"{_FLOAT}: {name}", sources=1, approximation=bound)


def _fused(of: str) -> Entry:
    return row(
        _rounding(fused32, fused64, exact=fma32_unrounded, required=of == "fma"), _BOTH, f"{_FLOAT}: {of}", sources=3
    )


TABLE: dict[str, tuple[Entry, ...]] = {
    "add": (row(_rounding(add32, np.add), _BOTH, f"{_FLOAT}: add", sources=2),),
    "sub": (row(_rounding(lambda mode: add32(mode, negate=True), np.subtract), _BOTH, f"{_FLOAT}: sub", sources=2),),
    "mul": (row(_rounding(multiply32, np.multiply, exact=_product), _BOTH, f"{_FLOAT}: mul", sources=2),),
    "fma": (_fused("fma"),),
    "mad": (_fused("mad"),),
    "div": (
        Entry(
            _divide,
            f"{_FLOAT}: div",
            types_of(_BOTH),
            0,
            Approximation(".full, .approx: an H200's bits; other devices may have others", 2),
        ),
    ),
    "abs": (row(_one(np.abs), _BOTH, f"{_FLOAT}: abs", sources=1),),
    "neg": (row(_one(np.negative), _BOTH, f"{_FLOAT}: neg", sources=1),),
    "min": (_built("min", _extreme(floats.minimum)),),
    "max": (_built("max", _extreme(floats.maximum)),),
    "copysign": (row(lambda decoder: _copy_sign, _BOTH, f"{_FLOAT}: copysign", sources=2),),
    "testp": (_built("testp", _test),),
    "rcp": (
        _function("rcp", _reciprocal, Approximation(FITTED, 1)),
        _built("rcp", lambda decoder: _of64(decoder, _reciprocal, "rcp"), "f64", _UPPER_BOUND),
    ),
    "sqrt": (
        _function("sqrt", np.sqrt, Approximation(FITTED, 1)),
        _built("sqrt", lambda decoder: _of64(decoder, np.sqrt, None), "f64"),
    ),
    "rsqrt": (
        _function("rsqrt", _inverse_root, Approximation(FITTED, 1)),
        _built("rsqrt", lambda decoder: _of64(decoder, _inverse_root, "rsqrt"), "f64", _UPPER_BOUND),
    ),
    "sin": (_function("sin", np.sin, _SINES),),
    "cos": (_function("cos", np.cos, _SINES),),
    "lg2": (_function("lg2", np.log2, Approximation(FITTED, 2, 2.0**-22)),),
    "ex2": (_function("ex2", np.exp2, Approximation(FITTED, 2)),),
    "tanh": (_function("tanh", tanh, Approximation(FITTED, 0, 0.0, 2.0**-11)),),
}
