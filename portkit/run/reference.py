"""The unfused chain of a case in float64, wholly, by rows, or on some rows only.

A float64 copy of a large cell may not fit beside it. What the chain needs is at most
eight bytes for every element that it moves (``work.unfused_bytes``), as if it freed
nothing; where that is too much, a call without memory tells what it holds at once (:mod:`portkit.run.peak`).
The reference is made

1. whole, on the cell's device, where that is at most half of the memory that is free;
2. in slices of rows, for a case that names its ``row_inputs``, where the outputs alone fit;
3. on some rows, spread evenly from the first to the last, where they do not;
4. whole, in the host's memory, for a case without ``row_inputs``.

Gradients are never of some rows only, since those of other inputs than ``row_inputs`` are sums over all
rows: they are made by slices where one row fits, else in the host's memory.

The record says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import torch

from portkit.model import DTYPE_BYTES, Cell, Direction, KernelCase
from portkit.run.calls import Results, Upstream, call, is_floating, upcast
from portkit.run.peak import peak_bytes, without_memory
from portkit.run.tree import map_tensors, named_tensors

Chain = Callable[[Mapping[str, Any], Upstream], Results]
"""A call on inputs with the gradients that come in."""

FreeBytes = Callable[[torch.device], int]
"""Bytes that a device, or the host for ``cpu``, has free."""

_SHARE = 0.5  # of the free memory that a reference may take
CHAIN_SHARE = 0.7  # that the unfused chain may take; PyTorch's allocator holds more than is asked of it
_GIB = 2**30


class ReferenceTooLargeError(Exception):
    """No memory holds the reference."""


@dataclass(frozen=True)
class Reference:
    """Results in float64, and what of the cell's results they stand for."""

    results: Results
    how: str = "whole"
    rows: torch.Tensor | None = None  # indices on the first axis; None: all

    def part_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The elements of a whole result that this reference speaks of."""
        return tensor if self.rows is None else tensor[self.rows]


@dataclass(frozen=True)
class ReferenceMaker:
    """Makes the float64 reference of one cell within the memory that is free."""

    case: KernelCase
    cell: Cell
    free_bytes: FreeBytes

    def make(self, inputs: Mapping[str, Any], upstream: Upstream = ()) -> Reference:
        """The reference for these inputs.

        Raises:
            ReferenceTooLargeError: it fits nowhere.
        """
        device = device_of(inputs)
        needed, budget = self.moved(inputs), int(self.free_bytes(device) * _SHARE)
        if needed > budget:
            needed = min(needed, self.held(inputs, upstream) or needed)
        if needed <= budget:
            return Reference(self._whole(inputs, upstream))
        if self.case.row_inputs and self.cell.direction is Direction.FORWARD:
            return self._by_rows(inputs, needed, budget)
        if self.case.row_inputs and needed <= budget * self._count(inputs):
            step = max(1, self._count(inputs) * budget // (2 * needed))
            return Reference(self._sliced(self._whole, inputs, upstream, step), f"slices of {step} rows")
        return self._on_host(inputs, upstream, needed, device)

    def chain(self, inputs: Mapping[str, Any], upstream: Upstream = ()) -> Results:
        """Results of the unfused chain in the cell's dtype; by slices of rows where it takes most of the memory."""
        room = int(self.free_bytes(device_of(inputs)) * CHAIN_SHARE)
        if not self.case.row_inputs or self.moved(inputs) <= room:
            return unfused(self.case, self.cell, inputs, upstream)
        shapes, gradients = without_memory(inputs), _without_memory(upstream)
        held = peak_bytes(lambda: unfused(self.case, self.cell, shapes, gradients)) or 0
        if held <= room:
            return unfused(self.case, self.cell, inputs, upstream)
        step = max(1, self._count(inputs) * room // (2 * held))
        return self._sliced(partial(unfused, self.case, self.cell), inputs, upstream, step)

    def like(self, other: Reference, inputs: Mapping[str, Any], upstream: Upstream = ()) -> Results:
        """The reference for other inputs, of the same rows."""
        if other.rows is not None:
            return self._whole(_take_rows(inputs, self.case.row_inputs, other.rows), ())
        return self.make(inputs, upstream).results

    def margins(self, reference: Reference, inputs: Mapping[str, Any]) -> dict[int, torch.Tensor]:
        """How far each element of the discrete outputs is from a tie, for the reference's rows."""
        rules = {i: rule.margin for i, rule in self.case.discrete.items() if rule.margin is not None}
        if not rules or self.cell.direction is Direction.BACKWARD:
            return {}
        taken = inputs if reference.rows is None else _take_rows(inputs, self.case.row_inputs, reference.rows)
        wide = {name: _upcast(value, copy=False) for name, value in taken.items()}
        with torch.no_grad():
            return {i: margin(**wide) for i, margin in rules.items()}

    def _whole(self, inputs: Mapping[str, Any], upstream: Upstream) -> Results:
        wide = {name: _upcast(value, copy=name in self.case.in_place) for name, value in inputs.items()}
        return call(self.case.reference, self.case, self.cell, wide, upcast(upstream))

    def held(self, inputs: Mapping[str, Any], upstream: Upstream) -> int | None:
        """Most bytes at once; None where that can't be told without values."""
        shapes, gradients = without_memory(inputs), _without_memory(upstream)
        return peak_bytes(lambda: self._whole(shapes, gradients))

    def moved(self, inputs: Mapping[str, Any]) -> int:
        """All bytes that it moves: never less than it holds at once, and known without calling it."""
        own = sum(int(tensor.numel()) * 8 for _, tensor in named_tensors(inputs))
        try:
            moved = int(self.case.work(self.cell.shape, self.cell.dtype).unfused_bytes)
        except Exception:  # a work model of no use: the inputs, and as much again for each of four operations
            return own * 5
        needed = max(own, moved * 8 // DTYPE_BYTES[self.cell.dtype])
        return needed if self.cell.direction is Direction.FORWARD else 3 * needed

    def _by_rows(self, inputs: Mapping[str, Any], needed: int, budget: int) -> Reference:
        """Slice by slice, as long as the outputs fit; then only as many rows as do."""
        count = self._count(inputs)
        step = max(1, int(count * budget / 2 / needed))  # half for a slice, half for the outputs
        first = self._rows(inputs, torch.arange(min(step, count)))
        size = sum(t.numel() * 8 for _, t in first.named) * count // min(step, count)
        if size > budget // 2:
            rows = torch.linspace(0, count - 1, min(step, count), dtype=torch.float64).round().to(torch.int64)
            return Reference(self._rows(inputs, rows), f"{len(rows)} of {count} rows", rows.to(device_of(inputs)))
        parts = [first, *(self._rows(inputs, r) for r in torch.arange(count).split(step)[1:])]
        return Reference(_joined(parts), f"slices of {step} rows")

    def _count(self, inputs: Mapping[str, Any]) -> int:
        """Rows that there are."""
        return int(named_tensors({name: inputs[name] for name in self.case.row_inputs})[0][1].shape[0])

    def _sliced(self, function: Chain, inputs: Mapping[str, Any], upstream: Upstream, step: int) -> Results:
        """Slice by slice; gradients of inputs that all rows share are sums over the slices."""
        parts = []
        for rows in torch.arange(self._count(inputs), device=device_of(inputs)).split(step):
            incoming = tuple(None if x is None else x[rows] for x in upstream)
            parts.append(function(_take_rows(inputs, self.case.row_inputs, rows), incoming))
        if self.cell.direction is Direction.FORWARD:
            return _joined(parts)
        own = {f"grad {name}" for name in self.case.row_inputs}
        return _joined(parts, own.__contains__)

    def _rows(self, inputs: Mapping[str, Any], rows: torch.Tensor) -> Results:
        return self._whole(_take_rows(inputs, self.case.row_inputs, rows.to(device_of(inputs))), ())

    def _on_host(self, inputs: Mapping[str, Any], upstream: Upstream, needed: int, device: torch.device) -> Reference:
        host = torch.device("cpu")
        if device.type == "cpu" or needed > self.free_bytes(host) * _SHARE:
            raise ReferenceTooLargeError(
                f"a float64 reference takes up to {math.ceil(needed / _GIB)} GiB, and neither device nor host "
                "has twice that free: name the case's row_inputs, so that it can be made by rows"
            )
        results = self._whole(
            map_tensors(torch.Tensor.cpu, dict(inputs)), tuple(None if x is None else x.cpu() for x in upstream)
        )
        tensors = tuple(None if t is None else t.to(device) for t in results.tensors)
        return Reference(Results(results.names, tensors), "whole, made on the host")


def unfused(case: KernelCase, cell: Cell, inputs: Mapping[str, Any], upstream: Upstream = ()) -> Results:
    """Results of the unfused chain in the dtype of the inputs, which stay as they are."""
    own = {name: map_tensors(_own(name in case.in_place), value) for name, value in inputs.items()}
    return call(case.reference, case, cell, own, upstream)


def _own(copied: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.Tensor.clone if copied else lambda tensor: tensor


def free_bytes(device: torch.device) -> int:
    """Memory of a GPU, or of the host, that may be had now; PyTorch's cached blocks count as free."""
    if device.type != "cuda":
        return int(psutil.virtual_memory().available)
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def device_of(inputs: Mapping[str, Any]) -> torch.device:
    """Where the first tensor of the inputs lives."""
    return next((tensor.device for _, tensor in named_tensors(inputs)), torch.device("cpu"))


def _without_memory(upstream: Upstream) -> Upstream:
    return tuple(None if x is None else x.to("meta") for x in upstream)


def _take_rows(inputs: Mapping[str, Any], names: Sequence[str], rows: torch.Tensor) -> dict[str, Any]:
    return {
        name: map_tensors(lambda tensor: tensor[rows], value) if name in names else value
        for name, value in inputs.items()
    }


def _joined(parts: Sequence[Results], by_row: Callable[[str], bool] = lambda name: True) -> Results:
    """Results of all slices, one behind the other; those that are not by row are added, and rounded once."""
    names = parts[0].names
    columns = [[t for t in column if t is not None] for column in zip(*(part.tensors for part in parts), strict=True)]
    joined = [
        (torch.cat(column) if by_row(name) else _sum(column)) if column else None
        for name, column in zip(names, columns, strict=True)
    ]
    return Results(names, tuple(joined))


def _sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum in float64, in the dtype of the parts: each was rounded once, and how many there are adds nothing."""
    total = parts[0].to(_wide(parts[0]), copy=True)
    for part in parts[1:]:
        total += part
    return total.to(parts[0].dtype)


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """The dtype of a reference for a tensor of another."""
    return torch.complex128 if tensor.is_complex() else torch.float64 if is_floating(tensor) else tensor.dtype


def _upcast(value: Any, *, copy: bool) -> Any:
    return map_tensors(lambda tensor: tensor.to(_wide(tensor), copy=copy), value)
