"""Runs a cell on the CUDA or ROCm device of this process: verdict, then time.

``torch.cuda`` serves both. A device fault leaves the process without a usable device;
the result is filled all the same, and whoever owns the process starts another.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from portkit.model import (
    Baseline,
    Build,
    Cell,
    CellResult,
    Evidence,
    KernelCase,
    Outcome,
    Shape,
    Stage,
    Status,
    Target,
)
from portkit.run import stages
from portkit.run.baselines import DeviceLostError, SampleError, Tried, Wanted, try_baselines
from portkit.run.calls import timed_call
from portkit.run.classify import classify, describe
from portkit.run.device_faults import names_fault
from portkit.run.device_state import open_monitor
from portkit.run.evaluate import Evaluation, Observe, Runner, StageFailed, evaluate, work_of
from portkit.run.families import nearest_small_shape
from portkit.run.loaded import disagreements
from portkit.run.miscompiled import miscompilation
from portkit.run.sanitize import Sanitized
from portkit.run.timing.engine import Options, measure
from portkit.run.timing.flush import flush_size
from portkit.run.timing.places import at_places
from portkit.run.timing.samples import FUSED, Samples
from portkit.run.timing.summary import summarize
from portkit.run.tree import map_tensors
from portkit.run.verify import worst_outcome

Sanitize = Callable[[Cell, Shape], Sanitized]
"""Runs a cell on a small shape under memory and race checks."""

IDLE = "a repeated call does nothing on the device: it returns what an earlier call made"
"""Why a function that keeps its results is not timed."""

_LOST = (
    "gpu is lost",
    "fallen off the bus",
    "no cuda-capable device",
    "no rocm-capable device",
    "busy or unavailable",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "device lost",
)
"""What CUDA, HIP, NVML and the driver say of a device that is gone or broken, in lower case."""

_LAUNCH = ("cuda error", "hip error", "triton error [")
"""How other errors of driver and runtime begin, in lower case."""


@contextlib.contextmanager
def _device_memory() -> Iterator[None]:
    """Give memory back once a cell's frames are gone; after a fault the device refuses even that.

    Where some is held even then, by frames in a cycle with an exception, it is collected.
    """
    before = torch.cuda.memory_allocated()
    try:
        yield
    finally:
        if torch.cuda.memory_allocated() > before:
            gc.collect()
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


@_device_memory()
def measure_cell(  # noqa: PLR0913 - all but three by keyword
    case: KernelCase,
    cell: Cell,
    target: Target,
    *,
    observe: Observe | None = None,
    seed: int = 0,
    sanitize: Sanitize | None = None,
    modes: tuple[str, ...] = (),
    baselines: Wanted | None = None,
) -> CellResult:
    """Judge a cell on the current device and time it against its baselines.

    Args:
        case: the case.
        cell: a cell of it.
        target: the SKU of the device; its caches size the flush.
        observe: opens a recorder of the launches of the fused function.
        seed: of the inputs.
        sanitize: runs a small shape of the cell under memory and race checks.
        modes: of timing, beside the two clocks: warm, graph.
        baselines: which ones; the unfused chain alone unless given.

    Returns:
        A filled result, whatever happened. There is a time only where the fused result
        was right, and a speedup only where the baseline was right too.

    Raises:
        DeviceLostError: a baseline left the device unusable; nothing is said of the cell.
    """
    work, nulls = work_of(case, cell)
    blank = CellResult(cell, Evidence.MEASURED, Outcome(Status.PASSED), work=work, nulls=nulls)
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
        nulls={**nulls, **done.nulls, **_doubts(done.build, target)},
        blobs={"fingerprint": done.fingerprint},
    )
    judged = _sanitized(judged, case, sanitize)
    if judged.outcome.status is not Status.PASSED:
        return replace(judged, nulls={**judged.nulls, "timing": f"not timed: {judged.outcome.status}"})
    wanted = baselines or Wanted()
    tried = try_baselines(case, cell, done, wanted)
    done = replace(done, run=None)  # the reference may take half of the device's memory
    while True:
        judged = replace(judged, baselines=tried.found, nulls={**judged.nulls, **tried.nulls})
        try:
            return _timed(judged, case, done, tried, Options(flush_size(target), modes))
        except SampleError as failed:
            if not wanted.device_answers():
                raise DeviceLostError(failed.name, failed.found) from failed
            tried = tried.without(failed.name, failed.found)


def _doubts(build: Build | None, target: Target) -> dict[str, str]:
    return {"build": "launches were not recorded"} if build is None else disagreements(build, target.architecture)


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
    if names_fault(text) or any(sign in text for sign in _LOST):
        return Outcome(Status.DEVICE_FAULT, stage, describe(error))
    if any(sign in text for sign in _LAUNCH):
        return Outcome(Status.LAUNCH_ERROR, stage, describe(error))
    if stage is not Stage.RUN:
        return None
    compiler = classify(error)
    return compiler if compiler.stage is Stage.COMPILE else None


def _timed(judged: CellResult, case: KernelCase, done: Evaluation, tried: Tried, options: Options) -> CellResult:
    stages.enter(Stage.TIMING)
    try:
        with torch.no_grad():
            places = at_places(lambda inputs: _functions(case, judged.cell, done, tried, inputs), done.inputs)
            samples = measure(places, options, open_monitor())
        idle = _idle(samples)
    except SampleError:  # a baseline's, and no fault of the cell
        raise
    except Exception as error:
        outcome = device_failure(error, Stage.TIMING) or Outcome(Status.LAUNCH_ERROR, Stage.TIMING, describe(error))
        return _untimed(judged, outcome)
    if FUSED in idle:
        return _untimed(judged, Outcome(Status.LAUNCH_ERROR, Stage.TIMING, IDLE))
    if idle:
        raise SampleError(idle[0], Baseline(Status.BASELINE_FAILED, IDLE))
    timing, nulls = summarize(samples)
    blobs = {**judged.blobs, "samples": samples.to_json()}
    return replace(judged, timing=timing, nulls={**judged.nulls, **nulls}, blobs=blobs)


def _untimed(judged: CellResult, outcome: Outcome) -> CellResult:
    return replace(judged, outcome=outcome, nulls={**judged.nulls, "timing": outcome.message})


def _idle(samples: Samples) -> list[str]:
    """Functions whose calls did nothing on the device, while those of others did."""
    idle = [name for name, kernels in samples.kernels.items() if not any(kernels)]
    return [] if len(idle) == len(samples.kernels) else idle


def _functions(
    case: KernelCase, cell: Cell, done: Evaluation, tried: Tried, inputs: Mapping[str, Any]
) -> dict[str, Callable[[], object]]:
    """What one sample times of the fused function and each baseline that was right."""
    params = case.variants[cell.variant]
    own = {name: map_tensors(torch.Tensor.clone, inputs[name]) for name in case.in_place}
    fused = timed_call(lambda **given: case.fused(**given, **params), case, cell, {**inputs, **own}, done.upstream)
    return {FUSED: fused, **tried.on(inputs)}
