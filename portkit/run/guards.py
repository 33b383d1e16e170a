"""Memory that shows who wrote where: poisoned when fresh, with guard bands around it.

While :class:`Guards` is open, every tensor that the code inside allocates lies between
two bands of :data:`BAND` bytes, and what ``empty`` and its kin return is filled with a word
of :data:`POISON`: a NaN in every floating dtype of 16 bits and more. So an element that
was never written shows, a read beyond a tensor poisons the result, and a write beyond it
changes a band, which :meth:`Guards.faults` names with its distance in bytes. Allocations
take turns with the words, so that a kernel which copies one band into another shows too.

Inputs are copied into such memory too (:meth:`Guards.copy`), holes between strided rows
included, so that writes to them show.

Addresses keep the alignment that the device's allocator gives (bands are multiples of
512 bytes), so that Triton specialises a kernel as it does without guards. One thing
differs: on AMD it looks at the size of the whole allocation, bands included, to see
whether 32-bit offsets reach it; a tensor within 128 KiB of 2 GiB may be built
differently here.

A write further away than a band is not seen here, but may fault; compute-sanitizer
(:mod:`portkit.run.sanitize`) sees both.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

Flags: TypeAlias = NDArray[np.bool_]

BAND = 1 << 16
"""Bytes of each band; a multiple of 512, the alignment of CUDA's and HIP's allocators."""

POISON = range(0xFFF1, 0xFFFE)
"""Little-endian 16-bit words, one of which fills an allocation and its bands."""

_FRESH = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
"""What returns memory as it finds it."""

_FILLED = frozenset(
    getattr(torch.ops.aten, name)
    for name in (
        *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
        *("full", "full_like", "new_full", "clone", "_to_copy"),
    )
)
"""What returns fresh memory with values."""


@dataclass
class _Allocation:
    name: str  # of an input; otherwise dtype and shape
    buffer: torch.Tensor  # bytes, bands included
    size: int  # bytes between the bands
    word: int  # of the poison
    fresh: bool = False  # from ``empty`` and its kin, and not wholly written to yet
    written: Flags | None = None  # of fresh memory, by byte; None: none that is known

    def written_flags(self) -> Flags:
        """Which bytes are known to be written; not a copy."""
        if self.written is None:
            self.written = np.zeros(self.size, np.bool_)
        return self.written

    def bands(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Bytes before and after."""
        return self.buffer[:BAND], self.buffer[BAND + self.size : 2 * BAND + self.size]


class Guards(TorchDispatchMode):
    """Puts bands around all tensors allocated while it is open, and keeps them alive."""

    def __init__(self) -> None:
        super().__init__()
        self._allocations: list[_Allocation] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch would import torch._dynamo for it: a second in every worker.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation; what it allocated moves between bands."""
        out = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            _note_writes(func, args, kwargs or {})
        packet = func.overloadpacket
        if (packet not in _FRESH and packet not in _FILLED) or not _movable(out):
            return out
        moved = self._allocate(_extent(out), out, fresh=packet in _FRESH)
        if packet in _FILLED:
            moved.copy_(out)
        return moved

    def copy(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A copy between bands, of the same strides, with what lies between strided rows."""
        if not _movable(tensor):
            return tensor.clone()
        tensor = _resolved(tensor)
        copied = self._allocate(_extent(tensor), tensor, name)
        _flat(copied).copy_(_flat(tensor))
        return copied

    def faults(self, outputs: Sequence[tuple[str, torch.Tensor]] = ()) -> list[str]:
        """Every changed band, in words: whose it is, and where.

        Args:
            outputs: names and tensors, so that a fault beside one is called by its name.
        """
        names = {tensor.untyped_storage().data_ptr(): name for name, tensor in outputs}
        changed = _changed([(band, each.word) for each in self._allocations for band in each.bands()])
        return [
            _describe(allocation, side, names)
            for allocation, sides in zip(self._allocations, zip(changed[::2], changed[1::2], strict=True), strict=True)
            for side, hit in enumerate(sides)
            if hit
        ]

    def _allocate(self, elements: int, like: torch.Tensor, name: str = "", *, fresh: bool = False) -> torch.Tensor:
        """Poisoned memory for ``elements``, as a tensor of the size and strides of ``like``."""
        size = elements * like.element_size()
        total = 2 * BAND + size + size % 2
        word = POISON[len(self._allocations) % len(POISON)]
        buffer = torch.full((total // 2,), word - (1 << 16), dtype=torch.int16, device=like.device).view(torch.uint8)
        tensor = torch.empty(0, dtype=like.dtype, device=like.device)
        tensor.set_(buffer.untyped_storage(), BAND // like.element_size(), like.size(), like.stride())
        text = name or f"{str(like.dtype).removeprefix('torch.')} tensor of shape {tuple(like.shape)}"
        self._allocations.append(_Allocation(text, buffer, size, word, fresh))
        _LIVE[buffer.untyped_storage().data_ptr()] = self._allocations[-1]
        return tensor


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Bytes of a tensor's storage that are its allocation's own, from and to: without bands where it has any."""
    storage = tensor.untyped_storage()
    allocation = _LIVE.get(storage.data_ptr())
    return (BAND, BAND + allocation.size) if allocation else (0, storage.nbytes())


def written_bytes(tensor: torch.Tensor) -> Flags | None:
    """Which bytes of a tensor's :func:`extent` somebody has written to; None where all are. On the CPU only.

    Memory from ``empty`` and its kin begins unwritten. PyTorch's writes show, as operations or as poison that is
    gone; those of an emulated kernel its launch marks in the array that this returns.
    """
    allocation = _LIVE.get(tensor.untyped_storage().data_ptr())
    if allocation is None or not allocation.fresh:
        return None
    words = allocation.buffer[BAND : BAND + allocation.size + allocation.size % 2].numpy().view("<u2")
    flags = allocation.written_flags()
    flags |= np.repeat(words != allocation.word, 2)[: allocation.size]
    allocation.fresh = not flags.all()
    return flags if allocation.fresh else None


def _note_writes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Of an operation that has written to some of its arguments, single tensors or lists."""
    arguments = func._schema.arguments
    given = {**{each.name: value for each, value in zip(arguments, args, strict=False)}, **kwargs}
    written = (given.get(each.name) for each in arguments if each.is_write)
    for value in written:
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if isinstance(tensor, torch.Tensor) and tensor.numel() and tensor.layout is torch.strided:
                _note_write(tensor)


def _note_write(tensor: torch.Tensor) -> None:
    """An operation of PyTorch wrote to a tensor; what lies between its strided rows counts as written too."""
    allocation = _LIVE.get(tensor.untyped_storage().data_ptr())
    if allocation is not None and allocation.fresh:
        start = tensor.storage_offset() * tensor.element_size() - BAND
        allocation.written_flags()[start : start + _extent(tensor) * tensor.element_size()] = True


_LIVE: weakref.WeakValueDictionary[int, _Allocation] = weakref.WeakValueDictionary()
"""Allocations between bands by the address of their memory, as long as their guards live."""


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and stride hold the same bits, holes included."""
    return all(bool(torch.equal(a, b)) for a, b in zip(_pieces(one), _pieces(other), strict=True))


def unwritten(tensor: torch.Tensor) -> int:
    """Elements of an output that still hold the poison.

    Only for dtypes of 16 bits and more: in narrower ones the poison is a value like others.
    """
    if tensor.element_size() < 2 or tensor.numel() == 0:
        return 0
    words = tensor.contiguous().view(-1).view(torch.int16).view(tensor.numel(), -1)
    first, last = POISON[0] - (1 << 16), POISON[-1] - (1 << 16)
    poisoned = (words[:, 0] >= first) & (words[:, 0] <= last) & (words == words[:, :1]).all(dim=1)
    return int(poisoned.sum())


def _movable(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and value.device.type in ("cpu", "cuda")
        and value.numel() > 0
        and not value.is_pinned()
        and all(stride >= 0 for stride in value.stride())
    )


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first to the last, those between strided rows included."""
    return 1 + sum((int(size) - 1) * int(step) for size, step in zip(tensor.size(), tensor.stride(), strict=True))


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """With its values in memory, where a flag of PyTorch says that they are to be conjugated or negated."""
    return tensor.detach().resolve_conj().resolve_neg()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    resolved = _resolved(tensor)
    return resolved.as_strided((_extent(resolved),), (1,))


def _pieces(tensor: torch.Tensor, step: int = 1 << 26) -> Iterator[torch.Tensor]:
    """Its bytes, a piece at a time."""
    if tensor.numel() == 0:
        return
    flat = _flat(tensor).view(torch.uint8)
    for first in range(0, flat.numel(), step):
        yield flat[first : first + step]


def _changed(bands: Sequence[tuple[torch.Tensor, int]]) -> list[bool]:
    """For each band whether it was written to; one wait for the device."""
    if not bands:
        return []
    marks = [
        (band.view(torch.int16) != word - (1 << 16)).any() if _aligned(band) else _differs(band, word).any()
        for band, word in bands
    ]
    return [bool(mark) for mark in torch.stack([mark.to(marks[0].device) for mark in marks]).tolist()]


def _aligned(band: torch.Tensor) -> bool:
    return bool(band.storage_offset() % 2 == 0 and band.numel() % 2 == 0)


def _differs(band: torch.Tensor, word: int) -> torch.Tensor:
    """Bytes that differ, in a band that may begin within a word."""
    first = band.storage_offset() % 2
    pattern = torch.tensor([word & 0xFF, word >> 8], dtype=torch.uint8, device=band.device)
    return band != pattern.repeat(band.numel() // 2 + 2)[first : first + band.numel()]


def _describe(allocation: _Allocation, side: int, names: Mapping[int, str]) -> str:
    band = allocation.bands()[side]
    where = _differs(band, allocation.word).nonzero().flatten()
    first, count = int(where[0]), int(where.numel())
    whose = names.get(allocation.buffer.untyped_storage().data_ptr(), allocation.name)
    if side == 0:
        return f"{whose}: written before its start, from byte {first - BAND} ({count} bytes changed)"
    end = allocation.size
    return f"{whose}: written after its end, from byte {end + first} of {end} ({count} bytes changed)"
