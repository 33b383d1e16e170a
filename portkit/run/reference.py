"""The unfused chain of a case, in float64 as reference and in its own dtype as baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from portkit.model import KernelCase

Outputs = tuple[torch.Tensor, ...]


def unfused(case: KernelCase, inputs: Mapping[str, Any]) -> Outputs:
    """Outputs of the unfused chain in the dtype of the inputs."""
    with torch.no_grad():
        return as_outputs(case.reference(**inputs))


def float64_reference(case: KernelCase, inputs: Mapping[str, Any]) -> Outputs:
    """Outputs of the unfused chain over the inputs, upcast exactly, in float64.

    Runs on the device of the inputs; integers and values that are no tensors stay.
    """
    with torch.no_grad():
        return as_outputs(case.reference(**{name: _upcast(value) for name, value in inputs.items()}))


def as_outputs(value: Any) -> Outputs:
    """A returned tensor, or tuple or list of tensors, as a tuple.

    Raises:
        TypeError: something else was returned.
    """
    outputs = (value,) if isinstance(value, torch.Tensor) else value
    if not isinstance(outputs, (tuple, list)) or not all(isinstance(x, torch.Tensor) for x in outputs):
        raise TypeError(f"returned {_kind(value)}, not a tensor or a tuple of tensors")
    return tuple(outputs)


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of " + ", ".join(type(x).__name__ for x in value)
    return type(value).__name__


def _upcast(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float64)
    return value
