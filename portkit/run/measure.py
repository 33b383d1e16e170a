"""Runs a cell on the CUDA or ROCm device of this process: verdict, then time.

``torch.cuda`` serves both. A device fault leaves the process without a usable device;
the result is filled all the same, and whoever owns the process starts another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from portkit.model import (
    Cell,
    CellResult,
    Direction,
    Evidence,
    KernelCase,
    Outcome,
    Shape,
    Stage,
    Status,
    Target,
    Verdict,
)
from portkit.run import stages
from portkit.run.calls import as_outputs, backward, differentiable
from portkit.run.classify import classify, describe
from portkit.run.device_state import open_monitor
from portkit.run.evaluate import Evaluation, Observe, Runner, StageFailed, evaluate, work_of
from portkit.run.families import nearest_small_shape
from portkit.run.miscompiled import miscompilation
from portkit.run.sanitize import Sanitized
from portkit.run.timing.engine import Options, measure
from portkit.run.timing.flush import flush_size
from portkit.run.timing.samples import FUSED, Samples
from portkit.run.timing.summary import summarize
from portkit.run.verify import worst_outcome

Sanitize = Callable[[Cell, Shape], Sanitized]
"""Runs a cell on a small shape under memory and race checks."""

_FAULTS = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "illegal address",
    "unspecified launch failure",
    "device-side assert",
    "hardware exception",
    "memory access fault",
)
"""What CUDA and HIP call a fault of the running kernel, in lower case."""

_LAUNCH = ("cuda error", "hip error", "triton error [")
"""How other errors of driver and runtime begin, in lower case."""


def measure_cell(
    case: KernelCase,
    cell: Cell,
    target: Target,
    *,
    observe: Observe | None = None,
    seed: int = 0,
    sanitize: Sanitize | None = None,
    modes: tuple[str, ...] = (),
) -> CellResult:
    """Judge a cell on the current device and time it against eager.

    Args:
        case: the case.
        cell: a cell of it.
        target: the SKU of the device; its caches size the flush.
        observe: opens a recorder of the launches of the fused function.
        seed: of the inputs.
        sanitize: runs a small shape of the cell under memory and race checks.
        modes: of timing, beside the two clocks: warm, graph.

    Returns:
        A filled result, whatever happened. There is a time only where the fused result
        was right, and a speedup only where the baseline was right too.
    """
    work, nulls = work_of(case, cell)
    blank = CellResult(cell, Evidence.MEASURED, Outcome(Status.PASSED), work=work, nulls=nulls)
    with _device_memory():
        try:
            done = evaluate(case, cell, Runner("cuda", device_failure, observe), seed=seed)
        except StageFailed as failed:
            why = f"{failed.outcome.status} at {failed.outcome.stage}"
            return replace(
                blank, outcome=failed.outcome, nulls={**nulls, **dict.fromkeys(("build", "verdict", "timing"), why)}
            )
        lacking = miscompilation(done.build)
        judged = replace(
            blank,
            outcome=worst_outcome([done.outcome, *([lacking] if lacking else [])]),
            verdict=done.verdict,
            build=done.build,
            nulls={**nulls, **done.nulls, **_nulls(done)},
            blobs={"fingerprint": done.fingerprint},
        )
        return _timed(_sanitized(judged, case, sanitize), case, done, target, modes)


def _sanitized(judged: CellResult, case: KernelCase, sanitize: Sanitize | None) -> CellResult:
    if sanitize is None or judged.verdict is None:
        return judged
    said = sanitize(judged.cell, nearest_small_shape(case, judged.cell.shape))
    nulls = {**judged.nulls, "verdict.sanitizer": said.why_not} if said.why_not else judged.nulls
    verdict = replace(judged.verdict, sanitizer=said.text)
    return replace(judged, verdict=verdict, nulls=nulls, outcome=worst_outcome([judged.outcome, said.outcome]))


def device_failure(error: BaseException, stage: Stage) -> Outcome | None:
    """The outcome of an exception that device, driver or compiler explain, else None."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return Outcome(Status.LAUNCH_ERROR, stage, f"out of device memory at {stage}")
    if isinstance(error, OutOfResources):
        return Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, describe(error))
    text = str(error).lower()
    if any(fault in text for fault in _FAULTS):
        return Outcome(Status.DEVICE_FAULT, stage, describe(error))
    if any(sign in text for sign in _LAUNCH):
        return Outcome(Status.LAUNCH_ERROR, stage, describe(error))
    if stage is not Stage.RUN:
        return None
    compiler = classify(error)
    return compiler if compiler.stage is Stage.COMPILE else None


def _timed(
    judged: CellResult, case: KernelCase, done: Evaluation, target: Target, modes: tuple[str, ...]
) -> CellResult:
    if judged.outcome.status is not Status.PASSED:
        return replace(judged, nulls={**judged.nulls, "timing": f"not timed: {judged.outcome.status}"})
    stages.enter(Stage.TIMING)
    try:
        samples = _samples(_functions(case, judged, done), Options(flush_size(target), modes))
    except Exception as error:
        outcome = device_failure(error, Stage.TIMING) or Outcome(Status.LAUNCH_ERROR, Stage.TIMING, describe(error))
        return replace(judged, outcome=outcome, nulls={**judged.nulls, "timing": outcome.message})
    timing, nulls = summarize(samples)
    blobs = {**judged.blobs, "samples": samples.to_json()}
    return replace(judged, timing=timing, nulls={**judged.nulls, **nulls}, blobs=blobs)


def _samples(functions: Mapping[str, Callable[[], object]], options: Options) -> Samples:
    with torch.no_grad():
        return measure(functions, options, open_monitor())


def _functions(case: KernelCase, judged: CellResult, done: Evaluation) -> dict[str, Callable[[], object]]:
    """What is timed: the fused function and every baseline that was right."""
    params = case.variants[judged.cell.variant]
    functions = {FUSED: _timed_call(case, judged.cell, done, lambda **given: case.fused(**given, **params))}
    if "speedup.eager" not in judged.nulls:
        functions["eager"] = _timed_call(case, judged.cell, done, case.reference)
    return functions


def _timed_call(case: KernelCase, cell: Cell, done: Evaluation, function: Callable[..., Any]) -> Callable[[], object]:
    """What one sample times: the function; backward, its gradient alone, of a forward pass made before."""
    if cell.direction is Direction.FORWARD:
        return lambda: function(**done.inputs)
    leaves = {name: done.inputs[name].detach().requires_grad_() for name in differentiable(case, done.inputs)}
    with torch.enable_grad():
        outputs = as_outputs(function(**{**done.inputs, **leaves}))
    return lambda: backward(outputs, list(leaves.values()), done.upstream, keep=True)


def _nulls(done: Evaluation) -> dict[str, str]:
    nulls = {} if done.build else {"build": "launches were not recorded"}
    if _baseline_is_wrong(done.verdict):
        nulls["speedup.eager"] = "the unfused chain is not finite where the float64 reference is"
    return nulls


def _baseline_is_wrong(verdict: Verdict) -> bool:
    return any(output.unfused_error is None for output in verdict.outputs)


@contextlib.contextmanager
def _device_memory() -> Iterator[None]:
    """Give cached memory back afterwards; after a fault the device refuses even that."""
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()
