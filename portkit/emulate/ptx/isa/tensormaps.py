"""Tensor maps that a kernel makes itself: tensormap.replace, tensormap.cp_fenceproxy.

Source: PTX ISA, "Data Movement and Conversion Instructions": tensormap.replace, "Parallel Synchronization and
Communication Instructions": tensormap.cp_fenceproxy. Where the fields lie is ``ptx/tensormap.py``.
"""

from __future__ import annotations

import numpy as np

from portkit.emulate.core.bytestore import Offsets
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.proxies import WrittenMaps
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LANES, Machine, Threads
from portkit.emulate.ptx.program import Immediate, Space
from portkit.emulate.ptx.tensormap import FIELDS, RANKS, SIZE
from portkit.emulate.ptx.types import Type

_CHUNK = 16


def _replace(decoder: Decoder) -> Step:
    """One field; of those of several dimensions the second operand says which."""
    space = Space.GLOBAL if decoder.has("global") else Space.SHARED
    decoder.ignore("tile", "shared", "shared::cta", "b1024")
    start, size = FIELDS[decoder.required(*FIELDS)]
    decoder.need(2, 3)
    if len(decoder.operands) == 3:
        start += size * _ordinal(decoder)
    kind = Type.B64 if size == 8 else Type.B32
    if decoder.kind is not kind:
        raise decoder.unsupported(f"a field of {size} bytes by .{decoder.kind.suffix}")
    address, value, site = decoder.address(decoder.operands[0]), decoder.read(decoder.operands[-1], kind), decoder.site

    def step(machine: Machine) -> None:
        words = np.ascontiguousarray(machine.spread(value(machine))).view(np.uint32).reshape(-1, size // 4)
        machine.store(site, space, machine.spread(address(machine)) + start, size, words)

    return step


def _ordinal(decoder: Decoder) -> int:
    operand = decoder.operands[1]
    if not isinstance(operand, Immediate) or int(operand.text, 0) >= RANKS:
        raise decoder.unsupported("a dimension that is no constant below 5")
    return int(operand.text, 0)


def _copy(decoder: Decoder) -> Step:
    """tensormap.cp_fenceproxy: a map from shared to global memory, by a whole warp."""
    decoder.need(3)
    decoder.ignore("global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys")
    decoder.ignore("sync", "aligned")
    target, source = decoder.address(decoder.operands[0]), decoder.address(decoder.operands[1])
    site = decoder.site

    def step(machine: Machine) -> None:
        first = machine.selected[::LANES]
        to, at = machine.spread(target(machine))[::LANES], machine.spread(source(machine))[::LANES]
        threads: Threads = np.repeat(first, SIZE // _CHUNK)
        words = machine.load(site, Space.SHARED, _chunks(at), _CHUNK, threads)
        machine.store(site, Space.GLOBAL, _chunks(to), _CHUNK, words, threads)
        for group, address in zip(machine.group[first], to, strict=True):
            machine.unit(WrittenMaps).wrote(int(group), int(address))

    return step


def _chunks(maps: Offsets) -> Offsets:
    """Addresses of the chunks of maps, one map behind the other."""
    return (maps[:, None] + np.arange(0, SIZE, _CHUNK)).reshape(-1)


TABLE: dict[str, tuple[Entry, ...]] = {
    "tensormap.replace": (Entry(_replace, "Data Movement and Conversion Instructions: tensormap.replace", since=90),),
    "tensormap.cp_fenceproxy": (
        Entry(
            _copy,
            "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy",
            since=90,
            collective=True,
        ),
    ),
}
