"""Runs a cell's machine code in the instruction interpreter, and judges what it wrote.

The host function runs as it does for an absent GPU (:mod:`portkit.run.capture`), on tensors of
the CPU that claim the target; each launch is executed by :mod:`portkit.emulate` and not only
recorded. The calls whose outputs are compared bit by bit take different orders of waves, so a
result that depends on the order shows as one that does not repeat. An autotuned kernel runs in
the first of its configurations that the target's limits allow.

What is executed is the text that Triton's backend hands to the vendor's assembler: AMD's assembly, NVIDIA's PTX.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import triton
from packaging.version import Version

from portkit.emulate import ARCHITECTURES, SHARED_BYTES, Emulation, KeptLaunches, Options, Order, Pointer, run
from portkit.model import Build, Cell, CellResult, Direction, Evidence, KernelCase, Outcome, Stage, Status, Target
from portkit.run.allocation import refused_unrolled
from portkit.run.build import judge_build, missing_backend
from portkit.run.capture import DryLaunch, Recorder, capture
from portkit.run.classify import classify, describe, failing_line
from portkit.run.evaluate import RUNS, Evaluation, Runner, StageFailed, evaluate, run_unjudged, work_of
from portkit.run.jobs import KEPT_LAUNCHES
from portkit.run.launch_values import launch_values
from portkit.run.limits import BUDGET_OPTION, LANE_INSTRUCTIONS
from portkit.run.scrub import scrub
from portkit.run.shim import Answers, ClaimDevice
from portkit.run.verify import worst_outcome

NULLS = {"timing": "emulated: time is not modelled", "counters": "emulated: nothing is counted"}

_ORDERS = (Order.CONVERGED, Order.SEEDED, Order.SEEDED)
"""Orders of the first calls in turn; later ones take the first, which is the fastest."""

_ORDER_DEPENDENT = Outcome(
    Status.NONDETERMINISTIC,
    Stage.VERIFY,
    "the outputs change with the order in which waves run, and no kernel has atomic operations",
)


_BUILT = Outcome(Status.BUILT)


def kept_launches() -> KeptLaunches | None:
    """The folder that ``PORTKIT_KEPT_LAUNCHES`` names, if it names one; an equal launch is then taken from there."""
    folder = os.environ.get(KEPT_LAUNCHES)
    return KeptLaunches(Path(folder)) if folder else None


_KEPT = kept_launches()  # while the emulator's files are those that are being imported


def compiler_fences_copies() -> bool:
    """Whether Triton puts a proxy fence behind ``cp.async`` where ``wgmma`` or ``tcgen05`` reads what it wrote."""
    return Version(triton.__version__) >= Version("3.7")


def _text(outcome: Outcome) -> str:
    return f"{outcome.status}: {outcome.message}"


class EmulationEnded(Exception):  # noqa: N818  (what a kernel did, not an error of portkit)
    """A launch did what no GPU lets pass, or what is not modelled; carries its outcome."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.message)


@dataclass
class Emulator:
    """Executes the launches of one cell after another, and keeps what was found in them."""

    target: Target
    budget: int = LANE_INSTRUCTIONS  # lane-instructions of one launch
    calls: int = 0  # of the fused function so far
    launches: int = 0
    lane_instructions: int = 0
    atomic: bool = False  # whether any kernel has atomic operations, whose order may show in sums
    found: list[Outcome] = field(default_factory=list)
    kept: KeptLaunches | None = field(default_factory=lambda: _KEPT)

    def begin(self) -> None:
        """Forget the cell before."""
        self.calls, self.launches, self.lane_instructions, self.atomic = 0, 0, 0, False
        self.found = []
        if self.kept:
            self.kept.taken = 0

    def counting(self, case: KernelCase) -> KernelCase:
        """The case, whose calls are counted from here on."""

        def fused(**given: Any) -> Any:
            self.calls += 1
            return case.fused(**given)

        return replace(case, fused=fused)

    def execute(self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Run one launch; tensors are written in place.

        Raises:
            EmulationEnded: the kernel did not come to its end, or a family of inputs shows a fault.
        """
        try:
            done = self._run(kernel, grid, arguments)
        except Exception as error:  # not the compiler's fault, from whose launch path it would come
            why = f"the instruction interpreter failed: {describe(error)} at {failing_line(error)}"
            self.end(Outcome(Status.CAPTURE_FAILED, Stage.RUN, f"{kernel.name}: {why}"))
        if self.calls <= 1:  # later calls say the same
            sys.stdout.write("".join(done.said))
        self.launches += 1
        self.lane_instructions += done.counts.lane_instructions
        self._judge(kernel.name, done, math.prod(grid))

    def _run(self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[Any]) -> Emulation:
        architecture, meta = self.target.architecture.name, kernel.metadata
        known = ARCHITECTURES[architecture]
        text = kernel.asm[known.text]
        self.atomic = self.atomic or any(name in text for name in known.atomic)
        values = launch_values(kernel.src.signature, arguments, getattr(meta, "tensordesc_meta", None))
        if scratch := getattr(meta, "global_scratch_size", 0):
            size = scratch * math.prod(grid) * getattr(meta, "num_ctas", 1)
            values.append(Pointer(np.zeros(size, np.uint8), written=False, name="global scratch"))
        return (self.kept.run if self.kept else run)(
            text,
            architecture,
            grid,
            values,
            waves=meta.num_warps,
            shared_bytes=meta.shared,
            options=Options(
                order=self._order(), seed=self.calls, budget=self.budget, fenced_copies=compiler_fences_copies()
            ),
        )

    def _order(self) -> Order:
        return _ORDERS[self.calls - 1] if 0 < self.calls <= RUNS else Order.CONVERGED

    def _judge(self, name: str, done: Emulation, workgroups: int) -> None:
        """Keep what was found; it ends a call that did not run to its end, and that of a family, which has one line."""
        if done.outcome.status is Status.PASSED:
            return
        remedy = f"; {BUDGET_OPTION} allows more" if done.over_budget else ""
        outcome = replace(done.outcome, message=scrub(f"{name}: {done.outcome.message}{remedy}"))
        if done.counts.workgroups < workgroups or self.calls > RUNS:
            self.end(outcome)
        self.found.append(outcome)

    def end(self, outcome: Outcome) -> NoReturn:
        """End the call; the outcome is kept though host code may catch what is raised."""
        self.found.append(outcome)
        raise EmulationEnded(outcome)

    @property
    def texts(self) -> list[str]:
        """What was found, each once."""
        return list(dict.fromkeys(map(_text, self.found)))

    @property
    def summary(self) -> str:
        """What ran and what was seen, in words."""
        seen = f"{len(self.texts)} findings" if self.found else "nothing found"
        return (
            f"instruction interpreter: {seen} in {self.launches} launches{self._taken}, "
            f"{self.lane_instructions:,} lane-instructions"
        )

    @property
    def _taken(self) -> str:
        taken = self.kept.taken if self.kept else 0
        return f" ({taken} of them equal to others, which were executed)" if taken else ""


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
        if 0 not in (gx, gy, gz):
            with torch._C.DisableTorchFunction():
                self._emulator.execute(self._kernel, (gx, gy, gz), rest[5:])


@dataclass
class _Launches:
    """The recorder of a call, which also says whether its build could run on the target."""

    recorder: Recorder
    outcome: Outcome | None = None  # None: not taken

    @property
    def gradients(self) -> bool:
        """Whether the launches are those of a backward cell."""
        return self.recorder.gradients

    @gradients.setter
    def gradients(self, value: bool) -> None:
        self.recorder.gradients = value

    def take(self) -> Build:
        """The build of the launches; as for a compiled cell, nothing launched is no build."""
        idle, fatal = self.recorder.idle, self.recorder.fatal()
        build = self.recorder.take()
        self.outcome = judge_build(build, fatal, idle)
        return build

    def over_limits(self) -> list[Outcome]:
        """The limits of the target that launches broke, though the call may not have come to its end."""
        outcome = self.outcome or judge_build(self.recorder.take(), None)
        return [outcome] if outcome.status is Status.OUT_OF_RESOURCES else []


def emulate_from_here(
    recorder: Recorder, answers: Answers, mode: ClaimDevice, budget: int = LANE_INSTRUCTIONS
) -> Emulator:
    """From here on, every launch in this process is executed by the instruction interpreter.

    Args:
        recorder: of the launches.
        answers: to what host code asks of the target.
        mode: that claims the target for tensors.
        budget: lane-instructions of one launch; one of more is refused.
    """
    recorder.chosen_only = True  # an autotuner's other configurations would not be executed
    emulator = Emulator(recorder.target, budget)
    capture(recorder, answers, mode, launch=lambda kernel: _EmulatedLaunch(kernel, mode, emulator, recorder))
    return emulator


def emulate_cell(case: KernelCase, cell: Cell, emulator: Emulator, recorder: Recorder, *, seed: int = 0) -> CellResult:
    """Run a cell's machine code and judge its outputs as on a device.

    Args:
        case: of :meth:`Emulator.counting`; its ``fused`` runs under the mode that claims the target.
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
    launches = _Launches(recorder)
    try:
        with _launchable(emulator):
            done = evaluate(case, cell, _runner(launches), seed=seed)
        result = _judged(blank, done, launches.outcome or _BUILT, emulator)
    except StageFailed as failed:
        result = _ended(blank, worst_outcome([*launches.over_limits(), failed.outcome]), emulator)
        if failed.outcome.status is Status.REFERENCE_FAILED and not emulator.calls:
            result = _unjudged(result, case, launches, emulator, seed)
    return replace(result, asked=dict(recorder.answers.asked) if recorder.answers else {})


def _launchable(emulator: Emulator) -> contextlib.AbstractContextManager[None]:
    """Meanwhile, what can't be launched is not built through passes that take minutes.

    In the first call that is what is over the target's limit. Later ones are of the input families, whose shape is
    another: they say something of values all the same, where there is memory to execute them.
    """
    arch = emulator.target.architecture
    limit = arch.shared_bytes_per_block_max
    return refused_unrolled(lambda: limit if emulator.calls <= 1 else SHARED_BYTES.most, limit, arch.triton_backend)


def _ended(blank: CellResult, outcome: Outcome, emulator: Emulator) -> CellResult:
    why = f"{outcome.status} at {outcome.stage}"
    nulls = {**blank.nulls, "verdict": why, "build": why}
    return replace(blank, outcome=outcome, nulls=nulls, blobs=_findings(emulator))


def _unjudged(ended: CellResult, case: KernelCase, launches: _Launches, emulator: Emulator, seed: int) -> CellResult:
    """The result of a cell whose reference failed, with what its machine code shows without one.

    Its status stays: nobody knows whether what was computed is right.
    """
    if (
        ended.cell.direction is Direction.BACKWARD
    ):  # the gradients that come in have the form of the reference's outputs
        return ended
    build, told = None, []
    try:
        ran, repeatable = run_unjudged(case, ended.cell, _runner(launches), seed=seed)
        build, told = ran.build, list(ran.beside)
        if not repeatable and not emulator.atomic:
            told.append(_text(_ORDER_DEPENDENT))
    except StageFailed as failed:
        told.append(_text(failed.outcome))
    told = list(dict.fromkeys((*emulator.texts, *told)))
    seen = "; ".join(told) or "no fault that shows without a reference"
    outcome = replace(ended.outcome, message=f"{ended.outcome.message}; its machine code was run all the same: {seen}")
    nulls = {name: why for name, why in ended.nulls.items() if name != "build" or build is None}
    return replace(ended, outcome=outcome, build=build, nulls=nulls, blobs=_findings(emulator))


def _judged(blank: CellResult, done: Evaluation, built: Outcome, emulator: Emulator) -> CellResult:
    found = [done.outcome, *emulator.found]
    if not built.status.good:
        found.append(built)
    if done.verdict.repeatable is False and not emulator.atomic:
        found.append(_ORDER_DEPENDENT)
    return replace(
        blank,
        outcome=worst_outcome([each for each in found if not each.status.good]),
        verdict=replace(done.verdict, sanitizer=emulator.summary),
        build=done.build,
        nulls={**blank.nulls, **done.nulls, **_open_choice(done.build)},
        blobs={"fingerprint": done.fingerprint, **_findings(emulator)},
    )


def _open_choice(build: Build | None) -> dict[str, str]:
    if build is None or build.tuning is None:
        return {}
    return {
        "verdict.configurations": "of an autotuner's configurations only the first that can run was built and emulated"
    }


def _findings(emulator: Emulator) -> dict[str, bytes]:
    return {"findings": "\n".join(emulator.texts).encode()} if emulator.found else {}


def _runner(launches: _Launches) -> Runner:
    @contextlib.contextmanager
    def observe() -> Iterator[_Launches]:
        yield launches

    return Runner("cpu", _explain, observe, hurried=True)


def _explain(error: BaseException, stage: Stage) -> Outcome | None:
    """What the interpreter, the compiler or the shim says; what other stages raise is their own failure."""
    if isinstance(error, EmulationEnded):
        return error.outcome
    return classify(error) if stage is Stage.RUN else None
