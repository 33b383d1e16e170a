"""Calls of functions in the text, and of the two that the driver has: printf and the end of a failed assertion.

Source: PTX ISA, "Control Flow Instructions": call, ret; CUDA, "Debugging": vprintf, __assertfail. Parameters lie in
each thread's local memory. A function has one set of registers a thread, so none may call itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from portkit.emulate.core import printf
from portkit.emulate.core.findings import Fault, Finding, Kind
from portkit.emulate.core.memory import BASE
from portkit.emulate.core.schedule import ENDED
from portkit.emulate.ptx.decode import Decoder, Step
from portkit.emulate.ptx.isa.control import guarded_end
from portkit.emulate.ptx.isa.registry import Entry
from portkit.emulate.ptx.machine import LOCAL_WINDOW, Array, Machine, Threads
from portkit.emulate.ptx.program import Function, Operand, Program, Symbol, Variable, Vector

_FLOW = "Control Flow Instructions"

DEEPEST = 64
"""Calls within calls."""

MOST_MESSAGES = 1000
"""Of a launch that are kept."""


class _Stack:
    """Calls under way, by thread.

    Args:
        machine: the threads.
    """

    def __init__(self, machine: Machine) -> None:
        self.depth: Array = np.zeros(machine.threads, np.int64)
        self.calls: Array = np.zeros((DEEPEST, machine.threads), np.int64)  # index of the call, by depth


def _names(decoder: Decoder, operand: Operand | None) -> list[Variable]:
    """Variables that ``(a, b)`` names."""
    items = operand.items if isinstance(operand, Vector) else ()
    found = [decoder.program.variables.get(getattr(item, "name", "")) for item in items]
    if None in found:
        raise decoder.unsupported("a parameter that is not declared")
    return [item for item in found if item]


def _parts(decoder: Decoder) -> tuple[list[Variable], str, list[Variable]]:
    """Results, name and arguments of a call."""
    given = list(decoder.operands)
    results = given.pop(0) if isinstance(given[0], Vector) else None
    name = given.pop(0)
    if not isinstance(name, Symbol) or len(given) > 1:
        raise decoder.unsupported("a call by an address")
    return _names(decoder, results), name.name, _names(decoder, given[0] if given else None)


def _call(decoder: Decoder) -> Step:
    decoder.ignore("uni")
    results, name, arguments = _parts(decoder)
    after = decoder.instruction.index + 1
    if name in SERVICES:
        service, count, site = *SERVICES[name], decoder.site
        _need(decoder, name, "arguments", len(arguments), count)

        def serve(machine: Machine) -> None:
            machine.go(after)
            for thread in machine.selected:
                answer = service(machine, int(thread), [_value(machine, thread, each) for each in arguments])
                if isinstance(answer, str):
                    raise Fault(Finding(Kind.TRAP, answer, site, machine.place(int(thread))))

        return guarded_end(decoder, serve)
    function = decoder.program.functions.get(name)
    if function is None:
        raise decoder.unsupported(f"function {name} is not in the text")
    if name in _reached(decoder.program, name):
        raise decoder.unsupported(f"function {name} may call itself")
    _need(decoder, name, "arguments", len(arguments), len(function.parameters))
    _need(decoder, name, "results", len(results), len(function.results))
    return guarded_end(decoder, _enter(decoder, function, arguments))


def _need(decoder: Decoder, name: str, what: str, given: int, declared: int) -> None:
    """Refuse a call that does not fit its function."""
    if given != declared:
        raise decoder.unsupported(f"{given} {what} of {name}, which has {declared}")


def _reached(program: Program, name: str) -> set[str]:
    """Functions that one calls, directly or by others."""
    found: set[str] = set()
    left = [name]
    while left:
        new = program.called[left.pop()] - found
        found |= new
        left += new
    return found


def _enter(decoder: Decoder, function: Function, arguments: Sequence[Variable]) -> Step:
    index = decoder.instruction.index
    targets = [decoder.program.variables[name] for name in function.parameters]

    def step(machine: Machine) -> None:
        stack, own = machine.unit(_Stack), machine.selected
        if stack.depth[own].max() >= DEEPEST:
            raise decoder.unsupported(f"more than {DEEPEST} calls within one another")
        stack.calls[stack.depth[own], own] = index
        stack.depth[own] += 1
        _copy(machine, own, arguments, targets)
        machine.go(function.entry)

    return step


def _copy(machine: Machine, own: Threads, sources: Sequence[Variable], targets: Sequence[Variable]) -> None:
    """Parameters, from where the one side has them to where the other has."""
    rows = machine.local.bytes.reshape(machine.threads, -1)
    for source, target in zip(sources, targets, strict=True):
        size = min(source.size, target.size)
        rows[own, target.offset : target.offset + size] = rows[own, source.offset : source.offset + size]


def _return(decoder: Decoder) -> Step:
    """From a function to behind its call; of the kernel, the end."""
    decoder.ignore("uni")
    decoder.need(0)
    program = decoder.program
    if not any(item.opcode == "call" for item in program.instructions):
        return guarded_end(decoder, lambda machine: machine.halt(ENDED))

    def action(machine: Machine) -> None:
        stack, own = machine.unit(_Stack), machine.selected
        inside = stack.depth[own] > 0
        if not inside.all():
            machine.halt(ENDED, own[~inside])
        if inside.any():
            machine.acting(own[inside], lambda: _leave(machine, program))

    return guarded_end(decoder, action)


def _leave(machine: Machine, program: Program) -> None:
    stack, own = machine.unit(_Stack), machine.selected
    stack.depth[own] -= 1
    calls = stack.calls[stack.depth[own], own]
    for call in np.unique(calls):
        decoder = Decoder(program, program.instructions[int(call)])
        results, name, _ = _parts(decoder)
        sources = [program.variables[each] for each in program.functions[name].results]
        _copy(machine, own[calls == call], sources, results)
    machine.part(calls + 1)


# -- services of the driver


def _value(machine: Machine, thread: int, variable: Variable) -> int:
    """A parameter of one thread."""
    start = int(thread) * machine.local.stride + variable.offset
    return int.from_bytes(machine.local.bytes[start : start + variable.size].tobytes(), "little")


def _string(machine: Machine, address: int) -> str:
    """Up to a zero byte."""
    where = machine.memory.containing(address - BASE)
    if where is None:
        return ""
    raw: bytes = machine.memory.bytes[address - BASE : where.end].tobytes()
    return raw.partition(b"\0")[0].decode(errors="replace")


class _Arguments:
    """Arguments of vprintf, each at a multiple of its size; strings are addresses.

    Args:
        machine: of whose memory strings are.
        raw: bytes of a thread's local memory, from the first argument on.
    """

    def __init__(self, machine: Machine, raw: bytes) -> None:
        self._machine, self._raw, self._at = machine, raw, 0

    def _bytes(self, size: int) -> bytes:
        self._at = -(-self._at // size) * size
        raw = self._raw[self._at : self._at + size].ljust(size, b"\0")
        self._at += size
        return raw

    def string(self) -> str:
        """The next one, a string."""
        return _string(self._machine, int.from_bytes(self._bytes(8), "little"))

    def number(self, bits: int, *, signed: bool) -> int:
        """The next one, an integer of which that many bits count."""
        value = int.from_bytes(self._bytes(max(bits, 32) // 8), "little") & ((1 << bits) - 1)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def real(self) -> float:
        """The next one, a float64."""
        return float(struct.unpack("<d", self._bytes(8))[0])


def _print(machine: Machine, thread: int, values: Sequence[int]) -> None:
    """Keep vprintf's text."""
    form, arguments = values
    raw = b""
    if arguments >= LOCAL_WINDOW:
        start = thread * machine.local.stride
        raw = machine.local.bytes[start + arguments - LOCAL_WINDOW : start + machine.local.size].tobytes()
    if len(machine.said) < MOST_MESSAGES:
        machine.said.append(printf.formatted(_string(machine, form), _Arguments(machine, raw)))


def _fail(machine: Machine, thread: int, values: Sequence[int]) -> str:
    """What __assertfail says before it ends the kernel."""
    message, file, line, function, _ = values
    place = f"{_string(machine, file).rpartition('/')[2]}:{line}"
    return f"assertion failed: {_string(machine, message)} ({place}, {_string(machine, function)})"


SERVICES: dict[str, tuple[Callable[[Machine, int, Sequence[int]], str | None], int]] = {
    "vprintf": (_print, 2),
    "__assertfail": (_fail, 5),
}
"""Function of the driver → what it does, and its arguments; a text ends the kernel."""

TABLE: dict[str, tuple[Entry, ...]] = {
    "call": (Entry(_call, f"{_FLOW}: call", ends=True),),
    "ret": (Entry(_return, f"{_FLOW}: ret", ends=True),),
}
