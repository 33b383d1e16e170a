"""``portkit doctor`` on a host with an AMD GPU, played by files."""

import pytest

from portkit.cli import doctor_amd
from portkit.cli.doctor import GAP, OK, Facts, examine
from portkit.cli.doctor_amd import amd_checks, rocprof_check
from portkit.errors import HostError

PERFMON, ADMIN, OTHER = 1 << 38, 1 << 21, 1 << 12


def make(root, path, text=""):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def host(tmp_path):
    """The root of one that is in order."""
    make(tmp_path, "dev/kfd")
    make(tmp_path, "dev/dri/renderD128")
    return tmp_path


def found(root, capabilities=0, architectures=("gfx942",), can_open=lambda path: True):
    return {each.name: each for each in amd_checks(root, capabilities, architectures, can_open)}


def test_a_host_in_order(host):
    checks = found(host, PERFMON)
    assert (checks["AMD GPU access"].state, checks["AMD counters"].state) == (OK, OK)


def test_another_host_has_no_such_lines(tmp_path):
    assert found(tmp_path) == {}


@pytest.mark.parametrize("shut", ["kfd", "renderD128"])
def test_a_missing_group_is_named_with_the_node(host, shut):
    check = found(host, can_open=lambda path: path.name != shut)["AMD GPU access"]
    assert check.state == GAP
    assert shut in check.found
    assert "usermod -aG render,video" in check.remedy
    assert "--device /dev/kfd" in check.remedy


def test_a_container_without_the_render_nodes(host):
    (host / "dev/dri/renderD128").unlink()
    assert "no /dev/dri/renderD*" in found(host)["AMD GPU access"].found


@pytest.mark.parametrize(("capabilities", "state"), [(PERFMON, OK), (ADMIN, OK), (OTHER, GAP), (0, GAP)])
def test_permission_to_count(host, capabilities, state):
    check = found(host, capabilities)["AMD counters"]
    assert check.state == state
    assert ("--cap-add=PERFMON" in check.remedy) == (state == GAP)


@pytest.mark.parametrize(("architecture", "seen"), [("gfx1100", True), ("gfx1201", True), ("gfx942", False)])
def test_the_performance_level_matters_on_radeon(host, architecture, seen):
    make(host, "sys/class/drm/card1/device/power_dpm_force_performance_level", "auto\n")
    make(host, "sys/class/drm/card2/device/power_dpm_force_performance_level", "profile_standard\n")
    checks = found(host, architectures=(architecture,))
    assert ("performance level card1" in checks) == seen
    if seen:
        assert checks["performance level card1"].state == GAP
        assert "stable_std" in checks["performance level card1"].remedy
        assert checks["performance level card2"].state == OK


@pytest.mark.parametrize(("spec", "state"), [(None, GAP), (object(), OK)])
def test_the_management_library(host, monkeypatch, spec, state):
    monkeypatch.setattr(doctor_amd.importlib.util, "find_spec", lambda name: spec)
    assert found(host)["amdsmi"].state == state


def test_the_profiler(monkeypatch):
    class Profiler:
        tool = "rocprofv3 of ROCm 7.0.2"

    monkeypatch.setattr(doctor_amd, "open_rocprof", lambda target: Profiler())
    assert (rocprof_check().state, rocprof_check().found) == (OK, "rocprofv3 of ROCm 7.0.2")

    def refuses(target):
        raise HostError("rocprofv3 is not installed", remedy="install rocprofiler-sdk")

    monkeypatch.setattr(doctor_amd, "open_rocprof", refuses)
    assert rocprof_check().found == "rocprofv3 is not installed: no counters of AMD GPUs"
    assert rocprof_check().remedy == "install rocprofiler-sdk"


def test_the_whole_of_doctor_has_these_lines(host):
    facts = {"torch": "2.9.0", "triton": "3.5.1", "toolkit": "HIP 6.4", "driver": "6.12", "backends": ["amd"]}
    names = {each.name for each in examine(Facts({**facts, "devices": []}, {}, host))}
    assert {"AMD GPU access", "AMD counters", "amdsmi", "rocprofv3"} <= names


def test_this_process_may_open_its_own_files(host):
    assert doctor_amd.can_open(host / "dev/kfd")
    assert not doctor_amd.can_open(host / "dev/none")
