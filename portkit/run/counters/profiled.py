"""The program under the profiler: calls each function of each task within ranges.

``python -m portkit.run.counters.profiled FOLDER PARENT`` waits for its orders in the folder and
appends there what it does, as long as the process PARENT lives, which wants the counters. Outside
of a range nothing is profiled: compilation, tuning and warm-up come first, then the flush that the
timing uses, and the call, a few times over. Inputs and results lie in memory as they do for the
timing: copies of the inputs are taken in turn, and the last results stay alive. A task that raises
costs itself; one that leaves the device unusable ends the program, and another goes on without it.

Autograd runs on this thread here, since a range is its thread's.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from portkit.errors import CaseError
from portkit.model import CaseSource, Cell, Direction, KernelCase, Platform, Stage, Target
from portkit.run import stages
from portkit.run.baselines import calls_of
from portkit.run.calls import Upstream, timed_call, upstream_for
from portkit.run.classify import describe
from portkit.run.counters import Task, marker_ranges, nvtx_ranges
from portkit.run.counters.orders import ORDERS, PROGRESS, Kind, Orders, Step
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.pinned import device_answers, only_device
from portkit.run.reference import unfused
from portkit.run.scrub import scrub
from portkit.run.timing.events import Call
from portkit.run.timing.flush import Flush, flush_size, make_flush
from portkit.run.timing.places import at_places, results_that_fit, scattered
from portkit.run.timing.samples import FUSED

WARMUP = 3
"""Calls before the first that is counted, where the inputs have no copies; else twice as many as copies."""

FLUSHES = 4

_LOOK_SECONDS = 1.0
_ORDERS_SECONDS = 0.02

_RANGES: Final[Mapping[Platform, ModuleType]] = {Platform.CUDA: nvtx_ranges, Platform.ROCM: marker_ranges}
"""How the vendor's profiler is told which kernels are whose."""

Say = Callable[[Step], None]


def main(arguments: list[str]) -> int:
    """Work through the orders in a folder; 1 where the device became unusable."""
    folder = Path(arguments[0])
    say = _teller(folder / PROGRESS)
    say(Step(Kind.STARTED, text=str(os.getpid())))
    _end_with(int(arguments[1]))
    gc.freeze()  # what is loaded by now stays, and need not be looked at after each task
    orders = _wait_for_orders(folder / ORDERS)
    os.environ.update(only_device(orders.device_index, os.environ))  # before CUDA is initialised
    with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
        return 0 if work_through(orders, say) else 1


def _wait_for_orders(path: Path) -> Orders:
    while not path.exists():
        time.sleep(_ORDERS_SECONDS)
    return Orders.from_json(path.read_bytes())


def work_through(orders: Orders, say: Say) -> bool:
    """Count tasks in order, up to one that leaves the device unusable; False then."""
    load = functools.cache(load_case)
    begin_profiling(ranges_for(orders.target))
    for task in orders.tasks:
        say(Step(Kind.BEGUN, task.number))
        stages.listen(_stage_teller(task, say))
        try:
            _count(task, load, orders.target, say)
        except Exception as error:
            say(Step(Kind.FAILED, task.number, text=_cause(error)))
        say(Step(Kind.ENDED, task.number))
        _free()
        if not device_answers():
            return False
    return True


def _count(task: Task, load: Callable[[CaseSource], KernelCase], target: Target, say: Say) -> None:
    stages.enter(Stage.IMPORT)
    case, cell = load(task.source), task.cell
    stages.enter(Stage.INPUTS)
    make = InputMaker(task.seed, "cuda")
    inputs = case.inputs(make, cell.shape, cell.dtype)
    upstream = _upstream(case, cell, inputs, make)
    flush = _flush(flush_size(target))
    for function in task.functions:
        stages.enter(Stage.RUN)
        try:
            calls = _calls(case, cell, function, upstream)
            _call_in_ranges(_in_turn(calls, inputs), task.ranges_of(function), flush, ranges_for(target))
        except Exception as error:
            say(Step(Kind.FAILED, task.number, function, _cause(error)))
        else:
            say(Step(Kind.COUNTED, task.number, function))


def ranges_for(target: Target) -> ModuleType:
    """How the profiler of a target's vendor is told which kernels are whose."""
    return _RANGES[target.architecture.platform]


def begin_profiling(ranges: ModuleType) -> None:
    """Have the first kernel of the process counted, and not used: what the profiler sets up then is in its bytes."""
    with ranges.discarded():
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()


def _calls(
    case: KernelCase, cell: Cell, function: str, upstream: Upstream
) -> Callable[[Mapping[str, Any]], Callable[[], object]]:
    """What is counted of a function, on given inputs."""
    if function != FUSED:
        return calls_of(case, cell, function, upstream)
    params = case.variants[cell.variant]
    return lambda inputs: timed_call(lambda **given: case.fused(**given, **params), case, cell, inputs, upstream)


@functools.cache
def _flush(nbytes: int) -> Flush:
    """One for all tasks, read more than once: the first reads meet lines that are yet to be written back."""
    return replace(make_flush(nbytes), reads=FLUSHES)


def _in_turn(make: Callable[[Mapping[str, Any]], Callable[[], object]], inputs: Mapping[str, Any]) -> Iterator[Call]:
    """Calls on copies of the inputs, one after the other, each of them warmed up; results lie elsewhere each time."""
    places = at_places(lambda copies: {"": make(copies)}, inputs)
    calls = [place[""] for place in scattered(places, results_that_fit(places[0]))]
    for _, call in zip(range(max(WARMUP, 2 * len(calls))), itertools.cycle(calls), strict=False):
        call()
    return itertools.cycle(calls)


def _call_in_ranges(calls: Iterator[Call], names: Sequence[str], flush: Flush, ranges: ModuleType) -> None:
    stages.enter(Stage.TIMING)
    for name, call in zip(names, calls, strict=False):
        flush()
        torch.cuda.synchronize()
        with ranges.counted(name):
            call()
            torch.cuda.synchronize()


def _upstream(case: KernelCase, cell: Cell, inputs: dict[str, Any], make: InputMaker) -> Upstream:
    """Gradients that come in, as the measured cell had them."""
    if cell.direction is Direction.FORWARD:
        return ()
    forward = replace(cell, direction=Direction.FORWARD)
    return upstream_for([tensor for _, tensor in unfused(case, forward, inputs).named], make)


def _cause(error: Exception) -> str:
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "out of device memory under the profiler"
    return scrub(error.render() if isinstance(error, CaseError) else describe(error))


def _free() -> None:
    """Give back what a task held, so that the next finds as much memory as it did when it was measured."""
    gc.collect()
    with contextlib.suppress(RuntimeError):  # after a fault the device refuses even that
        torch.cuda.empty_cache()


def _stage_teller(task: Task, say: Say) -> Callable[[Stage], None]:
    return lambda stage: say(Step(Kind.STAGE, task.number, text=stage))


def _teller(path: Path) -> Say:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(step: Step) -> None:
        os.write(file, step.to_json())

    return say


def _end_with(parent: int) -> None:
    """End this process soon after that one has ended; the profiler is between the two, and tells nothing."""

    def look() -> None:
        while Path("/proc", str(parent)).exists():
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
