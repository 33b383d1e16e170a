"""The order in which the engine takes its clocks and modes, on a stand-in of the device."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
from collections import Counter

import pytest
import torch

from portkit.model import DeviceState
from portkit.run.timing import engine, events, flush, kept_lines, modes
from portkit.run.timing.engine import Options, measure
from portkit.run.timing.events import LEAST_HOLD_MS, MOST_HOLD_MS, Hold, Sample, held, hold_for
from portkit.run.timing.flush import Flush
from portkit.run.timing.kept_lines import nvidia
from portkit.run.timing.order import drawn, orders
from portkit.run.timing.places import COPIES, RESULTS, at_places, results_that_fit, scattered
from portkit.run.timing.summary import summarize
from portkit.run.timing.trace import Traced, TraceError


class Monitor:
    """A device whose clock rises, then rests."""

    def __init__(self, clocks=(1980,), nulls=None):
        self.clocks = itertools.chain(clocks, itertools.repeat(clocks[-1]))
        self.nulls = nulls or {}

    def read(self):
        return None if self.nulls else DeviceState(sm_clock_mhz=next(self.clocks))


@pytest.fixture
def device(monkeypatch):
    """What was enqueued, by name: ``flush``, calls, and the kinds of rounds."""
    done = []

    def sampled(rounds, prepare):
        taken = [{name: Sample(1.0, name == "slow") for name in functions} for functions in rounds]
        done.extend(["events"] * len(taken))
        return taken

    def traced(rounds, before):
        done.extend(["trace"] * len(rounds))
        return [{name: Traced(0.5, 2) for name in functions} for functions in rounds]

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(engine, "make_flush", lambda nbytes: Flush(torch.ones(nbytes // 4)))
    monkeypatch.setattr(kept_lines, "let_go", lambda: done.append("let go"))
    monkeypatch.setattr(engine, "hold_for", lambda functions, before: Hold(dict.fromkeys(functions, 0.25), 1.0))
    monkeypatch.setattr(engine, "sample_rounds", sampled)
    monkeypatch.setattr(engine, "trace_rounds", traced)
    monkeypatch.setattr(engine, "results_that_fit", lambda functions: 2)
    monkeypatch.setattr(engine, "WARMUP_SECONDS", 0.0)
    return done


def functions(*names):
    return {name: lambda: None for name in names}


def test_both_clocks_are_taken_apart_and_modes_are_not(device):
    samples = measure([functions("fused", "slow")], Options(1024), Monitor())
    assert device == ["events"] * 50 + ["trace"] * 50
    assert set(samples.milliseconds) == {"events", "trace"}
    assert samples.late == {"fused": 0, "slow": 50}
    assert samples.hold_ms == {"events": 0.25}
    assert samples.kernels["fused"] == (2,) * 50
    assert (samples.settled, samples.flush_bytes, samples.warmup) == (True, 1024, 3)
    assert (samples.places, samples.results) == (1, 2)


def test_modes_that_were_asked_for_follow(device, monkeypatch):
    monkeypatch.setattr(engine, "captured", lambda places: ([{"slow": lambda: None}], {"fused": "it waits"}))
    samples = measure([functions("fused", "slow")], Options(1024, ("warm", "graph")), Monitor())
    assert list(samples.milliseconds) == ["events", "trace", "warm", "graph"]
    assert list(samples.milliseconds["graph"]) == ["slow"]
    assert samples.nulls == {"timing.fused.graph": "it waits"}


def test_without_a_trace_events_stand_and_the_reason_is_kept(device, monkeypatch):
    def refuses(rounds, before):
        raise TraceError("the device trace is empty")

    monkeypatch.setattr(engine, "trace_rounds", refuses)
    timing, nulls = summarize(measure([functions("fused", "eager")], Options(1024), Monitor()))
    assert timing.fused.trace is None
    assert timing.speedup_kernel == {}
    assert timing.speedup["eager"].value == 1.0
    assert nulls == {"timing.trace": "the device trace is empty"}


def test_warm_up_goes_on_until_the_clock_rests(device):
    # Read once before, once when the warm-up begins, then after each of its parts.
    samples = measure([functions("fused")], Options(1024), Monitor((345, 345, 1200, 1980, 1985)))
    assert samples.warmup == 3 * 3
    assert samples.states[0].sm_clock_mhz == 345
    assert samples.states[-1].sm_clock_mhz == 1985


def test_a_clock_that_never_rests_ends_with_the_time(device, monkeypatch):
    monkeypatch.setattr(engine, "MOST_WARMUP_SECONDS", 0.0)
    samples = measure([functions("fused")], Options(1024), Monitor((345, 345, 1200, 1980, 300)))
    assert samples.warmup == 3


def test_an_unread_device_is_timed_all_the_same(device):
    timing, nulls = summarize(measure([functions("fused")], Options(1024), Monitor(nulls={"timing.states": "no NVML"})))
    assert (timing.states, timing.throttled) == ({}, ())
    assert nulls == {"timing.states": "no NVML"}


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_meanwhile(device, enabled):
    seen, before = [], gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        measure([{"fused": lambda: seen.append(gc.isenabled())}], Options(1024), Monitor())
        assert (set(seen), gc.isenabled()) == ({False}, enabled)
    finally:
        (gc.enable if before else gc.disable)()


# --------------------------------------------------------------------------
# Order


def test_each_round_has_an_order_of_its_own_on_both_clocks(device, monkeypatch):
    """A function that takes longer when it comes first: each of three pays for that in a third of the rounds."""
    called = {"events": [], "trace": []}

    def timed(clock, make):
        def sampled(rounds, before):
            rounds = [list(functions) for functions in rounds]
            called[clock] += rounds
            return [{name: make(2.0 if name == order[0] else 1.0) for name in order} for order in rounds]

        return sampled

    monkeypatch.setattr(engine, "sample_rounds", timed("events", lambda ms: Sample(ms, False)))
    monkeypatch.setattr(engine, "trace_rounds", timed("trace", lambda ms: Traced(ms, 1)))
    names = ["fused", "eager", "torch"]
    samples = measure([functions(*names)], Options(1024), Monitor())
    for clock, rounds in called.items():
        series = samples.milliseconds[clock]
        assert list(series) == names
        assert rounds == orders(names, len(rounds), samples.order_seed)
        for name in names:
            assert [ms == 2.0 for ms in series[name]] == [order[0] == name for order in rounds]
            assert 0.2 < sum(ms == 2.0 for ms in series[name]) / len(rounds) < 0.5


def test_every_function_comes_at_every_place_and_after_every_other_about_equally_often():
    names = ["fused", "eager", "torch", "compile"]
    rounds = orders(names, 1000, 0)
    assert all(sorted(order) == sorted(names) for order in rounds)
    for place, name in itertools.product(range(4), names):
        assert 200 < sum(order[place] == name for order in rounds) < 300  # 250 expected, 14 the standard deviation
    neighbours = Counter(pair for order in rounds for pair in itertools.pairwise(order))
    assert len(neighbours) == 12
    assert all(200 < count < 300 for count in neighbours.values())


def test_calls_take_the_places_in_turn_whatever_their_order():
    """No call has the inputs of the call before, and each function has all of them about equally often."""
    names, taken = ["fused", "eager", "torch"], []
    places = [{name: lambda n=name, i=i: taken.append((n, i)) for name in names} for i in range(8)]
    for functions in itertools.islice(drawn(places), 800):
        for call in functions.values():
            call()
    assert [place for _, place in taken] == [k % 8 for k in range(2400)]
    assert all(60 < count < 140 for count in Counter(taken).values())  # 100 expected
    assert len(Counter(taken)) == 24


# --------------------------------------------------------------------------
# Places


def test_a_function_alone_takes_the_places_in_turn(device, monkeypatch):
    taken = []
    places = [{"fused": lambda i=i: taken.append(i)} for i in range(3)]

    def sampled(rounds, prepare):
        return [{name: (call(), Sample(1.0, False))[1] for name, call in each.items()} for each in rounds]

    monkeypatch.setattr(engine, "sample_rounds", sampled)
    monkeypatch.setattr(engine, "trace_rounds", lambda rounds, before: [])
    monkeypatch.setattr(engine.Readings, "tick", lambda self, busy: None)
    with contextlib.suppress(IndexError):  # of the trace that is not there
        measure(places, Options(1024), Monitor())
    assert taken[:6] == [0, 1, 2, 0, 1, 2]  # the warm-up
    assert taken[6:] == [i % 3 for i in range(50)]


def test_a_result_lies_elsewhere_while_the_last_are_alive():
    (first, second) = scattered([{"f": lambda: torch.ones(64)}, {"f": lambda: torch.ones(64)}], 3)
    alive = first["f"].__closure__[0].cell_contents
    for call in (first["f"], second["f"]) * 4:
        call()
    assert len({tensor.data_ptr() for tensor in alive}) == 3


@pytest.mark.parametrize(("free", "kept"), [(1 << 30, RESULTS), (16_000, 4), (3_000, 0)])
def test_results_take_a_quarter_of_the_free_memory(monkeypatch, free, kept):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 1 << 40))
    functions = {"fused": lambda: (torch.ones(200), [torch.ones(50)]), "eager": lambda: torch.ones(1)}
    assert results_that_fit(functions) == kept


@pytest.fixture
def memory(monkeypatch):
    """Sets the free memory of the device, which copies do not change."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return lambda free: monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 1 << 40))


@pytest.mark.parametrize(("free", "copies"), [(1 << 30, COPIES), (12_000, 3), (4_000, 1)])
def test_copies_of_the_inputs_take_a_quarter_of_the_free_memory(memory, free, copies):
    memory(free)
    x = torch.arange(250.0)
    places = at_places(lambda inputs: {"fused": lambda: inputs["x"]}, {"x": x})
    made = [functions["fused"]() for functions in places]
    assert len({tensor.data_ptr() for tensor in made} - {x.data_ptr()}) == copies
    assert all(torch.equal(tensor, x) for tensor in made)


def test_inputs_that_fit_no_second_time_are_taken_as_they_are(memory):
    memory(3_000)
    x = torch.arange(250.0)
    (only,) = at_places(lambda inputs: {"fused": lambda: inputs["x"]}, {"x": x})
    assert only["fused"]() is x


def test_a_backward_pass_that_needs_more_ends_the_copies(memory):
    made = []

    def make(inputs):
        if len(made) == 2:
            raise torch.cuda.OutOfMemoryError
        made.append(inputs)
        return {"fused": lambda: None}

    memory(1 << 30)
    assert len(at_places(make, {"x": torch.ones(8)})) == 2


def test_a_function_without_results_needs_no_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 0))
    assert results_that_fit({"fused": lambda: None}) == RESULTS


# --------------------------------------------------------------------------
# Enough work ahead


@pytest.fixture
def host(monkeypatch):
    """The hold that is chosen where enqueueing takes so many ms and samples are late below a hold of so many."""

    def chosen(late_below=0.0, **enqueueing):
        holds = []

        def sampled(rounds, prepare):
            late = {}
            for name in rounds[0]:
                prepare(name, None)
                late[name] = bool(holds) and holds[-1] < late_below * 1000
            return [{name: Sample(1.0, late[name]) for name in functions} for functions in rounds]

        monkeypatch.setattr(torch.cuda, "_sleep", holds.append)
        monkeypatch.setattr(events, "_CALIBRATION_CYCLES", 1000)  # and they take 1 ms
        monkeypatch.setattr(events, "_enqueue_ms", lambda functions, before: enqueueing)
        monkeypatch.setattr(events, "sample_rounds", sampled)
        return hold_for(functions(*enqueueing), lambda call: None)

    return chosen


@pytest.mark.parametrize(
    ("enqueueing", "milliseconds"), [(0.001, LEAST_HOLD_MS), (0.1, 0.2), (1.0, 2.0), (50.0, MOST_HOLD_MS)]
)
def test_the_device_is_held_back_twice_as_long_as_the_host_needs(host, enqueueing, milliseconds):
    assert host(fused=enqueueing) == Hold({"fused": milliseconds}, cycles_per_ms=1000)


def test_each_function_is_held_as_long_as_it_needs(host):
    hold = host(fused=0.05, eager=0.4)
    assert hold.milliseconds == {"fused": 0.1, "eager": 0.8}
    assert hold.longest_ms == 0.8


def test_a_hold_doubles_while_samples_are_late(host):
    assert host(0.5, fused=0.1).milliseconds == {"fused": 0.8}
    assert host(0.5, fused=0.1, eager=0.3).milliseconds == {"fused": 0.8, "eager": 0.6}
    assert host(100, fused=0.1).milliseconds == {"fused": MOST_HOLD_MS}


def test_a_hold_comes_before_what_cools_the_caches(monkeypatch):
    done = []
    monkeypatch.setattr(torch.cuda, "_sleep", done.append)
    hold = Hold({"fused": 0.25}, 1_000_000)
    held(hold, lambda call: done.append("flush"), lambda: done.append("let go"))("fused", lambda: None)
    assert done == ["let go", 250_000, "flush"]


def test_one_pause_of_the_host_does_not_count(monkeypatch):
    ticks = itertools.chain.from_iterable((0.0, 0.001 if i != 3 else 5.0) for i in itertools.count())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(events.time, "perf_counter", lambda: next(ticks))
    assert events._enqueue_ms(functions("fused"), lambda call: None) == {"fused": pytest.approx(1.0)}


def test_a_function_that_no_graph_can_hold_is_told_apart(monkeypatch):
    def capture(call):
        return call()

    def waits():
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(modes, "_capture", capture)
    graphs, nulls = modes.captured([{"fused": waits, "eager": lambda: print}, {"fused": waits, "eager": lambda: len}])
    assert graphs == [{"eager": print}, {"eager": len}]
    assert nulls == {
        "fused": "its call cannot be captured in a graph: "
        "RuntimeError: operation not permitted when stream is capturing"
    }


# --------------------------------------------------------------------------
# Eviction


@pytest.mark.parametrize(
    ("warm", "cold", "flushed", "kept", "answer"),
    [
        (0.33, 0.73, 0.73, 0.73, True),
        (0.33, 0.73, 0.70, 0.70, True),
        (0.33, 0.73, 0.68, 0.73, False),  # seven eighths of the way: some of it is still there
        (0.33, 0.73, 0.33, 0.33, False),
        (0.33, 0.73, 0.71, 0.40, False),  # what was to be kept is still there
        (0.33, 0.36, 0.36, 0.36, None),  # warm and cold look alike
    ],
)
def test_evicted_is_what_comes_near_to_cold(monkeypatch, warm, cold, flushed, kept, answer):
    times = iter([warm, cold, flushed, kept])
    readers = []

    def latency_ms(buffer, before, reader=None):
        readers.append(reader)
        return next(times)

    monkeypatch.setattr(torch, "zeros", lambda *shape, **given: None)
    monkeypatch.setattr(flush, "make_flush", lambda nbytes: None)
    monkeypatch.setattr(flush, "latency_ms", latency_ms)
    assert flush.evicts(lambda: None) is answer
    assert answer is None or readers[2:] == [torch.amax, flush.read_to_be_kept]


class Library:
    """Stands for the driver: answers with a code, and counts how often it was asked."""

    def __init__(self, code):
        self.asked = 0
        self._code = code

    @property
    def cuCtxResetPersistingL2Cache(self):  # noqa: N802 (the driver's name)
        def reset():
            self.asked += 1
            return self._code

        return reset


@pytest.mark.parametrize(("code", "done"), [(0, True), (801, False)])  # 801: CUDA_ERROR_NOT_SUPPORTED
def test_the_driver_is_asked_each_time_to_let_kept_lines_go(monkeypatch, code, done):
    driver = Library(code)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libcuda.so.1": driver}[name])
    nvidia._call.cache_clear()
    try:
        assert [kept_lines.let_go(), kept_lines.let_go()] == [done, done]
        assert driver.asked == 2
        monkeypatch.setattr(torch.version, "hip", "6.3")
        assert kept_lines.let_go() is False
        assert driver.asked == 2
    finally:
        nvidia._call.cache_clear()


@pytest.mark.parametrize("library", [OSError("libcuda.so.1: cannot open shared object file"), AttributeError("old")])
def test_a_driver_without_the_call_keeps_its_lines(monkeypatch, library):
    def load(name):
        raise library

    monkeypatch.setattr(ctypes, "CDLL", load)
    nvidia._call.cache_clear()
    try:
        assert kept_lines.let_go() is False
    finally:
        nvidia._call.cache_clear()


def test_a_flush_lets_go_while_the_device_is_idle_and_then_reads(monkeypatch):
    done = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("idle"))
    monkeypatch.setattr(kept_lines, "let_go", lambda: done.append("let go"))
    monkeypatch.setattr(torch, "amax", lambda buffer: done.append("read"))
    Flush(torch.ones(1), reads=2)()
    assert done == ["idle", "let go", "read", "read"]
