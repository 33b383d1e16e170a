"""Follows Triton's autotuner and other code that times launches.

On a GPU that is present, the trials are marked; the launch after them is what runs. On an
absent one nothing has a time: every configuration is built, as a trial, each time the
kernel is called, and the launch after the trials, in a configuration that nobody chose, is
left out. Where launches are emulated, the first one that can run is chosen, and none behind it
is built; where the first configuration is over a limit, others are built only as far as it takes to know that they
are, too. A configuration that the autotuner would skip (over a limit, a failed static
assertion, refused by ptxas) costs only itself; what it would not skip ends the call there
too, and so decides the cell, though all other configurations are built.

Hooks: ``Autotuner.run``, ``Autotuner._bench``, ``Autotuner.do_bench`` and
``triton.testing.do_bench*``, the same in Triton 3.5 to 3.9.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import triton.testing
from triton.runtime.autotuner import Autotuner, Config

from portkit.model import Launch, Outcome, Target, Tuning
from portkit.run.allocation import SharedMemoryExceededError, refused_over
from portkit.run.classify import classify
from portkit.run.shim import UnknownTime

_FAILED = float("inf")
_TIED = 1.0


@dataclass
class TunedCall:
    """One call of an autotuned kernel, as its configurations are tried."""

    forward: bool
    tried: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # configuration → why
    refused: list[str] = field(default_factory=list)  # limits broken by what was not built to its end
    fatal: Outcome | None = None  # of the first configuration that the autotuner would not skip
    unbuilt: int = 0  # configurations behind the first that can run, where no other is asked for

    @property
    def settled(self) -> bool:
        """Whether there was no choice: one configuration is left, and it can run."""
        return len(self.tried) + self.unbuilt == 1 and not self.failed

    @property
    def usable(self) -> list[Launch]:
        """Launches within the target's limits."""
        return [x for x in self.launches if not x.limits_broken]

    def over_limits(self) -> tuple[str, ...]:
        """Limits broken, where they are what leaves no usable configuration."""
        return () if self.usable else (*(text for x in self.launches for text in x.limits_broken), *self.refused)


class TrialRecorder(Protocol):
    """What the autotuner's trials are told to."""

    target: Target
    trial: bool
    silent: bool
    call: TunedCall | None
    configuration: str
    calls: list[TunedCall]
    chosen_only: bool  # of a call's configurations, only the first that can run is asked for

    @property
    def forward(self) -> bool:
        """Whether this is the forward pass of a backward cell."""


def configuration_text(config: Config) -> str:
    """``BLOCK=1024 num_warps=8 num_stages=2``; what has its default value is left out."""
    values = {k: v for k, v in config.all_kwargs().items() if not (k == "num_ctas" and v == 1)}
    return " ".join(f"{name}={value}" for name, value in values.items())


def follow_absent(recorder: TrialRecorder) -> None:
    """From here on, build every configuration that is asked for on every call; for the life of the process."""
    run, bench = Autotuner.run, Autotuner._bench
    errors: list[Exception] = []

    def run_all(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        if len(tuner.configs) < 2:
            return run(tuner, *args, **kwargs)
        tuner.cache.clear()  # its key knows no shape that the user did not name
        tuner.cache_results = False  # its file would make a later run on a device believe in these times
        with _tuned_call(recorder):
            return run(tuner, *args, **kwargs)

    def try_one(kernel_call: Callable[[], Any], quantiles: Any = None, **_: Any) -> list[float]:
        try:
            kernel_call()
        except Exception as error:
            errors.append(error)
            raise
        return [_TIED] * 3

    def bench_one(tuner: Any, *args: Any, config: Config, **meta: Any) -> list[float]:
        errors.clear()
        if _passed_over(recorder):
            return [_FAILED] * 3
        with _trial(recorder, configuration_text(config)) as call:
            try:
                with _fitting(recorder, call):
                    times: list[float] = bench(tuner, *args, config=config, **meta)
            except Exception as error:  # not one that the autotuner skips
                _note_fatal(call, recorder.configuration, error)
                return [_FAILED] * 3
            if errors:
                _note_skipped(call, recorder.configuration, errors[0])
            return [_FAILED] * 3 if _note_limits(call, recorder.configuration) else times

    Autotuner.run, Autotuner._bench = run_all, bench_one
    Autotuner.do_bench = property(lambda tuner: try_one)
    _replace_timers(recorder)


def _replace_timers(recorder: TrialRecorder) -> None:
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, timer_of_nothing(recorder))


@contextlib.contextmanager
def marked_trials(recorder: TrialRecorder) -> Iterator[None]:
    """On a device: mark what the autotuner launches to choose."""
    bench = Autotuner._bench

    def bench_marked(tuner: Any, *args: Any, config: Config, **meta: Any) -> Any:
        recorder.trial = True
        try:
            return bench(tuner, *args, config=config, **meta)
        finally:
            recorder.trial = False

    Autotuner._bench = bench_marked
    try:
        yield
    finally:
        Autotuner._bench = bench


def timer_of_nothing(recorder: TrialRecorder) -> Callable[..., Any]:
    """A ``do_bench`` that calls once, records nothing and gives times that nothing can be decided by."""

    def do_bench(
        fn: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **rest: Any
    ) -> Any:
        recorder.silent = True
        try:
            fn()
        finally:
            recorder.silent = False
        many = len(quantiles) if quantiles else int(return_mode == "all")
        return [UnknownTime() for _ in range(many)] if many > 1 or return_mode == "all" else UnknownTime()

    return do_bench


def summarize(calls: Sequence[TunedCall], certain: Sequence[Launch]) -> Tuning | None:
    """What the calls leave open, beside the launches that are made for certain."""
    if not calls:
        return None
    return Tuning(
        calls=len(calls),
        configurations=sum(len(call.tried) for call in calls),
        usable=sum(len(call.usable) for call in calls),
        ranges=_ranges(calls, certain) if all(call.usable for call in calls) else {},
        failed={text: why for call in calls for text, why in call.failed.items()},
        limits_broken=tuple(dict.fromkeys(text for call in calls for text in call.over_limits())),
    )


@dataclass(frozen=True)
class _Figure:
    of: Callable[[Launch], float]
    worst: Callable[..., float]
    best: Callable[..., float]


_FIGURES: Mapping[str, _Figure] = {
    "registers_per_thread": _Figure(lambda x: x.resources.registers_per_thread, max, min),
    "spill_bytes_per_thread": _Figure(lambda x: x.resources.spill_bytes_per_thread, max, min),
    "shared_bytes_per_block": _Figure(lambda x: x.resources.shared_bytes_per_block, max, min),
    "threads_per_block": _Figure(lambda x: x.resources.threads_per_block, max, min),
    "occupancy_pct": _Figure(lambda x: x.occupancy.percent, min, max),
}


def _ranges(calls: Sequence[TunedCall], certain: Sequence[Launch]) -> dict[str, tuple[float, float]]:
    """Each figure's worst over the call's launches, with the best and the worst choices."""
    ranges = {}
    for name, figure in _FIGURES.items():
        fixed = [figure.of(x) for x in certain]
        values = [[figure.of(x) for x in call.usable] for call in calls]
        ends = (figure.worst(fixed + [choose(v) for v in values]) for choose in (figure.best, figure.worst))
        low, high = sorted(ends)
        ranges[name] = (low, high)
    return ranges


@contextlib.contextmanager
def _tuned_call(recorder: TrialRecorder) -> Iterator[None]:
    recorder.call = TunedCall(recorder.forward)
    recorder.calls.append(recorder.call)
    try:
        yield
    finally:
        recorder.call = None


@contextlib.contextmanager
def _trial(recorder: TrialRecorder, configuration: str) -> Iterator[TunedCall]:
    call = recorder.call or TunedCall(recorder.forward)
    call.tried.append(configuration)
    recorder.trial, recorder.configuration = True, configuration
    try:
        yield call
    finally:
        recorder.trial, recorder.configuration = False, ""


def _passed_over(recorder: TrialRecorder) -> bool:
    """Whether a configuration need not be built, since an earlier one of the call can run; counts it then."""
    if not (recorder.chosen_only and recorder.call and recorder.call.usable):
        return False
    recorder.call.unbuilt += 1
    return True


def _fitting(recorder: TrialRecorder, call: TunedCall) -> contextlib.AbstractContextManager[None]:
    """Where one is chosen, no configuration but the first is built beyond the target's shared memory.

    The first is what the autotuner launches if none can run.
    """
    arch = recorder.target.architecture
    if not recorder.chosen_only or len(call.tried) == 1:
        return contextlib.nullcontext()
    return refused_over(arch.shared_bytes_per_block_max, arch.triton_backend)


def _note_skipped(call: TunedCall, configuration: str, error: Exception) -> None:
    call.failed[configuration] = classify(error).message
    if isinstance(error, SharedMemoryExceededError):
        call.refused.append(error.told)


def _note_fatal(call: TunedCall, configuration: str, error: Exception) -> None:
    outcome = classify(error)
    call.failed[configuration] = outcome.message
    message = f"configuration {configuration}: {outcome.message}; Triton's autotuner does not skip this error"
    call.fatal = call.fatal or replace(outcome, message=message)


def _note_limits(call: TunedCall, configuration: str) -> bool:
    """Whether the configuration just tried can't run."""
    if configuration in call.failed:
        return True
    broken = call.launches[-1].limits_broken if call.launches else ()
    if broken:
        call.failed[configuration] = "; ".join(broken)
    return bool(broken)
