"""Tries the baselines of a cell: first call, judgement, and what of them is timed.

A baseline is judged as the fused function is: by the same limit against the same float64
reference. One that is missing, fails or is wrong is a filled result with no speedup; it
changes nothing of the cell.

Each runs on copies of its own. Where the first call wrote to its inputs, it keeps such
copies for its samples, too; others share the cell's inputs.

A baseline may hang, crash, or leave the device unusable. So its name is told before its
first call: whoever watches over the process can run the cell again without it.
"""

from __future__ import annotations

import functools
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module, util
from typing import Any

import torch

from portkit.baselines import Library, LibraryCall, pytorch
from portkit.model import Baseline, Cell, Direction, KernelCase, OutputError, Stage, Status
from portkit.plan.baselines import COMPILE, EAGER, MAX_AUTOTUNE
from portkit.run import stages
from portkit.run.calls import Results, Upstream, call, timed_call
from portkit.run.classify import describe
from portkit.run.compiler_hang import known_hang
from portkit.run.evaluate import Evaluation
from portkit.run.guards import same_bits
from portkit.run.preload import keep_caches
from portkit.run.reference import device_of
from portkit.run.scrub import scrub
from portkit.run.torch_settings import kept_settings
from portkit.run.tree import map_tensors, named_tensors
from portkit.run.verify import judge_baseline
from portkit.run.watched import settle

MESSAGE_CHARACTERS = 200
"""Most of a cause: a record has room for a few."""

_AUTOTUNE = "max-autotune-no-cudagraphs"
"""Its configurations without its graphs: a replayed graph is another way of calling, with times of its own."""


@dataclass(frozen=True)
class Wanted:
    """Baselines that a cell is to have, and what is known of them."""

    names: tuple[str, ...] = (EAGER,)  # in the order of the samples
    known: Mapping[str, Baseline] = field(default_factory=dict)  # those that ended an earlier process
    trying: Callable[[str], None] = lambda name: None  # told each before its first call
    device_answers: Callable[[], bool] = lambda: True  # asked after one that raised


@dataclass(frozen=True)
class Tried:
    """What became of the baselines."""

    found: Mapping[str, Baseline]
    calls: Mapping[str, Callable[[], object]]  # what one sample times, of those that were right
    trials: Mapping[str, _Trial] = field(default_factory=dict)  # theirs

    def on(self, inputs: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
        """The same calls on other inputs of the same values, which lie elsewhere.

        They raise :class:`SampleError` where a baseline does.
        """
        return {name: _blaming(name, trial, trial.timed(inputs)) for name, trial in self.trials.items()}

    def without(self, name: str, found: Baseline) -> Tried:
        """The others, of one that failed after it was right."""
        calls = {other: call for other, call in self.calls.items() if other != name}
        trials = {other: trial for other, trial in self.trials.items() if other != name}
        return Tried({**self.found, name: found}, calls, trials)

    @property
    def nulls(self) -> dict[str, str]:
        """Why there is no speedup over the others."""
        return {
            f"speedup.{name}": f"{each.status}: {each.message}" for name, each in self.found.items() if not _right(each)
        }


class DeviceLostError(Exception):
    """A baseline left the device unusable for this process."""

    def __init__(self, name: str, found: Baseline) -> None:
        self.name = name
        self.found = found
        super().__init__(f"{name}: {found.message}")


class SampleError(Exception):
    """A baseline that was right raised among the samples."""

    def __init__(self, name: str, found: Baseline) -> None:
        self.name = name
        self.found = found
        super().__init__(f"{name}: {found.message}")


def try_baselines(case: KernelCase, cell: Cell, done: Evaluation, wanted: Wanted) -> Tried:
    """Call and judge each baseline of a cell that passed.

    Args:
        case: the case.
        cell: a cell of it.
        done: its evaluation, with the reference.
        wanted: which ones.

    Raises:
        DeviceLostError: the device no longer answers after one of them.
    """
    _fresh_compiler(replace(cell, variant=""))
    found: dict[str, Baseline] = {}
    calls: dict[str, Callable[[], object]] = {}
    trials: dict[str, _Trial] = {}
    for name in wanted.names:
        if name in wanted.known:
            found[name] = wanted.known[name]
            continue
        trial = _Trial(case, cell, done, _function(case, name))
        found[name], timed = _first_call(name, trial, wanted)
        if timed:
            calls[name], trials[name] = timed, replace(trial, done=replace(done, run=None))
    return Tried(found, calls, trials)


def calls_of(
    case: KernelCase, cell: Cell, name: str, upstream: Upstream = ()
) -> Callable[[Mapping[str, Any]], Callable[[], object]]:
    """What one sample times of a baseline, which was right before, on inputs that it may write to.

    Args:
        case: the case.
        cell: a cell of it.
        name: of the baseline.
        upstream: for backward, the gradients that come in.
    """
    _fresh_compiler(replace(cell, variant=""))
    function = _function(case, name)
    return lambda inputs: _sampled(function, case, cell, inputs, upstream)


def _sampled(
    function: Callable[..., Any], case: KernelCase, cell: Cell, inputs: Mapping[str, Any], upstream: Upstream
) -> Callable[[], object]:
    if isinstance(function, LibraryCall) and function.prepare and cell.direction is Direction.FORWARD:
        inputs, function = function.prepare(**inputs), function.function
    return timed_call(function, case, cell, inputs, upstream)


def _right(found: Baseline) -> bool:
    return found.status is Status.PASSED


def _function(case: KernelCase, name: str) -> Callable[..., Any]:
    if name == EAGER:
        return case.reference
    if name == COMPILE:
        return pytorch.compiled(case.reference)
    if name == MAX_AUTOTUNE:
        return pytorch.compiled(case.reference, mode=_AUTOTUNE)
    return case.baselines[name]


def _first_call(name: str, trial: _Trial, wanted: Wanted) -> tuple[Baseline, Callable[[], object] | None]:
    """What became of a baseline, and what one sample times where it was right."""
    library = trial.library
    if library and not library.installed:
        return Baseline(Status.BACKEND_MISSING, f"{library.distribution} is not installed"), None
    if name in (COMPILE, MAX_AUTOTUNE) and (hang := known_hang()):
        return Baseline(Status.BASELINE_FAILED, _short(hang)), None
    wanted.trying(name)
    timed = None
    try:
        found = trial.of_the_unfused_chain() if name == EAGER else trial.call_and_judge()
        if _right(found):
            timed = _repeated(trial.timed(trial.done.inputs), device_of(trial.done.inputs))
    except Exception as error:
        found = _failed(error, trial)
        if not wanted.device_answers():
            raise DeviceLostError(name, found) from error
    finally:
        stages.enter(Stage.VERIFY)  # what comes next is not this baseline's
    return replace(found, version=library.version if library else None), timed


@dataclass(frozen=True)
class _Trial:
    """One baseline of one cell."""

    case: KernelCase
    cell: Cell
    done: Evaluation
    function: Callable[..., Any]
    writes: set[str] = field(default_factory=set)  # inputs that the first call wrote to

    @property
    def library(self) -> Library | None:
        return self.function.library if isinstance(self.function, LibraryCall) else None

    def of_the_unfused_chain(self) -> Baseline:
        """It has run already; where it is not finite as float64 is, it is no baseline."""
        self.writes.update(self.case.in_place)
        outputs = self.done.verdict.outputs
        if any(output.unfused_error is None for output in outputs):
            text = "the unfused chain is not finite where the float64 reference is"
            return Baseline(Status.WRONG_RESULT, text)
        error, limit = _nearest([(output.unfused_error, output.limit) for output in outputs])
        return Baseline(Status.PASSED, error=error, limit=limit)

    def call_and_judge(self) -> Baseline:
        """The first call, compilation included, and the judgement of its results."""
        own = _copies(self.done.inputs)
        start = time.perf_counter()
        with kept_settings():  # some libraries set them once, when they are imported
            results = settle(call(self.function, self.case, self.cell, own, self.done.upstream))
        seconds = time.perf_counter() - start
        errors, wrong = self._judge(results)
        self._note_writes(own)
        error, limit = _nearest([(output.fused_error, output.limit) for output in errors])
        status = Status.WRONG_RESULT if wrong else Status.PASSED
        return Baseline(status, _short(wrong), error, limit, first_call_seconds=float(f"{seconds:.4g}"))

    def _note_writes(self, own: Mapping[str, Any]) -> None:
        before = dict(named_tensors(self.done.inputs))
        for place, tensor in named_tensors(own):  # a copy of rows that lie apart has them together
            if tensor.shape != before[place].shape:
                raise ValueError(f"resizes its input {place}: {tuple(before[place].shape)} → {tuple(tensor.shape)}")
            if not same_bits(tensor.contiguous(), before[place].contiguous()):
                self.writes.add(_input_of(place))

    def _judge(self, results: Results) -> tuple[tuple[OutputError, ...], str]:
        assert self.done.run is not None
        return judge_baseline(self.case, self.cell, replace(self.done.run, fused=results, stale=None))

    def failed_later(self, error: Exception) -> Baseline:
        """What becomes of it when a later call raises."""
        return Baseline(Status.BASELINE_FAILED, _short(f"raised among the samples: {describe(error)}"))

    def timed(self, inputs: Mapping[str, Any]) -> Callable[[], object]:
        """What one sample times."""
        own = {n: _copies({n: v})[n] if n in self.writes else v for n, v in inputs.items()}
        return _sampled(self.function, self.case, self.cell, own, self.done.upstream)


def _repeated(timed: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """The same, called once more: what fails only when it is repeated must not end the samples of the others.

    Raises:
        RuntimeError: each call changes what the others would run with.
    """
    with kept_settings() as kept, torch.no_grad():
        timed()
    if kept.changed:
        raise RuntimeError(f"each call changes {', '.join(kept.changed)} for all others, and leaves it so")
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return timed


def _blaming(name: str, trial: _Trial, timed: Callable[[], object]) -> Callable[[], object]:
    """The same, which names the baseline when it raises."""

    def sample() -> object:
        try:
            return timed()
        except Exception as error:
            found = trial.failed_later(error)
            raise SampleError(name, found) from error

    return sample


def _copies(inputs: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = map_tensors(torch.Tensor.clone, dict(inputs))
    return copied


def _input_of(place: str) -> str:
    """The input that a place such as ``cache['k']`` is in."""
    return place.partition("[")[0]


def _nearest(pairs: list[tuple[float | None, float]]) -> tuple[float | None, float | None]:
    """Error and limit of the output nearest to its limit, or furthest beyond."""
    known = [(error, limit) for error, limit in pairs if error is not None]
    if not known:
        return None, None
    error, limit = max(known, key=lambda pair: pair[0] / pair[1] if pair[1] else pair[0])
    return float(f"{error:.4g}"), float(f"{limit:.4g}")  # a record has little room


def _failed(error: Exception, trial: _Trial) -> Baseline:
    if missing := _missing_library(error, trial.function):
        return Baseline(Status.BACKEND_MISSING, f"{missing} is not installed")
    return Baseline(Status.BASELINE_FAILED, _short(describe(error)))


def _missing_library(error: Exception, function: Callable[..., Any]) -> str | None:
    """The library that a case's own function could not import; one that is broken inside is not missing."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or isinstance(function, LibraryCall):
        return None
    library = error.name.partition(".")[0]
    frames = [f.filename for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen ")]
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    return library if frames and frames[-1] == own and util.find_spec(library) is None else None


def _short(text: str) -> str:
    line = scrub(" ".join(text.split()))
    return line if len(line) <= MESSAGE_CHARACTERS else f"{line[: MESSAGE_CHARACTERS - 2]} …"


@functools.lru_cache(maxsize=1)
def _fresh_compiler(inputs_of: Cell) -> None:
    """Forget what cells of other inputs compiled, so that none of it counts against the limit of recompilations.

    Cells that differ in their variant alone have the same baselines on the same inputs: what one of them compiled
    serves those that come right after it.

    Args:
        inputs_of: the cell, without its variant; nothing is done where it is the last one's.
    """
    keep_caches()
    # A compiled backward pass would overwrite what its forward pass saved; a sample repeats it alone.
    functorch: Any = import_module("torch._functorch.config")
    functorch.donated_buffer = False
    if "torch._dynamo" in sys.modules:
        import_module("torch._dynamo").reset()
