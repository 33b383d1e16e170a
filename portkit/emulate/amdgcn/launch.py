"""Launches one kernel: its arguments, the state that waves begin with, and chunks of workgroups.

Source: LLVM, AMDGPU usage: "Kernel Argument Segment" in the metadata, "Initial Kernel Execution State",
"Preloaded Kernel Arguments"; RDNA4's workgroup ids in trap temporaries from the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn import hostcalls
from portkit.emulate.amdgcn.check import Check, Judged, judge
from portkit.emulate.amdgcn.execute import Code, Runner, build
from portkit.emulate.amdgcn.hostcalls import HostCalls, calls_host
from portkit.emulate.amdgcn.machine import Machine, Service
from portkit.emulate.amdgcn.operands import TTMP, Type
from portkit.emulate.amdgcn.parse import parse
from portkit.emulate.amdgcn.program import Argument, Program
from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import Unloadable, Unsupported, readable
from portkit.emulate.core.launch import (
    Buffers,
    Descriptor,
    Emulation,
    Grid,
    Options,
    Pointer,
    Value,
    number_bytes,
    one_each,
)
from portkit.emulate.core.memory import Contents
from portkit.emulate.core.running import KernelLaunch, emulate
from portkit.emulate.core.schedule import Schedule

_CONSTANTS, _ARGUMENTS, _HOST = "constants", "kernel arguments", "calls to the host"
"""What the runtime keeps in memory, before the caller's buffers."""


@functools.lru_cache(maxsize=64)
def load(text: str) -> Code:
    """The code of an assembly text; kept, since a kernel is launched often."""
    with readable():
        program = parse(text)
        _check_modes(program)
        return build(program)


@functools.lru_cache(maxsize=64)
def judged(text: str) -> Judged:
    """What is wrong with the code of a text whatever the data; kept as the code is."""
    code = load(text)
    with readable():
        return judge(code)


def _check_modes(program: Program) -> None:
    """Refuse floating-point modes that the arithmetic does not model."""
    for name, allowed in (
        ("float_round_mode_32", (0,)),
        ("float_round_mode_16_64", (0,)),
        ("float_denorm_mode_32", (0, 3)),
        ("float_denorm_mode_16_64", (3,)),
    ):
        value = program.directive(name, allowed[-1])
        if value not in allowed:
            raise Unsupported(f".amdhsa_{name} {value}")


def pack_arguments(program: Program, values: Sequence[Value], hidden: Mapping[str, int], buffers: Buffers) -> Bytes:
    """The kernarg segment.

    Args:
        program: the kernel.
        values: of the explicit arguments.
        hidden: of those that the runtime fills in, by kind.
        buffers: where pointer arguments lie.
    """
    segment: Bytes = np.zeros(max(16, program.kernarg_bytes), np.uint8)
    parts = [(item, _argument_bytes(item, values[n], n, buffers)) for n, item in enumerate(program.explicit)]
    parts += [(item, _hidden_bytes(item, hidden)) for item in program.arguments if item.hidden]
    for argument, raw in parts:
        if argument.size != len(raw) or not 0 <= argument.offset <= len(segment) - len(raw):
            raise Unloadable(f"{argument.name} has {argument.size} bytes at {argument.offset} in the metadata")
        segment[argument.offset : argument.offset + argument.size] = np.frombuffer(raw, np.uint8)
    return segment


def hidden_values(grid: Sequence[int], threads: int, shared_bytes: int) -> dict[str, int]:
    """What the runtime passes for itself: the grid in workgroups, the workgroup in threads."""
    values = {f"hidden_block_count_{axis}": size for axis, size in zip("xyz", (*grid, 1, 1), strict=False)}
    values |= {f"hidden_group_size_{axis}": size for axis, size in zip("xyz", (threads, 1, 1), strict=True)}
    values |= {f"hidden_{name}_{axis}": 0 for name in ("remainder", "global_offset") for axis in "xyz"}
    dimensions = max(axis for axis, size in enumerate((1, *grid)) if size > 1 or axis <= 1)
    return values | {"hidden_grid_dims": dimensions, "hidden_dynamic_lds_size": shared_bytes, "hidden_none": 0}


def _hidden_bytes(argument: Argument, hidden: Mapping[str, int]) -> bytes:
    """Zeros for services of the host, which no kernel gets to read."""
    return hidden.get(argument.kind, 0).to_bytes(argument.size, "little")


def host_services(program: Program, hidden: Mapping[str, int], start: int) -> list[Service]:
    """Arguments that only a host can give. Compilers list them where they can't rule out a use.

    Args:
        program: the kernel.
        hidden: those that there are, by kind.
        start: of the kernarg segment, an offset into the arena.
    """
    missing = (item for item in program.arguments if item.hidden and item.kind not in hidden)
    return [Service(item.kind, start + item.offset, start + item.offset + item.size) for item in missing]


def _argument_bytes(argument: Argument, value: Value, number: int, buffers: Buffers) -> bytes:
    if isinstance(value, np.ndarray | Pointer):
        if not argument.pointer:
            raise Unloadable(f"{argument.name} takes a number, not a buffer")
        return buffers.address(number).to_bytes(8, "little")
    if isinstance(value, Descriptor):
        raise Unloadable(f"{argument.name} takes no descriptor of a tensor")
    if isinstance(value, float) and argument.pointer:
        raise Unloadable(f"{argument.name} of {argument.size} bytes takes no float")
    return number_bytes(argument, value)


def _named(program: Program, values: Sequence[Value]) -> list[tuple[str, Value]]:
    return [(argument.name, value) for argument, value in zip(program.explicit, values, strict=True)]


# -- initial state


def set_up(machine: Machine, kernarg: Bytes, kernarg_address: int, preloaded: bool = True) -> None:
    """Registers as the hardware fills them before the first instruction."""
    program = machine.program
    first = _user_registers(machine, kernarg, kernarg_address, preloaded)
    ids = np.array(machine.groups, np.uint32)[machine.group]
    _workgroup_ids(machine, max(first, program.directive("user_sgpr_count")), ids)
    thread: NDArray[np.uint32] = np.arange(machine.waves_per_group * machine.lanes, dtype=np.uint32)
    machine.vector[Type.U32][0].reshape(len(machine.groups), -1)[...] = thread


_USER_REGISTERS = (
    ("user_sgpr_private_segment_buffer", 4),
    ("user_sgpr_dispatch_ptr", 2),
    ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2),
    ("user_sgpr_dispatch_id", 2),
    ("user_sgpr_flat_scratch_init", 2),
    ("user_sgpr_private_segment_size", 1),
)
"""Directive → scalar registers, in the order of the hardware."""


def _user_registers(machine: Machine, kernarg: Bytes, address: int, preloaded: bool) -> int:
    """Fill user registers; the number of the first one behind them."""
    place = 0
    for name, count in _USER_REGISTERS:
        if not machine.program.directive(name):
            continue
        if name == "user_sgpr_kernarg_segment_ptr":
            machine.write_scalar(place, np.uint32(address & 0xFFFF_FFFF))
            machine.write_scalar(place + 1, np.uint32(address >> 32))
        place += count
    length = machine.program.directive("user_sgpr_kernarg_preload_length")
    if preloaded and length:
        _preload(machine, place, kernarg, length)
    return place + length


def _preload(machine: Machine, place: int, kernarg: Bytes, length: int) -> None:
    """Words of the kernarg segment in registers behind the others."""
    offset = machine.program.directive("user_sgpr_kernarg_preload_offset")
    words = np.frombuffer(bytes(kernarg) + bytes(-len(kernarg) % 4), np.uint32)
    for number, word in enumerate(words[offset : offset + length]):
        machine.write_scalar(place + number, word)


def _workgroup_ids(machine: Machine, place: int, ids: NDArray[np.uint32]) -> None:
    """In scalar registers behind the user's, or in trap temporaries."""
    x, y, z = (ids[:, axis : axis + 1] for axis in range(3))
    if machine.program.architecture.ids_in_ttmp:
        wave: NDArray[np.uint32] = (np.arange(machine.waves, dtype=np.uint32) % machine.waves_per_group)[:, None]
        machine.write_scalar(TTMP + 9, x)
        machine.write_scalar(TTMP + 7, (y & np.uint32(0xFFFF)) | (z << np.uint32(16)))
        machine.write_scalar(TTMP + 8, wave << np.uint32(25))
        return
    for name, value, default in (("x", x, 1), ("y", y, 0), ("z", z, 0)):
        if machine.program.directive(f"system_sgpr_workgroup_id_{name}", default):
            machine.write_scalar(place, value)
            place += 1


# -- running


class Launch(KernelLaunch[Code, Runner, Judged]):
    """One launch of one kernel: what the runtime keeps in memory lies before the caller's buffers."""

    def _size(self, waves: int | None, shared_bytes: int) -> tuple[int, int]:
        program = self.code.program
        of_kernel = -(-program.max_workgroup_size // program.wave_size)
        return waves or of_kernel, max(shared_bytes, program.shared_bytes)

    def _allocate(self) -> tuple[Buffers, int]:
        program, own = self.code.program, self._own_memory()
        values = one_each(self.values, program.explicit, "arguments")
        buffers = Buffers(_named(program, values), list(own.values()))
        memory = buffers.memory
        places = dict(zip(own, memory.allocations, strict=False))
        self.segment = places[_ARGUMENTS]
        hidden = hidden_values(self.grid, self.lanes, self.shared_bytes)
        self.host: HostCalls | None = None
        if _HOST in places:
            view = memory.view(list(own).index(_HOST))
            self.host = HostCalls(view, places[_HOST].address, self._packets)
            hidden[hostcalls.ARGUMENT] = places[_HOST].address
        self.kernarg = pack_arguments(program, values, hidden, buffers)
        self.services = host_services(program, hidden, self.segment.start)
        memory.view(list(own).index(_ARGUMENTS))[:] = self.kernarg
        return buffers, memory.allocations[len(own) - 1].end

    def _own_memory(self) -> dict[str, Contents]:
        """What the runtime keeps in memory for itself, by name: constants first, since their address is fixed."""
        program = self.code.program
        sizes = {_ARGUMENTS: max(16, program.kernarg_bytes)}
        if calls_host(program):
            sizes[_HOST] = hostcalls.buffer_bytes(self._packets)
        own = {name: Contents(name, np.zeros(size, np.uint8)) for name, size in sizes.items()}
        if not program.constants:
            return own
        return {_CONSTANTS: Contents(_CONSTANTS, np.frombuffer(program.constants, np.uint8)), **own}

    @property
    def _packets(self) -> int:
        """Of calls to the host: one for each wave that runs at once, and a power of two."""
        at_once = max(self.waves, self.options.lanes_at_once // self.code.program.wave_size)
        return 1 << (at_once - 1).bit_length()

    def _runner(self, groups: list[Grid], schedule: Schedule) -> Runner:
        machine = Machine(
            self.code.program, self.code.vectors, groups, self.waves, self.memory, self.options.poison,
            self.shared_bytes,
        )  # fmt: skip
        machine.services, machine.host = self.services, self.host
        set_up(machine, self.kernarg, self.segment.address)
        return Runner(self.code, machine, schedule, self.meter)

    def _checker(self, judged: Judged) -> Callable[[Runner], None]:
        check = Check(judged, self.memory, self.grid, self.own_end)
        self.closing.append(check.launch.settle)
        return check.attach

    @property
    def lanes(self) -> int:
        """Of a workgroup."""
        return self.waves * self.code.program.wave_size

    @property
    def said(self) -> tuple[str, ...]:
        """What the kernel printed so far."""
        return tuple(self.host.lines) if self.host else ()


def run(
    text: str,
    architecture: str,
    grid: Sequence[int],
    values: Sequence[Value],
    waves: int | None = None,
    shared_bytes: int = 0,
    options: Options | None = None,
) -> Emulation:
    """Execute one kernel of AMD's assembly, as :func:`portkit.emulate.run` says."""
    return emulate(
        lambda: Launch(code_for(text, architecture), grid, values, waves, shared_bytes, options or Options()),
        lambda: judged(text),
    )


def code_for(text: str, architecture: str) -> Code:
    """The code of a text.

    Raises:
        Unloadable: it can't be read, or is for another architecture.
        Unsupported: an instruction is not modelled, or not one of the architecture.
    """
    code = load(text)
    name = code.program.architecture.name
    if name != architecture:
        raise Unloadable(f"the text is for {name}, not for {architecture}")
    return code
