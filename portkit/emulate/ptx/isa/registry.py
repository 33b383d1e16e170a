"""What a table of instructions holds: the meaning of each row.

A table has one row for an opcode, with those of its suffixes that make it another instruction: ``add``, ``bar.sync``,
``mbarrier.try_wait``, ``cp.async.bulk.tensor``. The longest name that a table has counts. Where several rows have one
name, the last type of the instruction decides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.core.vectors import Approximation
from portkit.emulate.ptx.decode import Decoder, Read, Step, Uses
from portkit.emulate.ptx.program import Instruction, Program
from portkit.emulate.ptx.types import Type

Build: TypeAlias = Callable[[Decoder], Step]


@dataclass(frozen=True)
class Entry:
    """Meaning of one row.

    The flags say how the instruction takes part in control flow; guards are the registry's affair.
    """

    build: Build
    section: str  # title of the section of the PTX ISA document
    types: frozenset[Type] = frozenset()  # of the last type of the instruction; empty: whatever there is
    since: int = 0  # compute capability × 10
    approximation: Approximation | None = None  # None: the device's bits, NaNs' own apart
    collective: bool = False  # the lanes of a warp run it together
    masked: bool = False  # those that its last operand names
    ends: bool = False  # threads may part behind it: its step sets program counters or states
    begins: bool = False  # a block begins with it, so that threads can come back to it
    changes: bool = True  # False: nothing that is modelled


Table: TypeAlias = Mapping[str, tuple[Entry, ...]]


NOT_RUN = np.uint64(1 << 32)
"""In the place of a mask of members, of lanes whose guard is false: they need no others."""


@dataclass(frozen=True)
class Compiled:
    """One instruction, ready to run."""

    instruction: Instruction
    entry: Entry
    step: Step
    uses: Uses
    members: Read | None = None  # lanes that run it together, by bit, or NOT_RUN; None: all
    also: tuple[Uses, ...] = ()  # of instructions behind it that run with it
    made: Step | None = None  # as its entry made it; where ``step`` is another, something has been added or taken away
    key: Hashable | None = None  # what those have in common that may run as one


Pass: TypeAlias = Callable[[Program, tuple[Compiled, ...]], tuple[Compiled, ...]]
"""Changes the steps of a program, as where registers must not be touched before a wait."""


def join(tables: Iterable[Table]) -> dict[str, tuple[Entry, ...]]:
    """One table of several; rows of one name need types that tell them apart."""
    joined: dict[str, tuple[Entry, ...]] = {}
    for table in tables:
        for name, entries in table.items():
            joined[name] = (*joined.get(name, ()), *entries)
    for name, entries in joined.items():
        kinds = [kind for entry in entries for kind in entry.types]
        if len(entries) > 1 and (len(kinds) != len(set(kinds)) or not all(entry.types for entry in entries)):
            raise ValueError(f"defined twice: {name}")
    return joined
