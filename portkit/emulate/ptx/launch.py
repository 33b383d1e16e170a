"""Launches one kernel: its parameters, its variables, and chunks of blocks.

Source: PTX ISA, "Kernel Function Parameters" and "State Spaces".
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
import time
from collections.abc import Callable, Sequence

import numpy as np

from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import (
    Fault,
    Finding,
    Halt,
    Kind,
    OverBudget,
    TooLarge,
    Unloadable,
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
from portkit.emulate.ptx.architecture import architecture_of
from portkit.emulate.ptx.check import Check, Judged, judge
from portkit.emulate.ptx.execute import Code, Meter, Runner, build
from portkit.emulate.ptx.isa.families import PASSES
from portkit.emulate.ptx.machine import LANES, Machine
from portkit.emulate.ptx.parse import parse
from portkit.emulate.ptx.program import Parameter, Program

MAX_BLOCKS = 1 << 22
"""Of a launch: more would not end in this emulator's lifetime, and their ids alone would fill memory."""

_PARAMETERS = "kernel parameters"
"""What the driver keeps in memory, before the caller's buffers."""

Attach = Callable[[Runner], None]
"""Called for each chunk before it runs, so that a checker can attach itself."""


@functools.lru_cache(maxsize=64)
def load(text: str) -> Code:
    """The code of a text; kept, since a kernel is launched often."""
    return build(parse(text), PASSES)


@functools.lru_cache(maxsize=64)
def judged(text: str) -> Judged:
    """What is wrong with the code of a text whatever the data; kept as the code is."""
    return judge(load(text))


def pack_parameters(program: Program, values: Sequence[Value], buffers: Buffers) -> Bytes:
    """The parameter space.

    Args:
        program: the kernel.
        values: one a parameter.
        buffers: where pointer arguments lie.
    """
    space: Bytes = np.zeros(max(16, program.parameter_bytes), np.uint8)
    for number, (item, value) in enumerate(zip(program.parameters, values, strict=True)):
        raw = _parameter_bytes(item, value, number, buffers)
        space[item.offset : item.offset + len(raw)] = np.frombuffer(raw, np.uint8)
    return space


def _parameter_bytes(item: Parameter, value: Value, number: int, buffers: Buffers) -> bytes:
    if isinstance(value, np.ndarray | Pointer):
        if not item.pointer:
            raise Unloadable(f"{item.name} takes a number, not a buffer")
        return buffers.address(number).to_bytes(8, "little")
    if isinstance(value, Descriptor):
        return _descriptor_bytes(item, value.encode(buffers.address(number)))
    if item.kind is None:
        raise Unloadable(f"{item.name} of {item.size} bytes takes no number")
    if isinstance(value, float):
        return _float_bytes(item, value)
    return (int(value or 0) & ((1 << 8 * item.size) - 1)).to_bytes(item.size, "little")


def _descriptor_bytes(item: Parameter, raw: bytes) -> bytes:
    if item.size != len(raw) or item.kind is not None:
        raise Unloadable(f"{item.name} of {item.size} bytes takes no descriptor of {len(raw)}")
    return raw


def _float_bytes(item: Parameter, value: float) -> bytes:
    form = {2: "<e", 4: "<f", 8: "<d"}.get(item.size)
    if form is None:
        raise Unloadable(f"{item.name} of {item.size} bytes takes no float")
    return struct.pack(form, value)


def _values(program: Program, values: Sequence[Value]) -> list[Value]:
    """One value for every parameter; trailing pointers that Triton adds for itself are null."""
    if len(values) > len(program.parameters):
        raise Unloadable(f"{len(values)} values for {len(program.parameters)} parameters")
    missing = program.parameters[len(values) :]
    if any(not item.pointer for item in missing):
        raise Unloadable(f"no value for {missing[0].name}")
    return [*values, *[None] * len(missing)]


class Launch:
    """One launch of one kernel.

    Args:
        code: the kernel.
        grid: blocks in x, y, z.
        values: one value a parameter, in order.
        warps: of each block; None: as many as the kernel was built for.
        shared_bytes: of each block, where the launch asks for more than the text states.
        options: how to emulate.
    """

    def __init__(
        self,
        code: Code,
        grid: Sequence[int],
        values: Sequence[Value],
        warps: int | None,
        shared_bytes: int,
        options: Options,
    ) -> None:
        program = code.program
        self.code, self.options, self.values, self.warps = code, options, values, warps
        self.threads = program.threads or (warps or 0) * LANES
        if not self.threads or self.threads % LANES:
            raise Unloadable(f"blocks of {self.threads} threads; whole warps are needed")
        self.shared_bytes = max(shared_bytes, program.shared_bytes)
        self.grid: Grid = (*grid, 1, 1)[:3]  # type: ignore[assignment]
        self.findings: list[Finding] = []
        self.said: list[str] = []
        self.meter = Meter(options.budget)
        self.done = 0
        self.attach: list[Attach] = []
        self._allocate(_values(program, values))

    def _allocate(self, values: list[Value]) -> None:
        program = self.code.program
        own = [Contents(_PARAMETERS, np.zeros(max(16, program.parameter_bytes), np.uint8))]
        own += [Contents(item.name, _initial(item.contents, item.size)) for item in program.global_variables]
        named = [(f"argument {number}", value) for number, value in enumerate(values)]
        self.buffers = Buffers(named, own)
        places = self.memory.allocations
        self.parameters = pack_parameters(program, values, self.buffers)
        self.memory.view(0)[:] = self.parameters
        self.own_end = places[len(own) - 1].end
        self.addresses = {item.name: places[0].address + item.offset for item in program.parameters}
        known = {id(variable): name for name, variable in program.variables.items()}
        for number, variable in enumerate(program.global_variables, 1):
            self.addresses[known[id(variable)]] = places[number].address

    @property
    def memory(self) -> Memory:
        """Global memory of the launch."""
        return self.buffers.memory

    def check_budget(self) -> None:
        """Refuse a launch whose straight run alone is over the budget.

        Raises:
            TooLarge: each instruction once, in every thread, is more than allowed.
        """
        groups = math.prod(self.grid)
        each = sum(block.counted for block in self.code.blocks.values())
        least = groups * self.threads * each
        if least > self.options.budget or groups > MAX_BLOCKS:
            work = f"{groups} workgroups, about {least} lane-instructions"
            raise TooLarge(f"launch of {work}; allowed: {self.options.budget}")

    def run(self) -> None:
        """Run all blocks, and write the buffers back whatever happens.

        Raises:
            Halt: a fault, something unsupported, or more work than allowed.
        """
        schedule = Schedule(self.options.order, self.options.seed)
        ids = workgroup_ids(self.grid)
        order = [ids[number] for number in schedule.workgroups(len(ids))]
        per_chunk = max(1, self.options.lanes_at_once // self.threads)
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
        """Whether memory is left the same by warps that run first to last, and last to first.

        Then no race within a block has an effect, as where several warps load an element and one of them stores it.
        """
        left = self.memory.contents()
        try:
            return all(self._left_by(order, start, left) for order in (Order.FORWARD, Order.REVERSE))
        finally:
            self.buffers.write_back()

    def _left_by(self, order: Order, start: Sequence[Bytes], expected: Sequence[Bytes]) -> bool:
        options = dataclasses.replace(self.options, order=order, check=False)
        again = Launch(self.code, self.grid, self.values, self.warps, self.shared_bytes, options)
        again.memory.restore(start)
        try:
            again.run()
        except Halt:
            return False
        return all(map(np.array_equal, again.memory.contents(), expected))

    def _run_chunk(self, groups: list[Grid], schedule: Schedule) -> None:
        machine = Machine(
            self.code.program, groups, self.threads, self.memory, self.options.poison, self.shared_bytes, self.grid
        )
        machine.addresses, machine.parameters, machine.said = self.addresses, bytes(self.parameters), self.said
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


def _initial(contents: bytes, size: int) -> Bytes:
    data: Bytes = np.zeros(max(1, size), np.uint8)
    data[: len(contents)] = np.frombuffer(contents, np.uint8)
    return data


def run(
    text: str,
    architecture: str,
    grid: Sequence[int],
    values: Sequence[Value],
    waves: int | None = None,
    shared_bytes: int = 0,
    options: Options | None = None,
) -> Emulation:
    """Execute one kernel; buffers are written in place.

    Args:
        text: PTX of one kernel.
        architecture: that the caller takes the text to be for, such as ``sm_90``.
        grid: blocks in x, y, z; missing ones are 1.
        values: one value a parameter. Pointers that Triton adds at the end may be left out.
        waves: warps of each block; None: as many as the kernel was built for.
        shared_bytes: of each block.
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
    if code.program.architecture.number != architecture_of(architecture).number:
        raise Unloadable(f"the text is for {code.program.architecture.name}, not for {architecture}")
    return code


def _emulation(launch: Launch | None, halt: Halt | None, seconds: float) -> Emulation:
    findings = launch.findings if launch else []
    if isinstance(halt, Fault):
        findings = [*findings, halt.finding]
    meter = launch.meter if launch else Meter(0)
    counts = Counts(meter.instructions, meter.lane_instructions, launch.done if launch else 0, seconds)
    over_budget = isinstance(halt, OverBudget | TooLarge)
    said = tuple(launch.said) if launch else ()
    return Emulation(outcome_of(findings, halt), tuple(findings), counts, over_budget, said)
