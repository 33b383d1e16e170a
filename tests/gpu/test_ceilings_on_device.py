"""What a device can do at most, measured on the device here."""

from __future__ import annotations

import dataclasses
import time

import pytest
import torch

from portkit.model import DeviceProbe
from portkit.run.ceilings import bandwidth, probe
from portkit.run.ceilings.matmul import KindMissingError, matmul_rate
from portkit.run.ceilings.probe import probe_device

FP8_FROM = (8, 9)


@pytest.fixture(scope="module")
def found(request):
    from portkit.plan.cases import introspect
    from portkit.targets.catalog import load_catalog

    device = introspect([], []).host.devices[0]
    catalog = load_catalog()
    target = catalog.get(device.target) if device.target in catalog else None
    target = target or catalog.match_device(
        name=device.name, architecture=device.architecture, units=device.units, memory_bytes=device.memory_bytes
    )
    start = time.perf_counter()
    return probe_device(target, device.device_id), target, time.perf_counter() - start


def test_every_figure_is_there_and_what_reached_it(found):
    probed, _, _ = found
    missing = {
        name: why for name, why in probed.nulls.items() if name not in ("matmul_tflops.tf32", "matmul_tflops.fp8")
    }
    assert missing == {}
    for field in dataclasses.fields(DeviceProbe):
        if field.name.endswith(("_gbs", "_us")):
            assert getattr(probed, field.name) > 0, field.name
    assert set(probed.reached_by) >= {"copy_gbs", "read_gbs", "write_gbs", "launch_us", "graph_launch_us"}


def test_it_takes_seconds(found):
    assert found[2] < 15  # three on an H200; the first call loads libraries and compiles


def test_measured_ceilings_are_below_the_datasheet_and_not_far(found):
    probed, target, _ = found
    if target.memory_bandwidth_gbs is None:
        pytest.skip("no datasheet figure is in the catalogue")
    for name in ("copy_gbs", "read_gbs", "write_gbs"):
        assert 0.6 < getattr(probed, name) / target.memory_bandwidth_gbs < 1.05, (name, probed)
    for kind, peak in target.peak_tflops.items():
        if peak and kind in probed.matmul_tflops:
            assert 0.4 < probed.matmul_tflops[kind] / peak < 1.1, (kind, probed)


def test_narrower_kinds_are_faster(found):
    rates = found[0].matmul_tflops
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("no matrix units for bfloat16")
    assert rates["float32"] < rates["bfloat16"]
    if torch.version.cuda and torch.cuda.get_device_capability() >= FP8_FROM:
        assert rates["bfloat16"] < rates["fp8"]


def test_a_graph_takes_most_of_the_launch_tax_away(found):
    assert found[0].graph_launch_us < found[0].launch_us


def test_the_flush_evicts(found):
    assert found[0].evicted is True


def test_two_measurements_agree(found):
    probed, target, _ = found
    again = {name: measure().value for name, measure in bandwidth.bandwidths(target).items()}
    for name, value in again.items():
        assert value == pytest.approx(getattr(probed, name), rel=0.03)


def test_too_little_free_memory_is_a_null_with_the_reason(found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (64 << 20, 1 << 40))
    monkeypatch.setattr(probe, "KINDS", ())
    blank = probe_device(found[1], "d")
    assert blank.copy_gbs is None
    assert "64 MiB are free: too few" in blank.nulls["copy_gbs"]
    assert blank.launch_us > 0


def test_a_kind_that_is_not_in_effect_is_refused(monkeypatch):
    """As where a setting forces tf32, or a device has none."""
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda name: None)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with pytest.raises(KindMissingError, match="no tf32 is in effect"):
            matmul_rate("tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
