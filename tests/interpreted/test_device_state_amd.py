"""State and partitions of AMD devices, read from a stand-in of amd-smi's library; no GPU needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from portkit.model import DeviceState
from portkit.run import amd_smi, device_state
from portkit.run.device_state import amd, open_monitor

UUIDS = ("de8287300da37c72", "76a08c022586fed6")
ADDRESSES = ("0000:05:00.0", "0000:C1:00.0")
NEW = {"prochot_residency_acc": 10, "ppt_residency_acc": 20, "socket_thm_residency_acc": 30}
OLD = {"throttle_status": 7, "indep_throttle_status": 1 << 36 | 1 << 0, "prochot_residency_acc": "N/A"}


class AmdSmiLibraryException(Exception):  # noqa: N818 - the library's name
    """What the library raises."""


class AmdSmi:
    """Two devices; what they say can be set."""

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot", EDGE="edge")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, *, refuses=None, **says):
        self.refuses = refuses
        self.clock = says.get("clock", {"clk": 2100, "min_clk": 132, "max_clk": 2100})
        self.power = says.get("power", {"current_socket_power": 701, "average_socket_power": "N/A"})
        self.temperature = says.get("temperature", 61)
        self.metrics = says.get("metrics", dict(NEW))
        self.addresses = says.get("addresses", ADDRESSES)
        self.uuids = says.get("uuids", UUIDS)
        self.modes = says.get("modes", ("CPX", "NPS4"))

    def amdsmi_init(self):
        if self.refuses:
            raise AmdSmiLibraryException(self.refuses)

    def amdsmi_get_processor_handles(self):
        return list(range(len(self.addresses)))

    def amdsmi_get_gpu_device_bdf(self, handle):
        return self.addresses[handle]

    def amdsmi_get_gpu_enumeration_info(self, handle):
        return {"hip_id": handle, "hip_uuid": f"GPU-{self.uuids[handle]}", "drm_card": 0}

    def amdsmi_get_clock_info(self, handle, kind):
        return self.clock if kind == "gfx" else {"clk": 1300 + handle}

    def amdsmi_get_power_info(self, handle):
        return self.power

    def amdsmi_get_temp_metric(self, handle, sensor, metric):
        assert (sensor, metric) == ("hotspot", "current")
        return self.temperature

    def amdsmi_get_gpu_metrics_info(self, handle):
        return self.metrics

    def amdsmi_get_gpu_compute_partition(self, handle):
        return self.modes[0]

    def amdsmi_get_gpu_memory_partition(self, handle):
        return self.modes[1]


def properties(number=1, *, address=True, uuid=True):
    """As torch gives them: its UUID has the characters of HIP's as bytes."""
    given = {"gcnArchName": "gfx942:sramecc+:xnack-"}
    if address:
        given |= {"pci_domain_id": 0, "pci_bus_id": (5, 0xC1)[number], "pci_device_id": 0}
    if uuid:
        text = UUIDS[number].encode().hex()
        given["uuid"] = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return SimpleNamespace(**given)


@pytest.fixture
def device(monkeypatch):
    def use(library, given=None):
        monkeypatch.setitem(sys.modules, "amdsmi", library)
        monkeypatch.setattr(torch.version, "hip", "6.4.43482")
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: given or properties())
        return open_monitor()

    return use


def test_figures_are_in_the_units_of_the_record(device):
    monitor = device(AmdSmi())
    assert monitor.read() == DeviceState(2100, 1301, 701, 61, ())
    assert monitor.nulls == {}


@pytest.mark.parametrize("given", [properties(), properties(uuid=False), properties(address=False)])
def test_the_device_is_found_by_address_or_uuid_and_not_by_index(device, given):
    assert device(AmdSmi(), given).read().memory_clock_mhz == 1301  # torch's device 0, the library's 1


def test_partitions_of_one_package_are_told_apart_by_their_uuids(device):
    library = AmdSmi(addresses=("0000:c1:00.0", "0000:c1:00.1"))
    assert device(library).read().memory_clock_mhz == 1301


@pytest.mark.parametrize(
    ("library", "given", "words"),
    [
        (None, None, "pip install /opt/rocm/share/amd_smi"),
        (AmdSmi(refuses="AMDSMI_STATUS_DRIVER_NOT_LOADED"), None, "amd-smi can't be used: AMDSMI_STATUS_DRIVER"),
        (AmdSmi(addresses=()), None, "amd-smi lists no device of the address and UUID that torch gives; 0 in all"),
        (AmdSmi(addresses=("0000:c1:00.0",) * 2, uuids=UUIDS[1:] * 2), None, "amd-smi lists 2 devices of"),
        (AmdSmi(), properties(address=False, uuid=False), "amd-smi lists no device"),
    ],
)
def test_a_device_that_cannot_be_read_says_why(device, library, given, words):
    monitor = device(library, given)
    assert monitor.read() is None
    assert words in monitor.nulls[device_state.STATES]


@pytest.mark.parametrize(
    ("power", "watts"),
    [
        ({"socket_power": 500, "current_socket_power": 400, "average_socket_power": 300}, 500),
        ({"current_socket_power": "N/A", "average_socket_power": 41}, 41),
        ({"average_socket_power": 0}, None),
        ({"current_socket_power": "N/A"}, None),
    ],
)
def test_power_by_version_and_device(device, power, watts):
    """The second GCD of an MI250X says 0."""
    monitor = device(AmdSmi(power=power))
    assert monitor.read().power_w == watts
    assert ("timing.states.power_w" in monitor.nulls) == (watts is None)


@pytest.mark.parametrize(("told", "degrees"), [(61, 61), (67_500, 67.5), ("N/A", None)])
def test_temperature_in_degrees(device, told, degrees):
    assert device(AmdSmi(temperature=told)).read().temperature_c == degrees


def test_an_older_name_of_the_clock(device):
    assert device(AmdSmi(clock={"cur_clk": 1700})).read().sm_clock_mhz == 1700


def test_causes_that_grew_since_the_last_look(device):
    library = AmdSmi(metrics=dict(NEW))
    monitor = device(library)
    library.metrics["ppt_residency_acc"] += 5
    assert monitor.read().throttle == ("PPT",)
    assert monitor.read().throttle == ()


def test_causes_in_bits(device):
    assert device(AmdSmi(metrics=OLD)).read().throttle == ("PPT0", "TEMP_HOTSPOT")


def test_a_device_that_says_nothing_of_throttling(device):
    monitor = device(AmdSmi(metrics={"throttle_status": "N/A"}))
    assert monitor.read().throttle == ()
    assert monitor.nulls["timing.states.throttle"].startswith("amd-smi: no value of the status of throttling")


def test_another_version_of_the_library_costs_a_figure(device, monkeypatch):
    monkeypatch.delattr(AmdSmi, "AmdSmiClkType")
    monitor = device(AmdSmi())
    assert monitor.read() == DeviceState(None, None, 701, 61, ())
    assert "timing.states.sm_clock_mhz" in monitor.nulls


def test_the_bits_are_those_of_linux():
    """SMU_THROTTLER_*_BIT: power from 0, current from 16, temperature from 32."""
    assert (amd.BITS["PPT0"], amd.BITS["TDC_GFX"], amd.BITS["APCC"], amd.BITS["TEMP_HOTSPOT"]) == (0, 16, 23, 36)
    assert len(set(amd.BITS.values())) == len(amd.BITS)


@pytest.mark.parametrize(
    ("modes", "expected"), [(("SPX", "NPS1"), "SPX/NPS1"), (("N/A", "NPS1"), "NPS1"), (("N/A", "N/A"), None)]
)
def test_partition_modes(monkeypatch, modes, expected):
    monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(modes=modes))
    assert amd_smi.partitions([properties(), properties(0)]) == [expected] * 2


@pytest.mark.parametrize("uuids", [UUIDS[1:] * 3, ("N/A",) * 3])
def test_the_modes_of_a_partitioned_package_are_told_by_its_first_part(monkeypatch, uuids):
    """Its parts share address and number; Linux has the modes at the first alone."""
    library = AmdSmi(addresses=tuple(f"0000:c1:00.{part}" for part in range(3)), uuids=uuids)
    monkeypatch.setattr(library, "amdsmi_get_gpu_compute_partition", lambda part: "N/A" if part else "CPX")
    monkeypatch.setattr(library, "amdsmi_get_gpu_memory_partition", lambda part: "N/A" if part else "NPS4")
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    assert amd_smi.partitions([properties()] * 3) == ["CPX/NPS4"] * 3


def test_parts_that_contradict_each_other_tell_no_mode(monkeypatch):
    library = AmdSmi(addresses=("0000:c1:00.0", "0000:c1:00.1"), uuids=UUIDS[1:] * 2)
    monkeypatch.setattr(library, "amdsmi_get_gpu_compute_partition", lambda part: ("CPX", "DPX")[part])
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    assert amd_smi.partitions([properties()]) == [None]


def test_partition_modes_that_nobody_can_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert amd_smi.partitions([properties()]) == [None]
    monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(addresses=()))
    assert amd_smi.partitions([properties()]) == [None]


@pytest.mark.parametrize("uuid", ["", "not hexadecimal", "ffff", "5858" + "00" * 14, "30" * 16])
def test_a_uuid_that_is_not_hip_s(uuid):
    assert amd_smi.hip_uuid(SimpleNamespace(uuid=uuid)) is None
