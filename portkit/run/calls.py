"""Calls a case's functions, forward or backward, in one way for all who call them.

What a forward call results in are the outputs. A backward call results in the gradients
of the case's ``differentiable`` inputs, given an upstream gradient for each output: the
fused function's by its own ``torch.autograd.Function``, the unfused chain's by autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from portkit.model import Cell, Direction, KernelCase
from portkit.run.inputs import InputMaker

Upstream = tuple[torch.Tensor | None, ...]
"""For each output the gradient that comes in; None where the output has none."""


@dataclass(frozen=True)
class Results:
    """What one call left to judge; a gradient that was not made is None."""

    names: tuple[str, ...]  # "0", "1", or "grad x"
    tensors: tuple[torch.Tensor | None, ...]

    @property
    def named(self) -> list[tuple[str, torch.Tensor]]:
        """Those that are there."""
        return [(n, t) for n, t in zip(self.names, self.tensors, strict=True) if t is not None]


def call(
    function: Callable[..., Any], case: KernelCase, cell: Cell, inputs: Mapping[str, Any], upstream: Upstream = ()
) -> Results:
    """Call a fused function or an unfused chain.

    Args:
        function: takes ``inputs`` by name.
        case: says which inputs are differentiable.
        cell: says the direction.
        inputs: left as they are; backward runs on leaves of the same memory.
        upstream: for backward, as :func:`upstream_for` makes it.

    Raises:
        TypeError: it returned something else than tensors, or nothing has a gradient.
    """
    if cell.direction is Direction.FORWARD:
        with torch.no_grad():
            tensors = as_outputs(function(**inputs))
        return Results(tuple(str(i) for i in range(len(tensors))), tensors)
    names = differentiable(case, inputs)
    leaves = {name: inputs[name].detach().requires_grad_() for name in names}
    with torch.enable_grad():
        outputs = as_outputs(function(**{**inputs, **leaves}))
    gradients = backward(outputs, list(leaves.values()), upstream)
    return Results(tuple(f"grad {name}" for name in names), gradients)


def timed_call(
    function: Callable[..., Any], case: KernelCase, cell: Cell, inputs: Mapping[str, Any], upstream: Upstream = ()
) -> Callable[[], object]:
    """What one sample times: the function; backward, its gradient alone, of a forward pass made now.

    Args as for :func:`call`.
    """
    if cell.direction is Direction.FORWARD:
        return lambda: function(**inputs)
    leaves = {name: inputs[name].detach().requires_grad_() for name in differentiable(case, inputs)}
    with torch.enable_grad():
        outputs = as_outputs(function(**{**inputs, **leaves}))
    return lambda: backward(outputs, list(leaves.values()), upstream, keep=True)


def backward(
    outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], upstream: Upstream, *, keep: bool = False
) -> Upstream:
    """Gradients of ``leaves``; None for one that no output depends on.

    Args:
        outputs: of the forward pass.
        leaves: its inputs.
        upstream: for each output the gradient that comes in.
        keep: whether another backward pass over the same forward pass may follow.

    Raises:
        TypeError: no output has a gradient.
    """
    roots = [(out, up) for out, up in zip(outputs, upstream, strict=True) if out.requires_grad]
    if not roots:
        raise TypeError("no output has a gradient: it was made without torch.autograd")
    gradients = torch.autograd.grad(
        [out for out, _ in roots],
        list(leaves),
        [torch.ones_like(out) if up is None else up for out, up in roots],
        allow_unused=True,
        retain_graph=keep,
    )
    return tuple(gradients)


def differentiable(case: KernelCase, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the inputs whose gradients are the results of a backward cell."""
    if case.differentiable is not None:
        return case.differentiable
    return tuple(name for name, value in inputs.items() if is_floating(value))


def upstream_for(outputs: Sequence[torch.Tensor], make: InputMaker) -> Upstream:
    """Gradients that come in, the same bits on every host: uniform, and 1 for a single number.

    A loss is a single number, and its gradient is 1 in training; some host code has a path
    of its own for that.
    """
    return tuple(_upstream(out, make) if out.is_floating_point() else None for out in outputs)


def upcast(upstream: Upstream) -> Upstream:
    """The same gradients in float64."""
    return tuple(None if x is None else x.to(torch.float64) for x in upstream)


def as_outputs(value: Any) -> tuple[torch.Tensor, ...]:
    """A returned tensor, or tuple or list of tensors, as a tuple.

    Raises:
        TypeError: something else was returned.
    """
    outputs = (value,) if isinstance(value, torch.Tensor) else value
    if not isinstance(outputs, (tuple, list)) or not all(isinstance(x, torch.Tensor) for x in outputs):
        raise TypeError(f"returned {_kind(value)}, not a tensor or a tuple of tensors")
    return tuple(outputs)


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as real and imaginary parts, on a last axis of their own; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def is_floating(value: Any) -> bool:
    """Whether an input is a tensor of floating-point numbers."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _upstream(out: torch.Tensor, make: InputMaker) -> torch.Tensor:
    if out.numel() == 1:
        return torch.ones_like(out)
    return make.uniform(tuple(out.shape), str(out.dtype).removeprefix("torch."))


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of " + ", ".join(type(x).__name__ for x in value)
    return type(value).__name__
