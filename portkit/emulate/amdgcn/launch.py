"""Launches one kernel: its arguments, the state that waves begin with, and chunks of workgroups.

Source: LLVM, AMDGPU usage: "Kernel Argument Segment" in the metadata, "Initial Kernel Execution State",
"Preloaded Kernel Arguments"; RDNA4's workgroup ids in trap temporaries from the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.amdgcn import hostcalls
from portkit.emulate.amdgcn.check import Check, Judged, judge
from portkit.emulate.amdgcn.execute import Code, Meter, Runner, build
from portkit.emulate.amdgcn.hostcalls import HostCalls, calls_host
from portkit.emulate.amdgcn.machine import Machine, Service
from portkit.emulate.amdgcn.operands import TTMP, Type
from portkit.emulate.amdgcn.parse import parse
from portkit.emulate.amdgcn.program import Argument, Program
from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import (
    Fault,
    Finding,
    Halt,
    Kind,
    OverBudget,
    TooLarge,
    Unloadable,
    Unsupported,
    outcome_of,
)
from portkit.emulate.core.launch import (
    Buffers,
    Counts,
    Descriptor,
    Emulation,
    Grid,
    Options,
    Pointer,
    Value,
    workgroup_ids,
)
from portkit.emulate.core.memory import Contents, Memory
from portkit.emulate.core.schedule import Order, Schedule

_CONSTANTS, _ARGUMENTS, _HOST = "constants", "kernel arguments", "calls to the host"
"""What the runtime keeps in memory, before the caller's buffers."""

MAX_WORKGROUPS = 1 << 22
"""Of a launch: more would not end in this emulator's lifetime, and their ids alone would fill memory."""


@functools.lru_cache(maxsize=64)
def load(text: str) -> Code:
    """The code of an assembly text; kept, since a kernel is launched often."""
    program = parse(text)
    _check_modes(program)
    return build(program)


@functools.lru_cache(maxsize=64)
def judged(text: str) -> Judged:
    """What is wrong with the code of a text whatever the data; kept as the code is."""
    return judge(load(text))


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
    if isinstance(value, float):
        return _float_bytes(argument, value)
    if isinstance(value, Descriptor):
        raise Unloadable(f"{argument.name} takes no descriptor of a tensor")
    whole = int(value or 0)
    return (whole & ((1 << 8 * argument.size) - 1)).to_bytes(argument.size, "little")


def _float_bytes(argument: Argument, value: float) -> bytes:
    form = {2: "<e", 4: "<f", 8: "<d"}.get(argument.size)
    if form is None or argument.pointer:
        raise Unloadable(f"{argument.name} of {argument.size} bytes takes no float")
    return struct.pack(form, value)


def _values(program: Program, values: Sequence[Value]) -> list[Value]:
    """One value for every argument; trailing ones that Triton adds for itself are null."""
    if len(values) > len(program.explicit):
        raise Unloadable(f"{len(values)} values for {len(program.explicit)} arguments")
    missing = program.explicit[len(values) :]
    if any(not item.pointer for item in missing):
        raise Unloadable(f"no value for {missing[0].name}")
    return [*values, *[None] * len(missing)]


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

Attach = Callable[[Runner], None]
"""Called for each chunk before it runs, so that a checker can attach itself."""


class Launch:
    """One launch of one kernel.

    Args:
        code: the kernel.
        grid: workgroups in x, y, z.
        values: one value an argument, in order.
        waves: of each workgroup; None: as many as the kernel was built for.
        shared_bytes: of each workgroup, where the launch asks for more than the kernel states.
        options: how to emulate.
    """

    def __init__(
        self,
        code: Code,
        grid: Sequence[int],
        values: Sequence[Value],
        waves: int | None,
        shared_bytes: int,
        options: Options,
    ) -> None:
        program = code.program
        self.code, self.options, self.values = code, options, values
        self.waves = waves or -(-program.max_workgroup_size // program.wave_size)
        self.shared_bytes = max(shared_bytes, program.shared_bytes)
        self.grid = tuple(grid)
        self.findings: list[Finding] = []
        self.meter = Meter(options.budget)
        self.done = 0
        self.attach: list[Attach] = []
        self._allocate(_values(program, values))

    def _allocate(self, values: list[Value]) -> None:
        program = self.code.program
        own = self._own_memory()
        self.buffers = Buffers(_named(program, values), list(own.values()))
        places = dict(zip(own, self.memory.allocations, strict=False))
        self.segment, self.own_end = places[_ARGUMENTS], self.memory.allocations[len(own) - 1].end
        hidden = hidden_values(self.grid, self.waves * program.wave_size, self.shared_bytes)
        self.host: HostCalls | None = None
        if _HOST in places:
            view = self.memory.view(list(own).index(_HOST))
            self.host = HostCalls(view, places[_HOST].address, self._packets)
            hidden[hostcalls.ARGUMENT] = places[_HOST].address
        self.kernarg = pack_arguments(program, values, hidden, self.buffers)
        self.services = host_services(program, hidden, self.segment.start)
        self.memory.view(list(own).index(_ARGUMENTS))[:] = self.kernarg

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

    @property
    def memory(self) -> Memory:
        """Global memory of the launch."""
        return self.buffers.memory

    def check_budget(self) -> None:
        """Refuse a launch whose straight run alone is over the budget.

        Raises:
            TooLarge: each instruction once, in every wave, is more than allowed.
        """
        groups = math.prod(self.grid)
        each = sum(block.counted for block in self.code.blocks.values())
        least = groups * self.waves * self.code.program.wave_size * each
        if least > self.options.budget or groups > MAX_WORKGROUPS:
            work = f"{groups} workgroups, about {least} lane-instructions"
            raise TooLarge(f"launch of {work}; allowed: {self.options.budget}")

    def run(self) -> None:
        """Run all workgroups, and write the buffers back whatever happens.

        Raises:
            Halt: a fault, something unsupported, or more work than allowed.
        """
        schedule = Schedule(self.options.order, self.options.seed)
        ids = workgroup_ids(self.grid)
        order = [ids[number] for number in schedule.workgroups(len(ids))]
        per_chunk = max(1, self.options.lanes_at_once // (self.waves * self.code.program.wave_size))
        try:
            with np.errstate(all="ignore"):
                for start in range(0, len(order), per_chunk):
                    self._run_chunk(order[start : start + per_chunk], schedule)
        finally:
            self.buffers.write_back()

    def run_checked(self, judged: Judged) -> None:
        """Run with the checker.

        Raises:
            Halt: as ``run``.
        """
        start = self.memory.contents()
        self.attach.append(Check(judged, self.memory, self.grid, self.own_end).attach)
        self.run()
        if any(item.kind is Kind.WORKGROUP_RACE for item in self.findings) and self._same_both_ways(start):
            self.findings = [item for item in self.findings if item.kind is not Kind.WORKGROUP_RACE]

    def _same_both_ways(self, start: Sequence[Bytes]) -> bool:
        """Whether memory is left the same by waves that run first to last, and last to first.

        Then no race within a workgroup has an effect. Where a tensor has fewer elements than a workgroup has lanes,
        several waves load each of them, and one stores: what the others read too late goes nowhere.
        """
        left = self.memory.contents()
        try:
            return all(self._left_by(order, start, left) for order in (Order.FORWARD, Order.REVERSE))
        finally:
            self.buffers.write_back()

    def _left_by(self, order: Order, start: Sequence[Bytes], expected: Sequence[Bytes]) -> bool:
        options = dataclasses.replace(self.options, order=order, check=False)
        again = Launch(self.code, self.grid, self.values, self.waves, self.shared_bytes, options)
        again.memory.restore(start)
        try:
            again.run()
        except Halt:
            return False
        return all(map(np.array_equal, again.memory.contents(), expected))

    def _run_chunk(self, groups: list[Grid], schedule: Schedule) -> None:
        machine = Machine(
            self.code.program, self.code.vectors, groups, self.waves, self.memory, self.options.poison,
            self.shared_bytes,
        )  # fmt: skip
        machine.services, machine.host = self.services, self.host
        set_up(machine, self.kernarg, self.segment.address)
        runner = Runner(self.code, machine, schedule, self.meter)
        for attach in self.attach:
            attach(runner)
        try:
            runner.run()
            self.done += len(groups)
        except OverBudget as over:
            where = runner.starvation()
            self.findings.append(where)
            raise OverBudget(f"{where}; does the kernel end?") from over
        finally:
            self.findings.extend(machine.findings.values())


def run(
    text: str,
    architecture: str,
    grid: Sequence[int],
    values: Sequence[Value],
    waves: int | None = None,
    shared_bytes: int = 0,
    options: Options | None = None,
) -> Emulation:
    """Execute one kernel on emulated hardware; buffers are written in place.

    Args:
        text: assembly of one kernel, as LLVM prints it.
        architecture: that the caller takes the text to be for, such as ``gfx942``.
        grid: workgroups in x, y, z; missing ones are 1.
        values: one value an argument, in the order of the metadata. Pointers that Triton adds at the end may
            be left out.
        waves: of each workgroup; None: as many as the kernel was built for.
        shared_bytes: of each workgroup, for launches that ask for more than the kernel states.
        options: how to emulate.

    Returns:
        An emulation whatever the kernel does: a kernel that can't run has its status.
    """
    started = time.perf_counter()
    launch: Launch | None = None
    halt: Halt | None = None
    try:
        launch = Launch(_code_for(text, architecture), grid, values, waves, shared_bytes, options or Options())
        launch.check_budget()
        if launch.options.check:
            launch.run_checked(judged(text))
        else:
            launch.run()
    except Halt as error:
        halt = error
    return _emulation(launch, halt, time.perf_counter() - started)


def _code_for(text: str, architecture: str) -> Code:
    code = load(text)
    name = code.program.architecture.name
    if name != architecture:
        raise Unloadable(f"the text is for {name}, not for {architecture}")
    return code


def _emulation(launch: Launch | None, halt: Halt | None, seconds: float) -> Emulation:
    findings = launch.findings if launch else []
    if isinstance(halt, Fault):
        findings = [*findings, halt.finding]
    meter = launch.meter if launch else Meter(0)
    counts = Counts(meter.instructions, meter.lane_instructions, launch.done if launch else 0, seconds)
    over_budget = isinstance(halt, OverBudget | TooLarge)
    said = tuple(launch.host.lines) if launch and launch.host else ()
    return Emulation(outcome_of(findings, halt), tuple(findings), counts, over_budget, said)
