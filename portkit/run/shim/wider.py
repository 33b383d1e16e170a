"""Products with a result wider than their operands (``out_dtype``), which PyTorch makes on GPUs only.

Widening the operands first gives the same numbers: it is exact, and so GPUs add up the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_PRODUCTS = frozenset({torch.mm, torch.bmm, torch.addmm, torch.baddbmm})


def widen_operands(
    func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call that asks for ``out_dtype``, without it; of all other calls as they are."""
    if func not in _PRODUCTS or named.get("out_dtype") is None:
        return args, named
    dtype = named["out_dtype"]
    rest = {name: value for name, value in named.items() if name != "out_dtype"}
    return tuple(_widened(item, dtype) for item in args), rest


def _widened(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else value
