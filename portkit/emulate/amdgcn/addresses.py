"""Addresses of code and constants: each instruction has eight bytes, of which nothing but jumps takes notice.

Functions that are not inlined, and branches further than 16 bits reach, take the address of the instruction behind
``s_getpc_b64``, add the distance to a symbol, and jump there (LLVM, AMDGPU usage, "Relocation Records" and "Call
Convention"). What the assembler would put for a distance stands for it here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.core.findings import Unsupported

BYTES = 8
"""Of an instruction."""

_SYMBOL = re.compile(r"([\w.$]+)@rel32@(lo|hi)\+\d+")
_DIFFERENCE = re.compile(r"\(([\w.$]+)-([\w.$]+)\)(&4294967295|>>32)")


def address_of(index: int) -> int:
    """Address of an instruction."""
    return BYTES * index


@dataclass(frozen=True)
class Resolved:
    """A program's instructions with numbers for distances."""

    instructions: tuple[Instruction, ...]
    entries: tuple[int, ...]  # places in the code whose address is taken
    far: Mapping[int, int]  # index of a jump that can go to one place alone → that place


def resolve(instructions: Sequence[Instruction], labels: Mapping[str, int], constants: Mapping[str, int]) -> Resolved:
    """Put numbers for distances.

    Args:
        instructions: as parsed.
        labels: label → index of an instruction.
        constants: symbol → address of its data.

    Raises:
        Unsupported: a symbol is not in the text, or no ``s_getpc_b64`` comes before.
    """
    resolver = _Resolver(labels, constants)
    resolved = tuple(resolver.take(index, item) for index, item in enumerate(instructions))
    return Resolved(resolved, tuple(sorted(resolver.entries)), resolver.far)


_OF_A_FAR_BRANCH = frozenset(
    {"s_add_u32", "s_addc_u32", "s_add_co_u32", "s_add_co_ci_u32", "s_sext_i32_i16", "s_wait_alu", "s_delay_alu"}
)
"""What stands between s_getpc_b64 and s_setpc_b64 (LLVM, SIInstrInfo::insertIndirectBranch)."""


@dataclass
class _FarBranch:
    register: str
    symbols: set[str] = dataclasses.field(default_factory=set)


class _Resolver:
    """Walks the instructions once."""

    def __init__(self, labels: Mapping[str, int], constants: Mapping[str, int]) -> None:
        self.labels, self.constants = labels, constants
        self.base: int | None = None  # the address that the last s_getpc_b64 gave
        self.entries: set[int] = set()
        self.far: dict[int, int] = {}
        self.branch: _FarBranch | None = None  # the one that is being read

    def take(self, index: int, item: Instruction) -> Instruction:
        """The instruction with numbers in its operands."""
        if item.mnemonic == "s_getpc_b64":
            self.base = address_of(index + 1)
        self._follow(index, item)
        if not any("@rel32" in text or text.startswith("(") for text in item.operands):
            return item
        return dataclasses.replace(item, operands=tuple(self._operand(item, text) for text in item.operands))

    def _follow(self, index: int, item: Instruction) -> None:
        """Know a far branch by its instructions, which LLVM keeps together."""
        if item.mnemonic == "s_getpc_b64":
            self.branch = _FarBranch(item.operands[0])
        elif self.branch and item.mnemonic == "s_setpc_b64" and item.operands[0] == self.branch.register:
            if len(self.branch.symbols) == 1:
                self.far[index] = self.labels[min(self.branch.symbols)]
        elif self.branch and item.mnemonic in _OF_A_FAR_BRANCH:
            found = [match[1] for text in item.operands if (match := _DIFFERENCE.fullmatch(text))]
            self.branch.symbols |= {name for name in found if name in self.labels}
        else:
            self.branch = None

    def _operand(self, item: Instruction, text: str) -> str:
        if match := _SYMBOL.fullmatch(text):
            symbol, part = match.groups()
            if self.base is None:
                raise Unsupported(f"distance to {symbol} from no s_getpc_b64", item.site)
            return self._part(self._place(item, symbol) - self.base, low=part == "lo")
        if match := _DIFFERENCE.fullmatch(text):
            symbol, start, part = match.groups()
            return self._part(self._place(item, symbol) - address_of(self._index(item, start)), low=part[0] == "&")
        return text

    def _place(self, item: Instruction, symbol: str) -> int:
        if symbol in self.constants:
            return self.constants[symbol]
        index = self._index(item, symbol)
        self.entries.add(index)
        return address_of(index)

    def _index(self, item: Instruction, symbol: str) -> int:
        if symbol not in self.labels:
            raise Unsupported(f"symbol {symbol} is not in the text", item.site)
        return self.labels[symbol]

    @staticmethod
    def _part(distance: int, *, low: bool) -> str:
        return str(distance & 0xFFFF_FFFF if low else (distance >> 32) & 0xFFFF_FFFF)
