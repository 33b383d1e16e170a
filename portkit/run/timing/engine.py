"""Times the fused function and its baselines on the current device, interleaved.

One round times every function once, in an order of its own; rounds follow until every median
is known to half a per cent, or the time is over. So a drift of clocks or temperature meets all
functions alike. Events come first, the trace in a pass of its own after them, then the modes that were
asked for; each ends by the same rule.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch

from portkit.garbage import uncollected
from portkit.run.device_state import Monitor
from portkit.run.timing.events import Before, Functions, Sample, held, hold_for, sample_rounds
from portkit.run.timing.flush import Flush, make_flush
from portkit.run.timing.modes import captured, warm
from portkit.run.timing.order import SEED, drawn
from portkit.run.timing.places import results_that_fit, scattered
from portkit.run.timing.readings import Readings
from portkit.run.timing.rounds import Bounds, Rounds, until_settled
from portkit.run.timing.samples import EVENTS, GRAPH, TRACE, WARM, Samples, Series
from portkit.run.timing.trace import Traced, TraceError, trace_rounds

EVENT_SECONDS = 1.0
"""Most wall clock of the rounds on events, all functions of a cell together."""

TRACE_SECONDS = 0.25
"""The same of the rounds that are traced."""

MODE_SECONDS = 0.25
"""The same of each mode."""

WARMUP_SECONDS = 0.1
MOST_WARMUP_SECONDS = 0.5  # where the device's clock has not come to rest before
MIN_WARMUP = 3  # rounds
_PLACED = 2  # rounds at each place before the first sample: results need their memory
_STEADY = 0.01  # change of the clock between two looks, as a share, that counts as rest
_TRACE_STEP = 20  # rounds in one trace: starting one costs some milliseconds
_BUSY_ROUNDS = 3  # not sampled, which keep the device at work while its state is read

Figure = TypeVar("Figure", int, float)


@dataclass(frozen=True)
class Options:
    """How a cell is timed."""

    flush_bytes: int  # of the buffer read before each sample
    modes: tuple[str, ...] = ()  # beside the two clocks: warm, graph


def measure(places: Sequence[Functions], options: Options, monitor: Monitor) -> Samples:
    """Time functions on the current device.

    Args:
        places: name → call; called before, so that nothing is left to compile. Several have
            the same names, on inputs that lie elsewhere: each call takes the next of them.
        options: how.
        monitor: reads the device's clocks and temperature between rounds.
    """
    readings = Readings(monitor)
    flush = make_flush(options.flush_bytes)
    with uncollected():  # with a compiler loaded, a search for garbage stops the host for a tenth of a second
        results = results_that_fit(places[0])
        places = scattered(places, results)
        warmup = _warm_up(places, flush, monitor)
        engine = _Engine(places, flush, readings)
        engine.events()
        engine.trace()
        if WARM in options.modes:
            engine.warm()
        if GRAPH in options.modes:
            engine.graph()
    return replace(engine.samples(monitor), warmup=warmup, places=len(places), results=results)


@dataclass
class _Engine:
    places: Sequence[Functions]
    flush: Flush
    readings: Readings
    taken: dict[str, Series] = field(default_factory=dict)
    traced: Rounds[Traced] = field(default_factory=Rounds)
    hold_ms: dict[str, float] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, str] = field(default_factory=dict)
    settled: bool = False

    def events(self) -> None:
        rounds = self._between_events(EVENTS, self.places, self._cold, EVENT_SECONDS)
        self.settled = rounds.settled
        self.late = {name: sum(each.late for each in rounds.column(name)) for name in self.places[0]}

    def trace(self) -> None:
        turns = drawn(self.places)

        def sample(rounds: int) -> Sequence[dict[str, Traced]]:
            self.readings.tick(self._busy)
            return trace_rounds(list(itertools.islice(turns, rounds)), self.flush)

        try:
            rounds = until_settled(sample, _milliseconds, Bounds(TRACE_SECONDS, step=_TRACE_STEP))
        except TraceError as error:
            self.nulls["timing.trace"] = str(error)
            return
        self.taken[TRACE], self.traced = _series(rounds, self.places[0]), rounds

    def warm(self) -> None:
        self._between_events(WARM, self.places, warm, MODE_SECONDS)

    def graph(self) -> None:
        graphs, refused = captured(self.places)
        self.nulls.update({f"timing.{name}.{GRAPH}": why for name, why in refused.items()})
        if graphs[0]:
            self._between_events(GRAPH, graphs, self._cold, MODE_SECONDS)

    def samples(self, monitor: Monitor) -> Samples:
        states = self.readings.close()
        return Samples(
            milliseconds=self.taken,
            flush_bytes=self.flush.buffer.nbytes,
            warmup=0,
            order_seed=SEED,
            hold_ms=self.hold_ms,
            settled=self.settled,
            late=self.late,
            kernels=self._of_traced(lambda each: each.kernels),
            copies=self._of_traced(lambda each: each.copies),
            copied_ms=self._of_traced(lambda each: each.copied_ms),
            states=states,
            nulls={**self.nulls, **monitor.nulls},
        )

    def _between_events(self, mode: str, places: Sequence[Functions], before: Before, seconds: float) -> Rounds[Sample]:
        turns = drawn(places)
        hold = hold_for(places[0], before)
        prepare = held(hold, before, self.flush.let_go)

        def sample(rounds: int) -> Sequence[dict[str, Sample]]:
            self.readings.tick(self._busy)
            return sample_rounds(itertools.islice(turns, rounds), prepare)

        rounds = until_settled(sample, _milliseconds, Bounds(seconds))
        self.taken[mode], self.hold_ms[mode] = _series(rounds, places[0]), hold.longest_ms
        return rounds

    def _of_traced(self, figure: Callable[[Traced], Figure]) -> dict[str, tuple[Figure, ...]]:
        """A figure of each traced call; of no function where nothing was traced."""
        names = self.places[0] if self.traced.rounds else ()
        return {name: tuple(map(figure, self.traced.column(name))) for name in names}

    def _cold(self, _: Callable[[], object]) -> None:
        self.flush.read()

    def _busy(self) -> None:
        for _ in range(_BUSY_ROUNDS):
            _unsampled_round(self.places[0], self.flush)


def _warm_up(places: Sequence[Functions], flush: Flush, monitor: Monitor) -> int:
    """Unsampled rounds until the device's clock has come to rest or the time is over; how many."""
    start, warmup, steady, clock = time.perf_counter(), 0, False, _clock(monitor)
    while not steady and (not warmup or time.perf_counter() - start < MOST_WARMUP_SECONDS):
        warmup += _rounds_for(WARMUP_SECONDS, places, flush, MIN_WARMUP if warmup else _PLACED * len(places))
        before, clock = clock, _clock(monitor)
        steady = before is None or clock is None or abs(clock - before) <= _STEADY * before
    return warmup


def _rounds_for(seconds: float, places: Sequence[Functions], flush: Flush, fewest: int) -> int:
    """As many rounds as the time allows, and at least the fewest."""
    until, rounds, turns = time.perf_counter() + seconds, 0, itertools.cycle(places)
    while rounds < max(MIN_WARMUP, fewest) or time.perf_counter() < until:
        _unsampled_round(next(turns), flush)
        torch.cuda.synchronize()
        rounds += 1
    return rounds


def _clock(monitor: Monitor) -> float | None:
    state = monitor.read()
    return state.sm_clock_mhz if state else None


def _unsampled_round(functions: Functions, flush: Flush) -> None:
    for call in functions.values():
        flush.read()
        call()


def _series(rounds: Rounds[Sample] | Rounds[Traced], names: Iterable[str]) -> Series:
    return {name: tuple(each.milliseconds for each in rounds.column(name)) for name in names}


def _milliseconds(sample: Sample | Traced) -> float:
    return sample.milliseconds
