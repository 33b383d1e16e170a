"""Both clocks, the modes and the flush on the device here."""

from __future__ import annotations

import statistics
import time

import pytest
import torch

from portkit.run.device_state import open_monitor
from portkit.run.timing import engine
from portkit.run.timing.engine import Options, measure
from portkit.run.timing.events import held, hold_for, sample_rounds
from portkit.run.timing.flush import evicts, flush_size, make_flush, read_to_be_kept
from portkit.run.timing.overhead import event_overhead_us
from portkit.run.timing.places import at_places
from portkit.run.timing.summary import summarize
from portkit.run.timing.trace import trace_rounds, traced_activities

MIB = 1 << 20


@pytest.fixture(autouse=True)
def short_budget(monkeypatch):
    for clock in ("EVENT_SECONDS", "TRACE_SECONDS", "MODE_SECONDS"):
        monkeypatch.setattr(engine, clock, 0.1)


@pytest.fixture
def flush(target):
    return make_flush(flush_size(target))


def nothing():
    pass


def copy_of(mib):
    source = torch.ones(mib * MIB // 4, device="cuda")
    out = torch.empty_like(source)
    return lambda: torch.neg(source, out=out)


def taken(functions, target, modes=()):
    return measure([functions], Options(flush_size(target), modes), open_monitor())


def test_kernels_copies_and_fills_count(flush):
    x, y = torch.ones(2, MIB, device="cuda")

    def call():
        torch.neg(x, out=y)
        y.copy_(x)
        y.zero_()

    rounds = trace_rounds([{"call": call}] * 5, flush)
    assert {(one["call"].kernels, one["call"].copies) for one in rounds} == {(3, 1)}  # zero_ is a kernel
    assert all(0 < one["call"].copied_ms < one["call"].milliseconds for one in rounds)


def test_kernels_of_other_streams_belong_to_their_call(flush):
    x, y, z = torch.ones(3, 8 * MIB, device="cuda")
    side = torch.cuda.Stream()

    def call():
        side.wait_stream(torch.cuda.current_stream())
        torch.neg(x, out=y)
        with torch.cuda.stream(side):
            for _ in range(3):
                torch.neg(x, out=z)
        torch.cuda.current_stream().wait_stream(side)

    def alone():
        torch.neg(x, out=y)

    rounds = trace_rounds([{"alone": alone, "call": call, "again": alone}] * 5, flush)
    assert [{one[name].kernels for one in rounds} for name in ("alone", "call", "again")] == [{1}, {4}, {1}]


def test_a_call_that_leaves_work_behind_keeps_it(flush):
    """What another stream still does when the next call begins is not the next call's."""
    x, y, z = torch.ones(3, 32 * MIB, device="cuda")
    side = torch.cuda.Stream()

    def left_behind():
        with torch.cuda.stream(side):
            for _ in range(4):
                torch.neg(x, out=z)

    rounds = trace_rounds([{"left": left_behind, "next": lambda: torch.neg(y, out=y)}] * 5, nothing)
    assert {(one["left"].kernels, one["next"].kernels) for one in rounds} == {(4, 1)}


def test_the_kernels_of_a_graph_are_traced(flush):
    graph, (x, y) = torch.cuda.CUDAGraph(), torch.ones(2, MIB, device="cuda")
    with torch.cuda.graph(graph):
        for _ in range(5):
            torch.neg(x, out=y)
    assert {one["graph"].kernels for one in trace_rounds([{"graph": graph.replay}] * 3, flush)} == {5}


def test_launches_are_numbered_in_their_order():
    x, y = torch.ones(2, MIB, device="cuda")
    torch.cuda.synchronize()
    found = traced_activities(lambda: [torch.neg(x, out=y) if i % 3 else y.zero_() for i in range(30)])
    assert len(found) == 30
    assert [each.start_ns for each in found] == sorted(each.start_ns for each in found)


def test_what_events_add_is_seen_in_every_copy(flush):
    overhead = event_overhead_us(flush)
    assert 0.3 < overhead < 20
    again = event_overhead_us(flush)
    assert again == pytest.approx(overhead, abs=1.5)


def test_the_flush_evicts_and_less_than_a_flush_does_not(flush):
    assert evicts(flush) is True
    assert evicts(nothing) is False
    assert evicts(make_flush(MIB)) is False


@pytest.mark.skipif(torch.version.hip is not None, reason="no load of AMD's asks that a line be kept")
def test_reads_alone_leave_what_was_to_be_kept(flush):
    assert evicts(flush.read) is False


def test_a_function_does_not_feel_what_the_one_before_had_kept(flush):
    """Softmax of torch reads its rows twice, and takes an eighth longer with half of the L2 cache taken."""
    x, other = torch.rand(1024, 32768, device="cuda"), torch.zeros(32 * MIB, dtype=torch.int32, device="cuda")
    keep = {"keep": lambda: read_to_be_kept(other), "softmax": lambda: torch.softmax(x, -1)}
    leave = {"leave": lambda: torch.amax(other), "softmax": lambda: torch.softmax(x, -1)}
    rounds = trace_rounds([keep, leave] * 30, flush)
    after = [statistics.median(one["softmax"].milliseconds for one in each) for each in (rounds[::2], rounds[1::2])]
    assert after[0] == pytest.approx(after[1], rel=0.02)


def test_no_sample_waits_for_the_host(flush):
    """A call that takes the host much longer than the device is timed as the device sees it."""
    x = torch.ones(1024, device="cuda")

    def slow_host():
        time.sleep(0.0005)
        x.add_(1)

    call = {"fused": slow_host}
    hold = hold_for(call, lambda _: flush.read())
    assert hold.longest_ms > 1
    rounds = sample_rounds([call] * 20, held(hold, lambda _: flush.read(), flush.let_go))
    assert statistics.median(one["fused"].milliseconds for one in rounds) < 0.02
    assert sum(one["fused"].late for one in rounds) <= 2


def test_a_sample_that_waited_is_known_as_late():
    x = torch.ones(1024, device="cuda")

    def waits():
        x.add_(1)
        torch.cuda.synchronize()

    assert all(one["waits"].late for one in sample_rounds([{"waits": waits}] * 5, lambda name, call: None))


def test_functions_are_interleaved_and_all_samples_kept(target):
    order = []

    def call(name, real):
        return lambda: (order.append(name), real())

    functions = {"fused": call("fused", copy_of(4)), "eager": call("eager", copy_of(16))}
    samples = taken(functions, target)
    counts = [len(samples.milliseconds[clock][name]) for clock in ("events", "trace") for name in functions]
    assert counts[0] == counts[1] >= 10 <= counts[2] == counts[3]
    assert samples.kernels == dict.fromkeys(functions, (1,) * counts[2])
    rounds = order[-2 * counts[2] :]
    pairs = set(zip(rounds[::2], rounds[1::2], strict=True))
    assert pairs == {("fused", "eager"), ("eager", "fused")}


def test_inputs_and_results_lie_elsewhere_from_round_to_round(target):
    seen = []

    def negated(x):
        result = torch.neg(x)
        seen.append((x.data_ptr(), result.data_ptr()))
        return result

    places = at_places(lambda inputs: {"fused": lambda: negated(inputs["x"])}, {"x": torch.ones(MIB, device="cuda")})
    samples = measure(places, Options(flush_size(target), ("graph",)), open_monitor())
    assert (samples.places, samples.results) == (8, 12)
    assert "timing.fused.graph" not in samples.nulls
    rounds = seen[: len(samples.milliseconds["events"]["fused"])]
    assert len({x for x, _ in rounds}) == 8
    assert len({result for _, result in rounds}) >= 12


def test_a_copy_takes_the_time_of_its_bytes(target):
    timing, nulls = summarize(taken({"fused": copy_of(64), "eager": copy_of(256)}, target))
    assert timing.speedup_kernel["eager"].value == pytest.approx(4.0, rel=0.1)
    assert timing.fused.trace.median_ms < timing.fused.events.median_ms
    low, high = timing.speedup["eager"].low, timing.speedup["eager"].high
    assert low <= timing.speedup["eager"].value <= high
    assert nulls == {}


def test_warm_is_faster_than_cold_and_a_graph_than_launches(target):
    x, y = torch.ones(2, MIB, device="cuda")

    def chain():
        for _ in range(8):
            torch.neg(x, out=y)

    timing, nulls = summarize(taken({"fused": chain, "eager": copy_of(4)}, target, modes=("warm", "graph")))
    assert set(nulls) == {"speedup_kernel.eager"}  # too short to claim one
    assert timing.baselines["eager"].warm.median_ms < timing.baselines["eager"].events.median_ms
    assert timing.fused.graph.median_ms < timing.fused.events.median_ms


def test_modes_are_taken_only_when_asked_for(target):
    timing, _ = summarize(taken({"fused": copy_of(4)}, target))
    assert (timing.fused.warm, timing.fused.graph) == (None, None)


def test_what_no_graph_holds_is_null_with_its_reason(target):
    x = torch.ones(1024, device="cuda")

    def waits():
        return x.sum().item()

    timing, nulls = summarize(taken({"fused": waits, "eager": copy_of(4)}, target, modes=("graph",)))
    assert timing.fused.graph is None
    assert timing.baselines["eager"].graph is not None
    assert nulls["timing.fused.graph"].startswith("its call cannot be captured in a graph: ")


def test_the_device_is_read_before_during_and_after(target):
    if torch.version.hip:
        pytest.skip("AMD devices are not read yet")
    timing, _ = summarize(taken({"fused": copy_of(64)}, target))
    assert next(iter(timing.states)) == "before"
    assert list(timing.states)[-1] == "after"
    for state in timing.states.values():
        assert 100 < state.sm_clock_mhz < 4000
        assert 10 < state.temperature_c < 110
        assert 10 < state.power_w < 2000


def test_a_device_is_found_by_its_uuid(monkeypatch):
    if torch.version.hip:
        pytest.skip("AMD devices are not read yet")
    nvml = pytest.importorskip("pynvml")
    monitor = open_monitor()
    uuid = nvml.nvmlDeviceGetUUID(monitor._handle)
    uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
    assert uuid == f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
