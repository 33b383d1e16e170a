"""What one eager call of a model does: operations, bytes they must move, floating-point operations.

Counted where PyTorch dispatches an operation: each reads its tensors and writes its results, once.
What works on no tensor counts for nothing. Views move nothing; a lookup reads what it returns and
not the whole table; what a copy overwrites is not read. A kernel that a library launches beside the
dispatcher is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from portkit.run.toggle.subjects import told

_LOOKUPS: Final = frozenset({"aten::embedding", "aten::index", "aten::index_select", "aten::gather"})
_VIEWS: Final = frozenset({"aten::_unsafe_view"})
"""Views that their schema does not tell as such."""

_OVERWRITE: Final = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
"""They write their first argument and do not read it."""

_ALLOCATE: Final = frozenset({"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty"})


Shape = Sequence[int]

_ATTENTION: Final = tuple(
    operation
    for kind in ("efficient_attention", "flash_attention", "flash_attention_for_cpu", "cudnn_attention")
    if (operation := getattr(torch.ops.aten, f"_scaled_dot_product_{kind}", None)) is not None
)


@dataclass
class Counts:
    """Of one call."""

    operations: int = 0
    moved_bytes: int = 0
    flops: int | None = 0
    why: str = ""  # there are no flops


def count(call: Callable[[], object]) -> Counts:
    """Call a model once and count, and once more for floating-point operations."""
    moved = _Moved()
    with torch.no_grad(), moved:
        call()
    try:
        flops, why = _flops(call), ""
    except Exception as error:  # PyTorch's formulas refuse shapes that its operations take
        flops, why = None, f"floating-point operations could not be counted: {told(error)}"
    return Counts(moved.counts.operations, moved.counts.moved_bytes, flops, why)


def _flops(call: Callable[[], object]) -> int:
    counter = FlopCounterMode(display=False, custom_mapping=dict.fromkeys(_ATTENTION, attention_flops))
    with torch.no_grad(), counter:
        call()
    return int(counter.get_total_flops())


def attention_flops(query: Shape, key: Shape, value: Shape, *_: object, **__: object) -> int:
    """Of attention over all keys, whose heads may serve several of the query's; PyTorch's own formula asks for as many.

    Args:
        query: shape, batch × heads × rows × dim.
        key: shape, batch × heads of keys × columns × dim.
        value: shape, batch × heads of keys × columns × dim of values.
    """
    batch, heads, rows, dim = query
    return 2 * batch * heads * rows * key[2] * (dim + value[3])


class _Moved(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name not in _ALLOCATE | _VIEWS and not _is_view(func) and _tensors((args, kwargs, made)):
            self.counts.operations += 1
            read = args[1:] if name in _OVERWRITE else args
            self.counts.moved_bytes += _moved(name, (read, _without_out(kwargs)), made)
        return made


def _is_view(func: Any) -> bool:
    """Whether its results only look at what is there already."""
    aliases = [each.alias_info for each in func._schema.returns]
    return bool(aliases) and all(each is not None and not each.is_write for each in aliases)


def _without_out(named: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Arguments by name but for what results are written to."""
    return {name: value for name, value in (named or {}).items() if name != "out"}


def _moved(name: str, given: object, made: object) -> int:
    written = _bytes(made)
    if name in _LOOKUPS:
        return 2 * written
    return written + _bytes(given)


def _bytes(values: object) -> int:
    """Bytes of tensors; of one that repeats a smaller memory, that memory's."""
    return sum(min(each.nbytes, each.untyped_storage().nbytes()) for each in _tensors(values))


def _tensors(values: object) -> list[torch.Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]
