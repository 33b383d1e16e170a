"""What a ROCm host says of itself, with torch's properties played; no GPU needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from portkit.run import host, rocm_host
from portkit.run.pinned import only_device
from portkit.run.shim import rocm as shim
from portkit.targets.catalog import load_catalog

GIB = 1 << 30


def gpu(name="AMD Instinct MI300X", arch="gfx942:sramecc+:xnack-", units=304, gib=192, bus=5, **more):
    given = {"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0, "uuid": "same", "major": 9, "minor": 4}
    return SimpleNamespace(
        name=name, gcnArchName=arch, multi_processor_count=units, total_memory=gib * GIB, **{**given, **more}
    )


@pytest.fixture
def probed(monkeypatch):
    """A host whose torch is of ROCm and sees the devices."""

    def probe(*gpus):
        monkeypatch.setitem(sys.modules, "amdsmi", None)
        monkeypatch.setenv("PORTKIT_SALT", "test")
        monkeypatch.setattr(torch.version, "hip", "6.4.43482")
        monkeypatch.setattr(torch.version, "cuda", None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpus[index])
        return host.probe_host()

    return probe


def test_an_instinct_card(probed):
    found = probed(gpu())
    (device,) = found.devices
    assert (device.target, device.architecture, device.units) == ("mi300x", "gfx942", 304)
    assert device.features == ("sramecc+", "xnack-")
    assert device.partition is None  # nobody can say
    assert found.toolkit.startswith("HIP 6.4.43482")


def test_an_mi250x_is_two_devices(probed):
    """Its dies have one UUID and lie at two addresses."""
    name = "AMD Instinct MI250X/MI250"
    first, second = probed(*(gpu(name, "gfx90a:sramecc+:xnack-", 110, 64, bus) for bus in (5, 6))).devices
    assert first.target == second.target == "mi250x"
    assert first.device_id != second.device_id


def test_partitions_of_one_package_have_ids_of_their_own(probed):
    """In CPX mode they share UUID and address, and are a target of their own."""
    devices = probed(*[gpu(units=38, gib=24)] * 3).devices
    assert {device.target for device in devices} == {"mi300x38units"}
    assert len({device.device_id for device in devices}) == 3


def test_a_radeon_counts_wgps(probed):
    """96 CUs, of which the runtime counts pairs."""
    (device,) = probed(gpu("AMD Radeon RX 7900 XTX", "gfx1100", 48, 24)).devices
    assert (device.target, device.units, device.features) == ("rx7900xtx", 48, ())


def test_a_torch_that_tells_no_address(probed):
    bare = gpu()
    del bare.pci_domain_id
    assert probed(bare).devices[0].device_id == probed(bare).devices[0].device_id


@pytest.mark.parametrize(("rocm", "words"), [("7.0.1", "HIP 7.0, ROCm 7.0.1"), (None, "HIP 7.0")])
def test_the_toolkit_names_rocm_where_torch_does(rocm, words):
    assert rocm_host.toolkit(SimpleNamespace(hip="7.0", rocm=rocm)) == words


def test_the_driver(tmp_path):
    assert rocm_host.driver(tmp_path / "none") is None
    assert rocm_host.driver(tmp_path).startswith("amdgpu of Linux ")
    (tmp_path / "version").write_text("6.12.12\n")
    assert rocm_host.driver(tmp_path) == "6.12.12"


@pytest.mark.parametrize(
    ("hip", "environment", "chosen"),
    [
        (None, {"CUDA_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "1,2"}, "6"),
        ("6.4", {"CUDA_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "1,2"}, "2"),
        ("6.4", {"CUDA_VISIBLE_DEVICES": "4,6"}, "6"),
        ("6.4", {"ROCR_VISIBLE_DEVICES": "3,5"}, "1"),  # HIP counts what that leaves
        ("6.4", {"HIP_VISIBLE_DEVICES": "GPU-de82,GPU-76a0"}, "GPU-76a0"),
    ],
)
def test_the_one_device_of_a_process(monkeypatch, hip, environment, chosen):
    monkeypatch.setattr(torch.version, "hip", hip)
    assert only_device(1, environment) == {"CUDA_VISIBLE_DEVICES": chosen, "HIP_VISIBLE_DEVICES": chosen}


def test_what_host_code_sees_of_an_absent_amd_gpu(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    shim.set_versions()
    assert (torch.version.hip, torch.version.cuda) == (shim.TOOLKIT, None)
    seen = shim.properties(load_catalog().get("mi300x"))
    assert (seen["gcnArchName"], seen["major"], seen["minor"]) == ("gfx942:sramecc+:xnack-", 9, 4)
    assert (seen["warp_size"], seen["multi_processor_count"]) == (64, 304)


def test_an_architecture_that_is_no_gfx():
    with pytest.raises(ValueError, match="not a gfx architecture: sm_90"):
        shim.capability(load_catalog().get("h200").architecture)
