"""Inputs with the same bits on every host and device, and hashes of tensors.

``torch.randn`` differs between instruction sets of one CPU, so inputs are made of
integers. Element *i* of stream *s* under seed *k* is a 64-bit word,

    word = mix64(start(k, s) + i · 0x9E3779B97F4A7C15)  (mod 2^64)

with SplitMix64's output function ``mix64`` (Steele, Lea, Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014). It depends on the element's index alone:
not on chunks, threads or the device. 64-bit integer product and sum wrap alike on
every device PyTorch has, which the tests hold against Python's own integers. A
uniform value is ``low + (high - low) · k / 2^24`` of the upper 24 bits *k*, each step
one correctly rounded float64 operation in a kernel of its own, so that nothing is
contracted, and then rounded to float32 and on to the dtype, to nearest even.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import math
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from portkit.model import digest
from portkit.run.tree import named_leaves

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_CPU_CHUNK = 1 << 18  # elements: temporaries of 2 MiB stay in a core's cache
_DEVICE_CHUNK = 1 << 24  # elements: temporaries of 128 MiB, whatever the tensor's size
_UNIFORM_BITS = 24  # float32 holds k / 2^24 exactly
_PLAIN = (numbers.Number, str, bytes, type(None), torch.dtype, torch.device, torch.layout)
"""What says by its text all that it is."""


class InputsTooLargeError(Exception):
    """The inputs take more memory than they may."""


class InputMaker:
    """Makes the inputs of one call; each tensor is a stream of its own.

    Args:
        seed: any integer; with the order of calls it decides every bit.
        device: PyTorch's name; on ``meta`` tensors are allocated and not filled.
        most_bytes: of all tensors together; None for no limit.
    """

    def __init__(self, seed: int = 0, device: str = "cpu", most_bytes: int | None = None) -> None:
        self.seed = seed
        self.device = device
        self.most_bytes = most_bytes
        self.made_bytes = 0
        self._streams = 0

    def uniform(self, shape: tuple[int, ...], dtype: str, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        """Values in [low, high), 2^24 equally spaced ones before rounding to the dtype.

        Rounding to a 16-bit dtype may give ``high`` itself.
        """
        out = self._allocate(shape, dtype)
        for part, words in self._words(out):
            unit = _shift_right(words, 64 - _UNIFORM_BITS).to(torch.float64).mul_(2.0**-_UNIFORM_BITS)
            value = unit.mul_(high - low).add_(low)
            # PyTorch's way from float64 to a narrow dtype is not documented: go by float32.
            part.copy_(value if out.dtype is torch.float64 else value.to(torch.float32))
        return out

    def integers(self, shape: tuple[int, ...], dtype: str, low: int, high: int) -> torch.Tensor:
        """Integers in [low, high), in any dtype that holds them.

        Raises:
            ValueError: the range is empty or wider than 2^31.
        """
        if not 0 < high - low <= 1 << 31:
            raise ValueError(f"integers in [{low}, {high}): the range must hold 1 to 2^31 values")
        out = self._allocate(shape, dtype)
        for part, words in self._words(out):
            # 31 bits times the span, over 2^31: bias under span / 2^31, no rejection loop.
            part.copy_(((words >> 33).bitwise_and_((1 << 31) - 1) * (high - low) >> 31).add_(low))
        return out

    def full(self, shape: tuple[int, ...], dtype: str, value: float) -> torch.Tensor:
        """One value throughout."""
        return self._allocate(shape, dtype).fill_(value)

    def _allocate(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        kind = getattr(torch, dtype)
        self.made_bytes += math.prod(shape) * kind.itemsize
        if self.most_bytes is not None and self.made_bytes > self.most_bytes:
            raise InputsTooLargeError(f"inputs of more than {self.most_bytes >> 20} MiB")
        return torch.empty(tuple(shape), dtype=kind, device=self.device)

    def _words(self, out: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Views of ``out`` chunk by chunk, each with its 64-bit words."""
        start = _stream_start(self.seed, self._streams)
        self._streams += 1
        if torch.device(self.device).type == "meta":  # not out.is_meta: under capture tensors claim a GPU
            return
        flat = out.view(-1)
        for first, last in _chunks(flat.numel(), flat.device):
            index = torch.arange(first, last, dtype=torch.int64, device=flat.device)
            yield flat[first:last], _mix64(index.mul_(_signed(_GOLDEN)).add_(_signed(start)))


def hash_tensors(tensors: Mapping[str, Any]) -> str:
    """Hash of places, dtypes, shapes and bits of tensors, also of those in lists, tuples and dicts.

    Numbers and the like enter by their text, functions and types by their name.

    Each tensor's bytes are read as little-endian 64-bit words *w_i*, the last one filled
    up with zeros, and summed as ``mix64(w_i + (i + 1) · golden)`` mod 2^64. The sum is
    exact in any order, so every device gives the same hash; position and value both
    enter the mix, so a swap of two elements shows. It runs on the tensor's device at
    memory speed, with temporaries of at most four chunks. Not cryptographic: it finds
    accidents, not attacks.

    Raises:
        TypeError: one is an object of another kind, whose text need not say what it is.
    """
    leaves = sorted(named_leaves(tensors), key=lambda leaf: leaf[0])
    return digest([[place, *_described(place, value)] for place, value in leaves])


def _described(place: str, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), list(value.shape), f"{_sum_of_words(value):016x}"]
    if isinstance(value, functools.partial):
        bound = [*enumerate(value.args), *sorted(value.keywords.items())]
        return [_described(place, value.func), [[key, *_described(place, each)] for key, each in bound]]
    if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
        return [repr(value)]
    if isinstance(value, enum.Enum):
        return [f"{type(value).__qualname__}.{value.name}"]
    if hasattr(value, "__qualname__"):  # a function, a method, a type: their text has an address
        return [f"{value.__module__}.{value.__qualname__}"]
    raise TypeError(
        f"input {place} is a {type(value).__name__}: an input is a tensor, a number, text, a function, "
        "or a list, tuple or dict of these"
    )


def _sum_of_words(tensor: torch.Tensor) -> int:
    words = _as_words(tensor.detach())
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for first, last in _chunks(words.numel(), words.device):
        index = torch.arange(first + 1, last + 1, dtype=torch.int64, device=words.device)
        total += _mix64(index.mul_(_signed(_GOLDEN)).add_(words[first:last])).sum()
    return int(total.item()) % (1 << 64)


def _as_words(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes as int64, zero-filled to whole words."""
    flat = tensor.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
    short = -flat.numel() % 8
    if short or flat.storage_offset() % 8:
        flat = torch.cat([flat, flat.new_zeros(short)])
    return flat.view(torch.int64)


def _chunks(count: int, device: torch.device) -> Iterator[tuple[int, int]]:
    step = _CPU_CHUNK if device.type == "cpu" else _DEVICE_CHUNK
    return ((first, min(first + step, count)) for first in range(0, count, step))


def _stream_start(seed: int, stream: int) -> int:
    text = f"portkit inputs 1: seed {seed}, stream {stream}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _mix64(z: torch.Tensor) -> torch.Tensor:
    """SplitMix64's output function, in place."""
    z ^= _shift_right(z, 30)
    z *= _signed(_MIX_1)
    z ^= _shift_right(z, 27)
    z *= _signed(_MIX_2)
    z ^= _shift_right(z, 31)
    return z


def _shift_right(z: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift: PyTorch's ``>>`` drags the sign in."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    """The int64 of the same bits."""
    return word - (1 << 64) if word >= 1 << 63 else word
