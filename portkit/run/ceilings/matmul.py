"""Rate of the device's matrix units by kind of arithmetic, through torch's own products.

The operands are square, of random values between -1 and 1: zeros take less power, and
so clocks that no real product reaches. Sizes are powers of two up to the first whose
product takes a millisecond; the best of them counts, since the largest may meet the
limit of power first (seen on an H200: 774 TFLOP/s in bfloat16 at 4096, 685 at 8192).
Rates are of short bursts, dense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from portkit.run.ceilings.fastest import Reached, best_ms

SMALLEST, LARGEST = 1024, 8192
LONG_ENOUGH_MS = 1.0

Product = Callable[[], object]


class KindMissingError(Exception):
    """The device, or torch on it, has no such arithmetic."""


def matmul_rate(kind: str) -> Reached:
    """TFLOP/s of a kind of arithmetic, a multiplication and an addition counted as two.

    Args:
        kind: a name of ``KINDS``.

    Raises:
        KindMissingError: that arithmetic is not in effect here.
        RuntimeError: torch refuses the product.
    """
    with _precision("high" if kind == "tf32" else "highest"):
        _check_rounding(kind)
        rates: dict[int, float] = {}
        size, ms = SMALLEST, 0.0
        while size <= LARGEST and ms < LONG_ENOUGH_MS:
            ms = best_ms(KINDS[kind](size))
            rates[size] = 2 * size**3 / ms / 1e9
            size *= 2
    best = max(rates, key=lambda each: rates[each])
    return Reached(rates[best], f"{_CALLS.get(kind, 'torch.matmul')}, {best}×{best}×{best}")


def _check_rounding(kind: str) -> None:
    """Refuse where float32 products are not of the kind asked for: settings and devices decide silently.

    1 + 2^-12 has one bit more than tf32 keeps, so its products with 1 tell.
    """
    if kind not in ("float32", "tf32"):
        return
    ones = torch.ones(SMALLEST, SMALLEST, device="cuda")
    rounded = bool((torch.matmul(ones * (1 + 2**-12), ones) == SMALLEST).all())
    if rounded != (kind == "tf32"):
        raise KindMissingError("float32 products are rounded to tf32 here" if rounded else "no tf32 is in effect here")


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _uniform(size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(size, size, device="cuda").uniform_(-1, 1).to(dtype)


def _plain(dtype: torch.dtype) -> Callable[[int], Product]:
    def make(size: int) -> Product:
        left, right = _uniform(size, dtype), _uniform(size, dtype)
        out = torch.empty_like(left)
        return lambda: torch.matmul(left, right, out=out)

    return make


def _fp8(size: int) -> Product:
    """Of one scale a tensor, with the faster of NVIDIA's two accumulations."""
    dtype = torch.float8_e4m3fnuz if _is_fnuz() else torch.float8_e4m3fn
    left, right = _uniform(size, dtype), _uniform(size, dtype).t()
    one = torch.ones((), device="cuda")
    scaled: Any = torch._scaled_mm
    given = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": True}
    return lambda: scaled(left, right, **given)


def _is_fnuz() -> bool:
    """gfx942 has the older fp8 formats alone."""
    return getattr(torch.cuda.get_device_properties(0), "gcnArchName", "").startswith("gfx94")


def _int8(size: int) -> Product:
    left = torch.randint(-127, 128, (size, size), dtype=torch.int8, device="cuda")
    right = left.t()
    return lambda: torch._int_mm(left, right)


KINDS: Mapping[str, Callable[[int], Product]] = {
    "float32": _plain(torch.float32),
    "tf32": _plain(torch.float32),
    "float16": _plain(torch.float16),
    "bfloat16": _plain(torch.bfloat16),
    "fp8": _fp8,
    "int8": _int8,
}
"""Kind of arithmetic → a product of that size; float32 is IEEE's."""

_CALLS: Mapping[str, str] = {"fp8": "torch._scaled_mm with fast accumulation", "int8": "torch._int_mm"}
