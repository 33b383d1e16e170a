"""What ``portkit toggle`` found: the values that its child process hands over and ``--json`` shows.

Times are wall clock in milliseconds: from the call to the moment its results are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from portkit.model import Clock, Ratio
from portkit.plan.cases import Complaint


@dataclass(frozen=True)
class Agreement:
    """How far a way's result is from what it must be, and whether that is right."""

    right: bool
    against: str  # float64, or eager where no float64 reference could be had
    rms: float  # root mean square of the error ÷ that of the reference
    worst: float | None  # largest |error| ÷ (|reference| + rms of the reference); None: nothing finite to compare
    rms_limit: float
    worst_limit: float
    why_wrong: str = ""


@dataclass(frozen=True)
class Fused:
    """A kernel that Inductor generated, and how often one call of the model calls it."""

    kernel: str
    operations: tuple[str, ...]  # of ATen, as the kernel's name has them
    calls: int


@dataclass(frozen=True)
class Generated:
    """What Inductor's code for a model calls."""

    graphs: int  # pieces that were compiled by themselves
    kernels: tuple[Fused, ...]
    library: Mapping[str, int]  # function of a library → calls

    @property
    def calls(self) -> int:
        """Kernels and library functions that one call of the model calls."""
        return sum(each.calls for each in self.kernels) + sum(self.library.values())


@dataclass(frozen=True)
class Way:
    """One way to call the model. What is None has its reason in ``nulls``."""

    name: str  # eager, compile default, a variant's name
    mode: str | None = None  # of torch.compile
    failed: str | None = None  # why it does not run; then there are no figures
    first_call_s: float | None = None  # of a compiled one: compilation, with no cache
    wall: Clock | None = None
    speedup: Ratio | None = None  # time of eager ÷ its time
    kernel_ms: float | None = None  # median of the sum of its kernels on the device trace
    launches: int | None = None  # kernels, copies and fills on the trace; on a CPU, operations called
    moved_bytes: int | None = None  # that its operations or generated kernels must read and write
    dram_bytes: int | None = None  # that one call moves over the device's memory, by hardware counters
    agreement: Agreement | None = None
    generated: Generated | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Break:
    """Where torch.compile cut the model's graph."""

    place: str  # file:line
    reason: str


@dataclass(frozen=True)
class Roofs:
    """Ceilings measured on the device."""

    memory_gbs: float
    tflops: float
    by: str  # kind of arithmetic


@dataclass(frozen=True)
class Toggled:
    """One experiment."""

    model: str  # as the user named it
    inputs: tuple[str, ...]
    device: str
    on_gpu: bool
    torch: str
    dtype: str  # of the parameters; of the results where there are none
    ways: tuple[Way, ...]  # eager first
    breaks: tuple[Break, ...] | None
    flops: int | None  # of products, convolutions and attention in one eager call
    rounds: int
    settled: bool
    loading_s: float | None = None  # of the compiler itself, before any mode; None where no mode was asked for
    roofs: Roofs | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ToggleAnswer:
    """What was found, or what is wrong with the model or its inputs."""

    found: Toggled | None = None
    complaint: Complaint | None = None


ANSWER: Final = TypeAdapter(ToggleAnswer)
