"""Special registers.

Source: PTX ISA, "Special Registers". Blocks have one dimension, and no cluster has more than one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from portkit.emulate.ptx.machine import LANES, Array, Machine

Special: TypeAlias = Callable[[Machine], Array]

_CYCLES_A_STEP = 16
"""By which clocks advance from one read to the next: time is not modelled, but code may wait for it to pass."""


def _constant(value: int) -> Special:
    fixed = np.asarray(value, np.uint32)
    return lambda machine: fixed


def _thread(machine: Machine) -> Array:
    return (machine.selected % machine.per_group).astype(np.uint32)


def _lane(machine: Machine) -> Array:
    return (machine.selected % LANES).astype(np.uint32)


def _group(axis: int) -> Special:
    def read(machine: Machine) -> Array:
        ids = np.array([group[axis] for group in machine.groups], np.uint32)
        return ids[machine.group[machine.select]]

    return read


def _grid(axis: int) -> Special:
    return lambda machine: np.asarray(machine.grid[axis], np.uint32)


def _lane_mask(of: Callable[[Any], Any]) -> Special:
    masks = np.array([of(np.uint64(1) << np.uint64(lane)) & np.uint64(0xFFFF_FFFF) for lane in range(LANES)], np.uint32)
    return lambda machine: masks[machine.selected % LANES]


class _Clock:
    """Steps so far."""

    def __init__(self, machine: Machine) -> None:
        self.now = 0

    def read(self) -> Array:
        self.now += _CYCLES_A_STEP
        return np.asarray(self.now, np.uint64)


def _clock(machine: Machine) -> Array:
    return machine.unit(_Clock).read()


_ONE = np.uint64(1)

SPECIAL: dict[str, Special] = {
    "tid": _thread,
    "tid.x": _thread,
    "tid.y": _constant(0),
    "tid.z": _constant(0),
    "ntid.x": lambda machine: np.asarray(machine.per_group, np.uint32),
    "ntid.y": _constant(1),
    "ntid.z": _constant(1),
    "laneid": _lane,
    "warpid": lambda machine: (machine.selected % machine.per_group // LANES).astype(np.uint32),
    "nwarpid": lambda machine: np.asarray(machine.per_group // LANES, np.uint32),
    "ctaid.x": _group(0),
    "ctaid.y": _group(1),
    "ctaid.z": _group(2),
    "nctaid.x": _grid(0),
    "nctaid.y": _grid(1),
    "nctaid.z": _grid(2),
    "clusterid.x": _group(0),
    "clusterid.y": _group(1),
    "clusterid.z": _group(2),
    "nclusterid.x": _grid(0),
    "nclusterid.y": _grid(1),
    "nclusterid.z": _grid(2),
    "cluster_ctaid.x": _constant(0),
    "cluster_ctaid.y": _constant(0),
    "cluster_ctaid.z": _constant(0),
    "cluster_nctaid.x": _constant(1),
    "cluster_nctaid.y": _constant(1),
    "cluster_nctaid.z": _constant(1),
    "cluster_ctarank": _constant(0),
    "cluster_nctarank": _constant(1),
    "is_explicit_cluster": _constant(0),
    "smid": _constant(0),
    "nsmid": _constant(1),
    "gridid": _constant(1),
    "lanemask_eq": _lane_mask(lambda bit: bit),
    "lanemask_lt": _lane_mask(lambda bit: bit - _ONE),
    "lanemask_le": _lane_mask(lambda bit: (bit << _ONE) - _ONE),
    "lanemask_gt": _lane_mask(lambda bit: ~((bit << _ONE) - _ONE)),
    "lanemask_ge": _lane_mask(lambda bit: ~(bit - _ONE)),
    "clock": _clock,
    "clock_hi": _constant(0),
    "clock64": _clock,
    "globaltimer": _clock,
    "globaltimer_lo": _clock,
    "dynamic_smem_size": lambda machine: np.asarray(machine.shared.size - machine.program.shared_bytes, np.uint32),
    "total_smem_size": lambda machine: np.asarray(machine.shared.size, np.uint32),
}
"""Name without the percent sign → its value for the selected threads, or one for all."""
