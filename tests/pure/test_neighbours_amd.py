"""Who else uses an AMD device, by amd-smi's answers, played."""

from __future__ import annotations

import dataclasses
import os
import sys
import uuid
from types import SimpleNamespace

import pytest
from factories import host

from portkit.run import host as host_module
from portkit.run import rocm_host
from portkit.run.neighbours import amd, check
from portkit.run.neighbours.use import Use

UNIQUE = "de8287300da37c72"
MIB = 1 << 20
GIB = 1 << 30


class AmdSmiLibraryException(Exception):  # noqa: N818 - the library's name
    """As amdsmi has it."""


def process(pid, vram=GIB, gtt=0, **more):
    return {
        **more,
        "name": "python",
        "pid": pid,
        "mem": vram + gtt,
        "engine_usage": {"gfx": 0, "enc": 0},
        "memory_usage": {"gtt_mem": gtt, "cpu_mem": 0, "vram_mem": vram},
    }


def fake_smi(listed=((),), computing=(), used_mib=283, unique=UNIQUE, addresses=None, number=UNIQUE, fails=""):
    """amd-smi of a host with one package, of a partition a list of processes; the named function fails.

    Args:
        listed: processes of each handle.
        computing: processes of the compute driver.
        used_mib: device memory in use.
        unique: number of the package; None: a library that does not tell it so, but as a serial number.
        addresses: of the handles.
        number: the serial number.
        fails: name of a function.
    """

    addresses = addresses or [f"0000:05:00.{function}" for function in range(len(listed))]

    def refuse(*given):
        raise AmdSmiLibraryException("AMDSMI_STATUS_NO_PERM")

    answers = {
        "amdsmi_init": lambda: None,
        "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: list(range(len(listed))),
        "amdsmi_get_gpu_device_bdf": lambda handle: addresses[handle],
        "amdsmi_get_gpu_enumeration_info": lambda handle: {"hip_uuid": f"GPU-{unique}"} if unique else refuse(),
        "amdsmi_get_gpu_asic_info": lambda handle: {"asic_serial": f"0x{number.upper()}"},
        "amdsmi_get_gpu_process_list": lambda handle: listed[handle],
        "amdsmi_get_gpu_compute_process_info": lambda: [{"process_id": pid, "pasid": 1} for pid in computing],
        "amdsmi_get_gpu_vram_usage": lambda handle: {"vram_total": 196592, "vram_used": used_mib},
    }
    return SimpleNamespace(**(answers | ({fails: refuse} if fails else {})))


def properties(unique=UNIQUE, bus=5):
    """As torch gives them: its UUID is the characters of HIP's as bytes."""
    told = str(uuid.UUID(bytes=unique.encode())) if unique else "58580000-0000-0000-0000-000000000000"
    return SimpleNamespace(uuid=told, pci_domain_id=0, pci_bus_id=bus, pci_device_id=0)


@pytest.fixture
def gpu(monkeypatch):
    """A device of the host as its probe names it."""
    monkeypatch.setenv(host_module.SALT_VARIABLE, "a fleet")

    def made(given=None):
        serial = rocm_host.serial_of(given or properties(), host_module.machine())
        device_id = host_module.device_id_of(serial)
        return dataclasses.replace(host().devices[0], architecture="gfx942", device_id=device_id)

    return made


@pytest.fixture
def look(gpu, monkeypatch):
    def asked(given=None, **state):
        monkeypatch.setitem(sys.modules, "amdsmi", fake_smi(**state))
        device = gpu(given)
        return check.look([device])[device.device_id]

    return asked


@pytest.mark.parametrize(
    ("state", "processes"),
    [
        ({}, 0),
        ({"listed": ([process(11), process(12)],), "computing": [11, 12, 13]}, 2),
        ({"listed": ([process(21)],), "computing": []}, 0),  # it only draws
        ({"listed": ([process(11, vram=0)],), "computing": [11]}, 0),  # it computes on another device
        ({"listed": ([process(11, vram=2 * MIB)],), "computing": [11]}, 0),  # it has opened this one, too
        ({"listed": ([process(11, vram=2 * MIB, cu_occupancy=304)],), "computing": [11]}, 1),
        ({"listed": ([process(11, vram=2 * MIB, cu_occupancy="N/A")],), "computing": [11]}, 0),
        ({"listed": ([process(11, vram=0, gtt=GIB)],), "computing": [11]}, 1),  # an APU's memory is the host's
        ({"listed": ([process(os.getpid())],), "computing": [os.getpid()], "used_mib": 90_000}, 0),
        ({"listed": ([process(11)],), "computing": [11], "unique": None}, 1),
        ({"listed": ([process(11)],), "computing": [11], "used_mib": "N/A"}, 1),
        ({"used_mib": "N/A"}, 0),
        ({"listed": ([process(21, vram=3 * GIB)],), "used_mib": 3 * 1024 + 283}, 0),  # a desktop
        ({"fails": "amdsmi_get_gpu_vram_usage"}, 0),
        ({"fails": "amdsmi_shut_down"}, 0),
    ],
)
def test_processes_that_compute_and_hold_memory_count(look, state, processes):
    assert look(**state) == Use(processes)


def test_whoever_computes_on_one_partition_counts_on_all(look):
    assert look(listed=([process(11)], [process(12)], []), computing=[11, 12]) == Use(2)


def test_the_second_partition_is_of_the_same_package(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", fake_smi(listed=([process(11)],), computing=[11]))
    second = dataclasses.replace(gpu(), device_id=f"{gpu().device_id}.2")
    assert amd.look([second]) == {second.device_id: Use(1)}


def test_a_device_without_a_unique_number_is_found_by_its_address(look):
    state = {"listed": ([process(11)],), "computing": [11], "unique": "0" * 16, "number": "N/A"}
    assert look(properties(unique=None), **state) == Use(1)


def test_memory_that_nobody_seen_holds_is_a_sign(look):
    """As in a container that hides the host's processes."""
    use = look(used_mib=90_000)
    assert (use.processes, use.hidden_bytes, use.shared) == (None, 90_000 * MIB, True)


def test_a_process_that_the_driver_s_list_does_not_name_is_asked_itself(tmp_path):
    """Within a container the driver lists the host's numbers."""
    (tmp_path / "11" / "fd").mkdir(parents=True)
    (tmp_path / "12" / "fd").mkdir(parents=True)
    (tmp_path / "11" / "fd" / "3").symlink_to("/dev/kfd")
    (tmp_path / "12" / "fd" / "3").symlink_to("/dev/dri/renderD128")
    assert [amd._has_opened_kfd(pid, tmp_path) for pid in (11, 12, 13)] == [True, False, False]


def test_without_the_driver_s_list_each_process_is_asked(look, monkeypatch):
    monkeypatch.setattr(amd, "_has_opened_kfd", lambda pid: pid == 12)
    state = {"listed": ([process(11), process(12)],), "fails": "amdsmi_get_gpu_compute_process_info"}
    assert look(**state) == Use(1)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"unique": "76a08c022586fed6"}, "amd-smi lists no device of the address and unique number that HIP gives"),
        ({"addresses": ("0000:06:00.0",)}, "amd-smi lists no device of the address and unique number that HIP gives"),
        ({"fails": "amdsmi_get_gpu_process_list"}, "amd-smi: AMDSMI_STATUS_NO_PERM"),
        ({"fails": "amdsmi_get_processor_handles"}, "amd-smi: AMDSMI_STATUS_NO_PERM"),
        ({"fails": "amdsmi_init"}, "amd-smi can't be used: AMDSMI_STATUS_NO_PERM; for clocks"),
        ({"listed": ([SimpleNamespace(value=11)],)}, "amd-smi: 'types.SimpleNamespace' object has no attribute 'get'"),
    ],
)
def test_what_can_not_be_known_has_its_reason_and_stops_no_run(look, state, why):
    """The last as of ROCm 6.0, which listed handles of processes."""
    use = look(**state)
    assert use.why.startswith(why)
    assert (use.processes, use.shared) == (None, False)


def test_without_the_package(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    device = gpu()
    assert "pip install /opt/rocm/share/amd_smi" in amd.look([device])[device.device_id].why
