"""Checks of what the host functions beside this file are given. Each error names the argument.

A wrong type or dtype is a ``TypeError``, a wrong shape, device or stride a ``ValueError``.
"""

import math
from collections.abc import Sequence

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
"""Dtypes that the kernels compute in float32 and round once."""

INDICES = (torch.int32, torch.int64)


def check_tensor(name: str, value: object, dtypes: Sequence[torch.dtype] = FLOATS) -> torch.Tensor:
    """The tensor itself, of one of the dtypes."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}, not a tensor")
    if value.dtype not in dtypes:
        allowed = ", ".join(_text(dtype) for dtype in dtypes)
        raise TypeError(f"{name} is of {_text(value.dtype)}; it may be of {allowed}")
    return value


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int]) -> None:
    """The tensor has that shape."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {tuple(shape)}")


def check_axes(name: str, tensor: torch.Tensor, least: int, most: int | None = None) -> None:
    """The tensor has at least, or between, so many axes."""
    if tensor.dim() < least or (most is not None and tensor.dim() > most):
        wanted = f"at least {least}" if most is None else f"{least}" if most == least else f"{least} to {most}"
        raise ValueError(f"{name} has {tensor.dim()} axes; it must have {wanted}")


def check_named_axes(name: str, tensor: torch.Tensor, *axes: str) -> None:
    """The tensor has these axes."""
    if tensor.dim() != len(axes):
        raise ValueError(f"{name} has {tensor.dim()} axes; it must have {len(axes)}: {', '.join(axes)}")


def check_beside(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
    """Both are on one device."""
    if tensor.device != other.device:
        raise ValueError(f"{name} is on {tensor.device}, {other_name} on {other.device}")


def check_like(name: str, value: object, other_name: str, other: torch.Tensor) -> torch.Tensor:
    """The tensor itself, of the other's shape and dtype and on its device."""
    tensor = check_tensor(name, value, (other.dtype,))
    if tensor.shape != other.shape:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not that of {other_name}, {tuple(other.shape)}")
    check_beside(name, tensor, other_name, other)
    return tensor


def check_vector(name: str, value: object, other_name: str, other: torch.Tensor, length: int) -> torch.Tensor:
    """The tensor itself: ``length`` elements side by side, of the other's dtype and on its device."""
    tensor = check_tensor(name, value, (other.dtype,))
    check_shape(name, tensor, (length,))
    check_beside(name, tensor, other_name, other)
    return check_unit_stride(name, tensor)


def check_unit_stride(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, elements of its last axis side by side."""
    if tensor.numel() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(f"{name} has a last axis of stride {tensor.stride(-1)}, not 1: pass {name}.contiguous()")
    return tensor


def check_contiguous(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, without gaps, in the order of its axes."""
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous (strides {tensor.stride()}): pass {name}.contiguous()")
    return tensor


def check_most(name: str, value: int, most: int, why: str) -> None:
    """A number is no larger than ``most``."""
    if value > most:
        raise ValueError(f"{name} {value} is over {most}, {why}")


def as_rows(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as (rows, length), each row's elements side by side.

    Rows may lie apart; where their distances have no single stride, they are copied.
    """
    check_axes(name, tensor, 1)
    check_unit_stride(name, tensor)
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])


def gradient_rows(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient that comes in, as (rows, length), each row's elements side by side.

    Autograd may hand over any layout, such as one value expanded: that is copied.
    """
    length = gradient.shape[-1]
    aside = length > 1 and gradient.stride(-1) != 1
    return (gradient.contiguous() if aside else gradient).reshape(math.prod(gradient.shape[:-1]), length)


def _text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
