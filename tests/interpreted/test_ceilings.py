"""Sizes of the buffers that bandwidth is measured with, and that one figure that fails costs itself alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from portkit.run.ceilings import bandwidth, matmul, probe
from portkit.run.ceilings.bandwidth import BLOCK, STEPS, buffer_bytes
from portkit.run.ceilings.fastest import Reached
from portkit.run.ceilings.matmul import matmul_rate
from portkit.run.ceilings.probe import probe_device
from portkit.run.probes import FIGURES
from portkit.targets.catalog import load_catalog

GIB = 1 << 30
H200 = load_catalog().get("h200")


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """A device that tells of 32 MiB of L2."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    properties = type("Properties", (), {"L2_cache_size": 32 << 20})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)


@pytest.mark.parametrize(
    ("cache_mib", "free", "size"),
    [
        (60, 100 * GIB, GIB),  # the least that is long enough to time
        (256, 190 * GIB, 4 * GIB),  # sixteen times the cache
        (256, 16 * GIB, 2 * GIB),  # an eighth of what is free, still eight times the cache
        (None, 4 * GIB, GIB // 2),  # the catalogue knows no cache: the device's own counts
    ],
)
def test_buffers_are_far_larger_than_any_cache(cache_mib, free, size):
    target = dataclasses.replace(H200, l2_mib=cache_mib, last_level_cache_mib=None)
    assert buffer_bytes(target, free) == size
    assert size % (4 * BLOCK * STEPS) == 0


@pytest.mark.parametrize(("cache_mib", "free"), [(256, 4 * GIB), (None, 900 << 20), (0, 0)])
def test_where_too_little_is_free_there_is_no_figure(cache_mib, free):
    target = dataclasses.replace(H200, l2_mib=cache_mib, last_level_cache_mib=None)
    with pytest.raises(MemoryError, match="too few for buffers of 4 times the cache"):
        buffer_bytes(target, free)


def test_one_figure_that_fails_costs_itself_alone(monkeypatch):
    def refuse(*given):
        raise RuntimeError("CUDA error: not today")

    reached = Reached(4.0, "played")
    monkeypatch.setattr(probe, "bandwidths", lambda target: {"copy_gbs": lambda: reached, "read_gbs": refuse})
    monkeypatch.setattr(probe, "matmul_rate", lambda kind: refuse() if kind == "fp8" else reached)
    for name in ("launch_us", "graph_launch_us"):
        monkeypatch.setattr(probe, name, refuse)
    monkeypatch.setattr(probe, "_event_overhead", lambda target: 2.5)
    monkeypatch.setattr(probe, "evicts", lambda flush: None)
    monkeypatch.setattr(probe, "make_flush", lambda size: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    found = probe_device(H200, "d0")
    assert (found.copy_gbs, found.read_gbs, found.event_overhead_us, found.evicted) == (4.0, None, 2.5, None)
    assert found.matmul_tflops == dict.fromkeys(("float32", "tf32", "float16", "bfloat16", "int8"), 4.0)
    assert found.nulls == {
        **dict.fromkeys(
            ("read_gbs", "launch_us", "graph_launch_us", "matmul_tflops.fp8"), "RuntimeError: CUDA error: not today"
        ),
        "evicted": "UnclearError: reads from cold and from warm caches take as long here",
    }
    assert set(found.reached_by) == {"copy_gbs", *(f"matmul_tflops.{kind}" for kind in found.matmul_tflops)}
    assert {name for name in FIGURES if getattr(found, name) is None} <= {*found.nulls, "write_gbs"}


def test_the_best_size_counts_and_the_first_long_one_is_the_last(monkeypatch):
    asked = []

    def best_ms(size):
        asked.append(size)
        return {1024: 0.25, 2048: 0.5, 4096: 16.0}[size]

    monkeypatch.setattr(matmul, "_check_rounding", lambda kind: None)
    monkeypatch.setattr(matmul, "KINDS", {"bfloat16": lambda size: size})
    monkeypatch.setattr(matmul, "best_ms", best_ms)
    reached = matmul_rate("bfloat16")
    assert asked == [1024, 2048, 4096]
    assert reached.value == pytest.approx(2 * 2048**3 / 0.5e-3 / 1e12)
    assert reached.by == "torch.matmul, 2048×2048×2048"


def test_the_best_operation_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 * GIB, 100 * GIB))
    monkeypatch.setattr(torch, "ones", lambda *shape, **given: None)
    monkeypatch.setattr(bandwidth, "_MAKERS", {"copy": lambda buffer: {"slow": 2.0, "fast": 0.5}})
    monkeypatch.setattr(bandwidth, "best_ms", lambda call: call)
    (reached,) = [measure() for measure in bandwidth.bandwidths(H200).values()]
    assert reached == Reached(2 * GIB / 0.5 / 1e6, "fast, float32, 1024 MiB")
