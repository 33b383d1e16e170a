"""Runs a cell's machine code in the instruction interpreter, and judges what it wrote.

The host function runs as it does for an absent GPU (:mod:`portkit.run.capture`), on tensors of
the CPU that claim the target; each launch is executed by :mod:`portkit.emulate` and not only
recorded. The calls whose outputs are compared bit by bit take different orders of waves, so a
result that depends on the order shows as one that does not repeat. An autotuned kernel runs in
the first of its configurations that the target's limits allow.

Only AMD's machine code is executed so far: the assembly text that Triton's backend assembles.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from portkit.emulate import Emulation, Options, Order, Pointer, Value, run
from portkit.model import Cell, CellResult, Evidence, KernelCase, Outcome, Stage, Status, Target, Verdict
from portkit.run.build import missing_backend
from portkit.run.capture import DryLaunch, Recorder, capture
from portkit.run.classify import classify
from portkit.run.evaluate import RUNS, Evaluation, Runner, StageFailed, evaluate, work_of
from portkit.run.guards import extent
from portkit.run.miscompiled import miscompilation
from portkit.run.shim import Answers, ClaimDevice
from portkit.run.verify import worst_outcome

BUDGET = 1_000_000_000
"""Lane-instructions of one launch; more is refused, since it would take minutes."""

NULLS = {"timing": "emulated: time is not modelled", "counters": "emulated: nothing is counted"}

_ORDERS = (Order.CONVERGED, Order.REVERSE, Order.SEEDED)
"""Orders of the first calls in turn; later ones take the first, which is the fastest."""


class EmulationEnded(Exception):  # noqa: N818  (what a kernel did, not an error of portkit)
    """A launch did what no GPU lets pass, or what is not modelled; carries its outcome."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.message)


@dataclass
class Emulator:
    """Executes the launches of one cell after another, and keeps what was found in them."""

    target: Target
    calls: int = 0  # of the fused function so far
    launches: int = 0
    lane_instructions: int = 0
    found: list[Outcome] = field(default_factory=list)

    def begin(self) -> None:
        """Forget the cell before."""
        self.calls, self.launches, self.lane_instructions, self.found = 0, 0, 0, []

    def execute(self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Run one launch; tensors are written in place.

        Raises:
            EmulationEnded: the kernel did not come to its end.
        """
        done = run(
            kernel.asm["amdgcn"],
            self.target.architecture.name,
            grid,
            _values(kernel.src.signature.values(), arguments),
            waves=kernel.metadata.num_warps,
            shared_bytes=kernel.metadata.shared,
            options=Options(order=self._order(), seed=self.calls, budget=BUDGET),
        )
        self.launches += 1
        self.lane_instructions += done.counts.lane_instructions
        self._judge(kernel.name, done, math.prod(grid))

    def _order(self) -> Order:
        return _ORDERS[self.calls - 1] if 0 < self.calls <= RUNS else Order.CONVERGED

    def _judge(self, name: str, done: Emulation, workgroups: int) -> None:
        if done.outcome.status is Status.PASSED:
            return
        outcome = replace(done.outcome, message=f"{name}: {done.outcome.message}")
        if done.counts.workgroups < workgroups:
            raise EmulationEnded(outcome)
        self.found.append(outcome)

    @property
    def summary(self) -> str:
        """What ran and what was seen, in words."""
        seen = f"{len(self.found)} findings" if self.found else "nothing found"
        return (
            f"instruction interpreter: {seen}; {self.launches} launches, {self.lane_instructions:,} lane-instructions"
        )


class _EmulatedLaunch(DryLaunch):
    """A launch that is executed after what the host does for it."""

    def __init__(self, kernel: Any, mode: ClaimDevice, emulator: Emulator, recorder: Recorder) -> None:
        super().__init__(kernel, mode)
        self._emulator, self._recorder = emulator, recorder

    def __call__(self, gx: int, gy: int, gz: int, stream: Any, *rest: Any) -> None:
        """Takes what Triton's launchers take: after five more, the kernel's arguments."""
        super().__call__(gx, gy, gz, stream, *rest)
        if self._recorder.trial or self._recorder.silent:  # an autotuner's: its choice runs after them
            return
        if getattr(self._kernel.metadata, "global_scratch_size", 0):
            raise EmulationEnded(Outcome(Status.UNSUPPORTED, Stage.RUN, f"{self._kernel.name} asks for global scratch"))
        if 0 not in (gx, gy, gz):
            with torch._C.DisableTorchFunction():
                self._emulator.execute(self._kernel, (gx, gy, gz), rest[5:])


def emulate_from_here(recorder: Recorder, answers: Answers, mode: ClaimDevice) -> Emulator:
    """From here on, every launch in this process is executed by the instruction interpreter."""
    emulator = Emulator(recorder.target)
    capture(recorder, answers, mode, launch=lambda kernel: _EmulatedLaunch(kernel, mode, emulator, recorder))
    return emulator


def emulate_cell(case: KernelCase, cell: Cell, emulator: Emulator, recorder: Recorder, *, seed: int = 0) -> CellResult:
    """Run a cell's machine code and judge its outputs as on a device.

    Args:
        case: its ``fused`` runs under the mode that claims the target.
        cell: of a small shape.
        emulator: as :func:`emulate_from_here` gives it.
        recorder: of the same process.
        seed: of the inputs.
    """
    work, no_work = work_of(case, cell)
    blank = CellResult(cell, Evidence.EMULATED, Outcome(Status.PASSED), work=work, nulls={**NULLS, **no_work})
    if missing := missing_backend(emulator.target):
        return replace(blank, outcome=missing)
    torch.set_num_threads(1)  # small tensors; other workers have the other cores
    emulator.begin()
    recorder.clear()
    try:
        done = evaluate(_counted(case, emulator), cell, _runner(recorder), seed=seed)
    except StageFailed as failed:
        why = f"{failed.outcome.status} at {failed.outcome.stage}"
        return replace(blank, outcome=failed.outcome, nulls={**blank.nulls, "verdict": why, "build": why})
    return _judged(blank, done, emulator)


def _judged(blank: CellResult, done: Evaluation, emulator: Emulator) -> CellResult:
    lacking = miscompilation(done.build)
    verdict: Verdict = replace(done.verdict, sanitizer=emulator.summary)
    return replace(
        blank,
        outcome=worst_outcome([done.outcome, *emulator.found, *([lacking] if lacking else [])]),
        verdict=verdict,
        build=done.build,
        nulls={**blank.nulls, **done.nulls},
        blobs={"fingerprint": done.fingerprint, **_findings(emulator.found)},
    )


def _findings(found: Sequence[Outcome]) -> dict[str, bytes]:
    texts = dict.fromkeys(f"{each.status}: {each.message}" for each in found)
    return {"findings": "\n".join(texts).encode()} if texts else {}


def _counted(case: KernelCase, emulator: Emulator) -> KernelCase:
    """The case, whose calls the emulator counts."""

    def fused(**given: Any) -> Any:
        emulator.calls += 1
        return case.fused(**given)

    return replace(case, fused=fused)


def _runner(recorder: Recorder) -> Runner:
    @contextlib.contextmanager
    def observe() -> Iterator[Recorder]:
        yield recorder

    return Runner("cpu", _explain, observe, hurried=True)


def _explain(error: BaseException, stage: Stage) -> Outcome | None:
    """What the emulator or the compiler says; anything else is the stage's own failure."""
    if isinstance(error, EmulationEnded):
        return error.outcome
    if isinstance(error, MemoryError):
        return Outcome(Status.LAUNCH_ERROR, stage, f"out of memory at {stage}")
    if stage is not Stage.RUN or not isinstance(error, Exception):
        return None
    compiler = classify(error)
    return compiler if compiler.stage is Stage.COMPILE else None


def _values(types: Any, arguments: Sequence[Any]) -> list[Value]:
    """Values of the kernel's own arguments, in order; constants are in the binary already."""
    return [value for kind, given in zip(types, arguments, strict=False) for value in _flat(kind, given)]


def _flat(kind: Any, given: Any) -> Iterator[Value]:
    if kind == "constexpr":
        return
    if isinstance(kind, tuple):
        yield from _values(kind, given)
    elif isinstance(kind, str) and kind.startswith("tensordesc"):
        yield from _descriptor(given)
    elif given is None or isinstance(given, bool | int | float):
        yield given
    else:
        yield _pointer(getattr(given, "base", given))


def _descriptor(given: Any) -> Iterator[Value]:
    """A host descriptor as Triton's AMD launcher passes it: whole, then shape and strides again.

    Source: make_tensordesc_arg of Triton's AMD driver.
    """
    shape = (*map(int, given.shape), *map(int, given.strides))
    yield _pointer(given.base)
    yield from shape
    yield given.padding == "nan"
    if hasattr(given, "round_f32_to_tf32"):
        yield bool(given.round_f32_to_tf32)
    yield from shape


def _pointer(tensor: torch.Tensor) -> Pointer:
    """A tensor's address within the memory that the code has, without guard bands."""
    first, last = extent(tensor)
    start = tensor.untyped_storage().data_ptr()
    raw = (ctypes.c_uint8 * max(last - first, 0)).from_address(start + first)
    offset = tensor.storage_offset() * tensor.element_size() - first
    return Pointer(np.ctypeslib.as_array(raw), offset)
