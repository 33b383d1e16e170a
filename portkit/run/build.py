"""Builds one cell for a GPU that is absent: capture, resources, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from triton.backends import backends
from triton.backends.compiler import GPUTarget

from portkit.model import Build, Cell, CellResult, Direction, Evidence, KernelCase, Outcome, Stage, Status, Target
from portkit.run.calls import as_outputs, backward, differentiable, upstream_for
from portkit.run.capture import Recorder
from portkit.run.classify import classify, failing_line
from portkit.run.evaluate import work_of
from portkit.run.inputs import InputMaker, InputsTooLargeError
from portkit.run.loaded import disagreements
from portkit.run.miscompiled import miscompilation
from portkit.run.shim import Answers, ClaimDevice

_REAL_INPUT_BYTES = 512 * 2**20
"""Most bytes of inputs and upstream gradients that are made for real when host code reads values."""

_NO_LAUNCH = "the fused function launched no Triton kernel"
_NOT_RUN = "only built for the target, not run"


@dataclass(frozen=True)
class Builder:
    """What builds the cells of one case for one target in this process."""

    case: KernelCase
    recorder: Recorder
    answers: Answers
    mode: ClaimDevice
    seed: int

    def build_cell(self, cell: Cell) -> CellResult:
        """Capture the cell's launches, with the status that follows from them."""
        if missing := missing_backend(self.recorder.target):
            return CellResult(cell, Evidence.COMPILED, missing, nulls=_nulls(None, missing))
        make = InputMaker(self.seed, "meta")
        refusal = self._capture(cell, make)
        if refusal and _reads_values(refusal):
            self.recorder.clear()
            refusal = self._capture_with_values(cell, refusal, make.made_bytes)
        outcome = classify(refusal) if refusal else self.recorder.fatal()
        idle, build = self.recorder.idle, self.recorder.take()
        work, why_no_work = work_of(self.case, cell)
        return CellResult(
            cell,
            Evidence.COMPILED,
            judge_build(build, outcome, idle),
            build=build if build.launches else None,
            work=work,
            asked=dict(self.answers.asked),
            nulls={**_nulls(build, outcome), **self._doubts(build), **_left_out(idle), **why_no_work},
        )

    def _doubts(self, build: Build) -> dict[str, str]:
        return disagreements(build, self.recorder.target.architecture)

    def _capture(self, cell: Cell, make: InputMaker) -> BaseException | None:
        """Call the fused function; what it raises is the compiler's, the options' or its own refusal."""
        self.mode.move_to(make.device)
        self.recorder.gradients = cell.direction is Direction.BACKWARD
        try:
            with self.mode:
                self._call_fused(cell, make)
        except Exception as error:
            return error
        return None

    def _call_fused(self, cell: Cell, make: InputMaker) -> None:
        """Call the fused function; backward also runs its gradient."""
        inputs = self.case.inputs(make, cell.shape, cell.dtype)
        params = self.case.variants[cell.variant]
        if cell.direction is Direction.FORWARD:
            with torch.no_grad():
                as_outputs(self.case.fused(**inputs, **params))
            return
        leaves = {name: inputs[name].detach().requires_grad_() for name in differentiable(self.case, inputs)}
        outputs = as_outputs(self.case.fused(**{**inputs, **leaves}, **params))
        backward(outputs, list(leaves.values()), upstream_for(outputs, make))

    def _capture_with_values(self, cell: Cell, refusal: BaseException, made_bytes: int) -> BaseException | None:
        """Again on the CPU, unless too much was made before a value was read, or is made after it."""
        again: BaseException | None = InputsTooLargeError()
        if made_bytes <= _REAL_INPUT_BYTES:
            again = self._capture(cell, InputMaker(self.seed, "cpu", most_bytes=_REAL_INPUT_BYTES))
        if not isinstance(again, InputsTooLargeError):
            return again
        return RuntimeError(
            f"host code reads values of tensors ({failing_line(refusal)}), "
            f"and the inputs are too large to make for real (over {_REAL_INPUT_BYTES >> 20} MiB)"
        )


def judge_build(build: Build, refusal: Outcome | None, idle: Sequence[str] = ()) -> Outcome:
    """The outcome of a compiled cell: a refusal first, then the target's limits.

    Args:
        build: of all launches that run something.
        refusal: what ended the capture.
        idle: kernels that were launched with an empty grid.
    """
    if refusal is not None:
        return refusal
    if not build.launches:
        why = f"nothing runs: the grid of {', '.join(idle)} is empty" if idle else _NO_LAUNCH
        return Outcome(Status.CAPTURE_FAILED, Stage.CAPTURE, why)
    if miscompiled := miscompilation(build):
        return miscompiled
    if build.limits_broken:
        return Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, "; ".join(build.limits_broken))
    return Outcome(Status.BUILT)


def missing_backend(target: Target) -> Outcome | None:
    """The outcome where this Triton can't build for the target's vendor."""
    backend = target.architecture.triton_backend
    if any(each.compiler.supports_target(GPUTarget(backend, 0, 0)) for each in backends.values()):
        return None
    there = ", ".join(sorted(backends)) or "none"
    return Outcome(
        Status.BACKEND_MISSING,
        Stage.COMPILE,
        f"this Triton has no backend that builds for {target.vendor} ({backend}); there: {there}. "
        "Install Triton's own wheel from PyPI, which has amd and nvidia, in place of a vendor's",
    )


_VALUE_READS = ("meta tensor", "Meta tensors", "meta device", "register_meta", "Tensor.__format__")
"""What torch says where host code looks into a tensor that has no values."""


def _reads_values(error: BaseException) -> bool:
    """Whether host code looked into a tensor that has no values."""
    expected = isinstance(error, RuntimeError | TypeError | ValueError)
    return expected and any(words in str(error) for words in _VALUE_READS)


def _left_out(idle: Sequence[str]) -> dict[str, str]:
    if not idle:
        return {}
    return {"build.empty_grids": f"launches of {', '.join(idle)} with an empty grid run nothing and are left out"}


def _nulls(build: Build | None, outcome: Outcome | None) -> dict[str, str]:
    reasons = dict.fromkeys(("verdict", "timing", "counters"), _NOT_RUN)
    if build is None or not build.launches:
        return {**reasons, "build": outcome.message if outcome else "no kernel was built"}
    if build.tuning and not build.candidates:
        return {**reasons, "build": "no configuration of an autotuned kernel can run"}
    return reasons
