"""A kernel as the assembly text gives it: instructions, labels, directives and arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from portkit.emulate.amdgcn.architecture import Architecture
from portkit.emulate.core.findings import Site


@dataclass(frozen=True)
class Instruction:
    """One instruction as written."""

    mnemonic: str  # with its encoding suffix, such as v_add_f32_e32
    operands: tuple[str, ...]
    modifiers: Mapping[str, str]  # name → value; a flag has the value ""
    site: Site
    second: Instruction | None = None  # the other half of a dual-issue instruction
    flushes32: bool = False  # whether it runs with float32 denormals flushed

    def flags(self, name: str, count: int, default: int = 0) -> tuple[int, ...]:
        """A modifier of the form ``name:[0,1]`` as integers, padded with its default."""
        text = self.modifiers.get(name, "")
        values = [int(item) for item in text.strip("[]").split(",")] if text else []
        return tuple((values + [default] * count)[:count])

    def number(self, name: str, default: int = 0) -> int:
        """A numeric modifier such as ``offset:16``."""
        text = self.modifiers.get(name, "")
        return int(text, 0) if text else default


@dataclass(frozen=True)
class Argument:
    """One kernel argument, from the metadata."""

    name: str
    offset: int  # bytes into the kernarg segment
    size: int  # bytes
    kind: str  # .value_kind: global_buffer, by_value, hidden_…

    @property
    def pointer(self) -> bool:
        """True for an address."""
        return self.kind == "global_buffer"

    @property
    def hidden(self) -> bool:
        """True for what the runtime fills in, and not the caller."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class Program:
    """One kernel."""

    name: str
    architecture: Architecture
    wave_size: int  # lanes
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]  # label → index of the instruction that follows
    aligned: tuple[int, ...]  # indices of instructions at a 256-byte boundary
    directives: Mapping[str, int]  # .amdhsa_… without that prefix
    arguments: tuple[Argument, ...]
    kernarg_bytes: int
    max_workgroup_size: int  # threads
    shared_bytes: int
    scratch_bytes: int  # a lane
    text: str = field(repr=False, default="")
    constants: bytes = b""  # data beside the code
    entries: tuple[int, ...] = ()  # indices of instructions whose address the code takes: functions, far branches
    far: Mapping[int, int] = field(default_factory=dict)  # index of a far branch → index of where it goes

    @property
    def explicit(self) -> tuple[Argument, ...]:
        """Arguments that the caller passes."""
        return tuple(item for item in self.arguments if not item.hidden)

    @functools.cached_property
    def index_of(self) -> Mapping[int, int]:
        """Line → index of the instruction there."""
        return {item.site.line: index for index, item in enumerate(self.instructions)}

    def directive(self, name: str, default: int = 0) -> int:
        """Value of a ``.amdhsa_`` directive."""
        return self.directives.get(name, default)
