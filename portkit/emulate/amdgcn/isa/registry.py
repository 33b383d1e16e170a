"""What a table of instructions holds: the meaning of each mnemonic."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step, Uses
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.amdgcn.program import Instruction
from portkit.emulate.core.vectors import Approximation

Build: TypeAlias = Callable[[Decoder], Step]

_ENCODING = re.compile(r"(_e32|_e64)?(_dpp|_sdwa|_dpp8)?$")


@dataclass(frozen=True)
class Operands:
    """Types of an instruction that computes one result from its operands and nothing else."""

    result: Type
    sources: tuple[Type, ...]
    accumulate: bool = False  # the destination is the last source


@dataclass(frozen=True)
class Entry:
    """Meaning of one mnemonic."""

    build: Build
    section: str  # ISA document, number and title of the section
    generations: frozenset[Generation] = ALL  # that have it
    operands: Operands | None = None  # where it is arithmetic on them alone
    approximation: Approximation | None = None  # None: the device's bits, NaNs' own apart

    @property
    def source(self) -> str:
        """Of ``section``, what the documents of its generations say; RDNA4's have the numbers of RDNA3's."""
        families = [name for name, family in (("CDNA", CDNA), ("RDNA", RDNA)) if self.generations & family]
        parts = [part for part in self.section.split("; ") if part.startswith(tuple(families))]
        only_newest = self.generations == {Generation.RDNA4}
        return "; ".join(part.replace("RDNA3 ", "RDNA4 ") if only_newest else part for part in parts)


Table: TypeAlias = Mapping[str, Entry]


@dataclass(frozen=True)
class Compiled:
    """One instruction, ready to run."""

    instruction: Instruction
    step: Step
    uses: Uses


def table_of(build: Build, section: str, names: str, generations: frozenset[Generation] = ALL) -> dict[str, Entry]:
    """One entry for several mnemonics, given in one string."""
    return {name: Entry(build, section, generations) for name in names.split()}


def join(tables: Iterable[Table]) -> dict[str, Entry]:
    """One table of several; a mnemonic that two of them define is a mistake."""
    joined: dict[str, Entry] = {}
    for table in tables:
        twice = joined.keys() & table.keys()
        if twice:
            raise ValueError(f"defined twice: {', '.join(sorted(twice))}")
        joined.update(table)
    return joined


@functools.cache
def base_name(mnemonic: str) -> str:
    """A mnemonic without the suffix of its encoding."""
    return _ENCODING.sub("", mnemonic)
