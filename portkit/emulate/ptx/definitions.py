"""Registers that are read where no way from the entry has written them.

Judged on the program: a read is a fault where *no* way writes the register before it. Registers that only some ways
or some threads write are not told apart, since compilers leave those undefined with reason. What is computed from
nothing is nothing, and is told where it matters: in memory, in addresses, in comparisons and in matrices. Compilers
compute with one half of a pair that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from portkit.emulate.core.findings import Finding, Kind
from portkit.emulate.core.flow import solve
from portkit.emulate.ptx.execute import Block, Code
from portkit.emulate.ptx.isa.registry import Compiled
from portkit.emulate.ptx.program import Register, Symbol

_JOIN = frozenset({"mov", "prmt", "selp", "shfl", "lop3", "or", "cvt"})
"""Opcodes whose result holds something where one of their sources does."""

_MATTERS = frozenset(
    {"ld", "st", "atom", "red", "setp", "bra", "brx", "cp", "bar", "barrier", "mbarrier", "mma", "wgmma", "tcgen05"}
    | {"ldmatrix", "stmatrix", "vote", "match", "redux"}
)
"""Opcodes for which a register that holds nothing is a fault."""

_NEVER_BEHIND = frozenset({"ret", "exit", "trap"})


def successors(code: Code, block: Block) -> Iterable[int]:
    """First instructions of the blocks that may come next."""
    last = code.compiled[block.after - 1].instruction
    program = code.program
    if last.opcode in {"bra", "brx", "call"}:
        for operand in last.operands:
            if isinstance(operand, Symbol):
                yield from _targets(code, operand.name)
    goes_on = last.guard is not None or last.opcode not in {*_NEVER_BEHIND, "bra", "brx"}
    if goes_on and block.after in code.blocks:
        yield block.after
    if last.opcode == "ret" and len(program.functions) > 1:
        yield from (item.instruction.index + 1 for item in code.compiled if item.instruction.opcode == "call")


def _targets(code: Code, name: str) -> Iterable[int]:
    program = code.program
    if name in program.labels:
        yield program.labels[name]
    yield from (program.labels[each] for each in program.tables.get(name, ()))
    if name in program.functions:
        yield program.functions[name].entry


def unwritten_reads(code: Code) -> dict[int, list[Finding]]:
    """Instructions that read a register that nothing wrote, by the first instruction of their block."""

    def through(number: int, state: frozenset[Register]) -> frozenset[Register]:
        known = set(state)
        for item in _items(code, code.blocks[number]):
            known |= _defined(item, known)
        return frozenset(known)

    start: frozenset[Register] = frozenset()
    states = solve(code.entry, start, through, lambda number: successors(code, code.blocks[number]), frozenset.union)
    judged = {number: list(_judge(_items(code, code.blocks[number]), known)) for number, known in states.items()}
    return {number: found for number, found in judged.items() if found}


def _items(code: Code, block: Block) -> tuple[Compiled, ...]:
    return code.compiled[block.start : block.after]


def _defined(item: Compiled, known: AbstractSet[Register]) -> set[Register]:
    """What an instruction writes, where its sources hold something."""
    reads = item.uses.reads
    enough = any if item.instruction.opcode in _JOIN else all
    return item.uses.writes if not reads or enough(each in known for each in reads) else set()


def _judge(items: Iterable[Compiled], known: frozenset[Register]) -> Iterable[Finding]:
    so_far = set(known)
    for item in items:
        missing = sorted(each.name for each in item.uses.reads - item.uses.writes - so_far)
        if missing and item.instruction.opcode in _MATTERS:
            message = f"{missing[0]} is read, and nothing wrote it"
            yield Finding(Kind.UNWRITTEN_REGISTER, message, item.instruction.site)
            so_far |= item.uses.reads  # once is enough
        so_far |= _defined(item, so_far)
