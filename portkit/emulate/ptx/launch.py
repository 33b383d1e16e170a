"""Launches one kernel: its parameters, its variables, and chunks of blocks.

Source: PTX ISA, "Kernel Function Parameters" and "State Spaces".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np

from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.findings import Halt, Unloadable, readable
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
from portkit.emulate.ptx.architecture import architecture_of
from portkit.emulate.ptx.check import Check, Judged, judge
from portkit.emulate.ptx.contract import contracted
from portkit.emulate.ptx.execute import Code, Runner, build
from portkit.emulate.ptx.isa.families import PASSES
from portkit.emulate.ptx.isa.lookup import compile_instruction
from portkit.emulate.ptx.machine import LANES, Machine
from portkit.emulate.ptx.parse import parse
from portkit.emulate.ptx.program import Parameter, Program

_PARAMETERS = "kernel parameters"
"""What the driver keeps in memory, before the caller's buffers."""

_TARGET = re.compile(r"^\.target .*$", re.MULTILINE)


@functools.lru_cache(maxsize=64)
def load(text: str) -> Code:
    """The code of a text; kept, since a kernel is launched often."""
    with readable():
        return build(contracted(parse(text)), PASSES)


@functools.lru_cache(maxsize=64)
def judged(text: str) -> Judged:
    """What is wrong with the code of a text whatever the data; kept as the code is."""
    code = load(text)
    with readable():
        return judge(code)


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
    return number_bytes(item, value)


def _descriptor_bytes(item: Parameter, raw: bytes) -> bytes:
    if item.size != len(raw) or item.kind is not None:
        raise Unloadable(f"{item.name} of {item.size} bytes takes no descriptor of {len(raw)}")
    return raw


class Launch(KernelLaunch[Code, Runner, Judged]):
    """One launch of one kernel: its parameters and variables lie before the caller's buffers."""

    def _size(self, waves: int | None, shared_bytes: int) -> tuple[int, int]:
        program = self.code.program
        self.threads = program.threads or (waves or 0) * LANES
        if not self.threads or self.threads % LANES:
            raise Unloadable(f"blocks of {self.threads} threads; whole warps are needed")
        return self.threads // LANES, max(shared_bytes, program.shared_bytes)

    def _allocate(self) -> tuple[Buffers, int]:
        program = self.code.program
        own = [Contents(_PARAMETERS, np.zeros(max(16, program.parameter_bytes), np.uint8))]
        own += [Contents(item.name, _initial(item.contents, item.size)) for item in program.global_variables]
        values = one_each(self.values, program.parameters, "parameters")
        buffers = Buffers([(f"argument {number}", value) for number, value in enumerate(values)], own)
        places = buffers.memory.allocations
        self.parameters = pack_parameters(program, values, buffers)
        buffers.memory.view(0)[:] = self.parameters
        self.addresses = {item.name: places[0].address + item.offset for item in program.parameters}
        known = {id(variable): name for name, variable in program.variables.items()}
        for number, variable in enumerate(program.global_variables, 1):
            self.addresses[known[id(variable)]] = places[number].address
        self._said: list[str] = []
        return buffers, places[len(own) - 1].end

    def _runner(self, groups: list[Grid], schedule: Schedule) -> Runner:
        machine = Machine(
            self.code.program, groups, self.threads, self.memory, self.options.poison, self.shared_bytes, self.grid
        )
        machine.addresses, machine.parameters, machine.said = self.addresses, bytes(self.parameters), self._said
        machine.fenced_copies = self.options.fenced_copies
        return Runner(self.code, machine, schedule, self.meter)

    def _checker(self, judged: Judged) -> Callable[[Runner], None]:
        check = Check(judged, self.memory, self.grid, self.own_end)
        self.closing.append(check.launch.settle)
        return check.attach

    @property
    def lanes(self) -> int:
        """Of a workgroup."""
        return self.threads

    @property
    def said(self) -> tuple[str, ...]:
        """What the kernel printed so far."""
        return tuple(self._said)


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
    """Execute one kernel of PTX, as :func:`portkit.emulate.run` says."""
    return emulate(
        lambda: Launch(code_for(text, architecture), grid, values, waves, shared_bytes, options or Options()),
        lambda: judged(text),
    )


def essence(text: str, architecture: str) -> str:
    """What a run depends on, of a text that ``code_for`` takes for an architecture.

    Its ``.target`` says which instructions there are, which is seen to there, and how products are summed, which is
    the same in a generation.
    """
    generation = architecture_of(architecture).generation if "mma" in text else None
    return f"{generation}\n{_TARGET.sub('', text, count=1)}"


@functools.lru_cache(maxsize=64)
def takes(text: str, architecture: str) -> bool:
    """Whether an architecture takes a text that another one takes, but for the name of its target.

    It may lack an instruction, which is told by the name with its modifiers, and by how many operands there are.
    """
    try:
        with readable():
            program = parse(text)
            if program.architecture.number != architecture_of(architecture).number:
                return False
            kinds = {(item.name, len(item.operands)): item for item in program.instructions}
            for item in kinds.values():
                compile_instruction(program, item)
    except Halt:
        return False
    return True


def code_for(text: str, architecture: str) -> Code:
    """The code of a text.

    Raises:
        Unloadable: it can't be read, or is for another architecture.
        Unsupported: an instruction is not modelled, or not one of the architecture.
    """
    code = load(text)
    if code.program.architecture.number != architecture_of(architecture).number:
        raise Unloadable(f"the text is for {code.program.architecture.name}, not for {architecture}")
    return code
