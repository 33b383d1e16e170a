"""What a user names on a command line: a member of a module, a tensor by dtype and shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from portkit.errors import CaseError, nearest
from portkit.model import Shape
from portkit.plan.arguments import TensorSpec
from portkit.run.inputs import InputMaker


def member(module: Any, dotted: str, place: str) -> Any:
    """The member that a dotted name means.

    Args:
        module: where the first part is looked for.
        dotted: ``function`` or ``Class.method``.
        place: what errors name.

    Raises:
        CaseError: a part is not there, or reading it fails; the nearest names are the remedy.
    """
    found = module
    for part in dotted.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [name for name, value in _members(found).items() if callable(value) and not name.startswith("_")]
            raise CaseError(f"has no {dotted}", place=place, remedy=nearest(part, names)) from None
        except Exception as error:  # of a property of the user's
            told = f"{type(error).__name__}: {error}"
            raise CaseError(
                f"{part} of {dotted} can't be read: {told}", place=place, remedy="name a function"
            ) from None
    return found


def _members(found: Any) -> Mapping[str, Any]:
    """What a module or a class defines; nothing for a value without attributes of its own, such as a number."""
    return getattr(found, "__dict__", {})


def tensor(spec: TensorSpec, maker: InputMaker) -> torch.Tensor:
    """A random tensor as specified: floats uniform in [-1, 1), integers 0 or 1 where no bounds are named."""
    shape: Shape = (*spec.shape[:-2], *reversed(spec.shape[-2:])) if spec.transposed else spec.shape
    if getattr(torch, spec.dtype).is_floating_point:
        value = maker.uniform(shape, spec.dtype, *spec.bounds)
    else:
        low, high = spec.bounds
        value = maker.integers(shape, spec.dtype, int(low), int(high))
    return value.mT if spec.transposed else value
