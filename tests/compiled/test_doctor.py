"""``portkit doctor`` and the host probe."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from portkit.baselines import Library
from portkit.cli import doctor
from portkit.cli.doctor import Facts, examine
from portkit.run import host as probe
from portkit.run.neighbours.use import Use
from portkit.targets.catalog import load_catalog

HOST = {
    "torch": "2.13.0",
    "triton": "3.7.1",
    "toolkit": "CUDA 13.0",
    "driver": "580.1",
    "backends": ["amd", "nvidia"],
    "devices": [
        {
            "name": "NVIDIA H200",
            "target": "h200",
            "architecture": "sm_90",
            "index": 0,
            "memory_bytes": 150 * 2**30,
            "device_id": "d0",
        }
    ],
}


def checks(root, problems=None, **changes):
    return {each.name: each for each in examine(Facts({**HOST, **changes}, problems or {}, root))}


def make(root, path, text=""):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_whole_host_has_no_blocked_line(tmp_path):
    make(tmp_path, "dev/nvidia0")
    found = checks(tmp_path)
    assert {each.state for each in found.values()} <= {doctor.OK, doctor.GAP}
    assert found["torch"].state == doctor.OK
    assert found["GPU 0"].found == "NVIDIA H200: target h200, sm_90, 150 GiB"
    assert found["driver"].found == "580.1"


def test_a_host_without_a_gpu_is_told_the_commands_for_one_that_has(tmp_path):
    remedy = checks(tmp_path, devices=[])["GPU"].remedy
    assert "`pytest --benchmark` on a GPU host" in remedy
    assert "`portkit merge`" in remedy


def test_a_gpu_that_others_use_is_a_gap_with_its_remedy(tmp_path):
    found = {each.name: each for each in examine(Facts(HOST, {}, tmp_path, {"d0": Use(2)}))}["GPU 0"]
    assert (found.state, found.found) == (
        doctor.GAP,
        "NVIDIA H200: target h200, sm_90, 150 GiB; 2 other processes use it",
    )
    assert "--portkit-shared-device" in found.remedy
    alone = {each.name: each for each in examine(Facts(HOST, {}, tmp_path, {"d0": Use(0)}))}["GPU 0"]
    assert alone.state == doctor.OK


@pytest.mark.parametrize(("node", "gpu"), [("nvidia0", "NVIDIA"), ("kfd", "AMD")])
def test_cpu_torch_beside_a_gpu_is_named(tmp_path, node, gpu):
    make(tmp_path, f"dev/{node}")
    found = checks(tmp_path, toolkit=None, devices=[])
    assert found["torch"].state == doctor.GAP
    assert f"CPU build) beside an {gpu} GPU (/dev/{node})" in found["torch"].found
    assert "torch sees no device" in found["GPU"].found


def test_missing_torch_blocks_with_its_cause(tmp_path):
    found = checks(tmp_path, {"torch": "OSError: libx.so"}, torch=None, toolkit=None, devices=[])
    assert (found["torch"].state, found["torch"].found) == (doctor.BLOCKED, "OSError: libx.so")
    assert doctor.PYTORCH_PAGE in found["torch"].remedy


@pytest.mark.parametrize(("version", "state"), [("3.4.0", "blocked"), ("3.5.0", "ok"), ("3.10.0+git1", "ok")])
def test_oldest_triton(tmp_path, version, state):
    assert checks(tmp_path, triton=version)["triton"].state == state


def test_one_backend_missing_is_a_gap_both_block(tmp_path):
    found = checks(tmp_path, backends=["nvidia"])
    assert (found["Triton backend amd"].state, found["Triton backend nvidia"].state) == (doctor.GAP, doctor.OK)
    assert checks(tmp_path, backends=[])["Triton backend amd"].state == doctor.BLOCKED


def test_two_owners_of_triton(tmp_path, monkeypatch):
    owners = {"triton": ["triton", "pytorch-triton-rocm", "triton"]}
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: owners)
    check = checks(tmp_path)["import name triton"]
    assert (check.state, check.found) == (doctor.GAP, "owned by pytorch-triton-rocm and triton")
    assert check.remedy.startswith("pip uninstall pytorch-triton-rocm triton, then install the one")


@pytest.mark.parametrize(
    ("there", "writes", "prefix", "gap"),
    [
        (False, False, None, True),
        (True, False, None, False),
        (False, True, None, False),
        (False, False, "/elsewhere", True),
    ],
)
def test_python_that_keeps_no_bytecode_of_torch(tmp_path, monkeypatch, there, writes, prefix, gap):
    cached = tmp_path / "torch" / "__pycache__" / "__init__.cpython-312.pyc"
    make(tmp_path, "torch/__init__.py")
    if there:
        make(tmp_path, cached.relative_to(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", not writes)
    monkeypatch.setattr(sys, "pycache_prefix", prefix)
    found = list(doctor._bytecode(str(cached)))
    assert [each.state for each in found] == [doctor.GAP] * gap
    assert all("PYTHONDONTWRITEBYTECODE" in each.remedy for each in found)
    assert not list(doctor._bytecode(None))


def test_a_folder_of_torch_that_nobody_may_write_to_keeps_none(tmp_path, monkeypatch):
    make(tmp_path, "torch/__init__.py")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert [each.name for each in doctor._bytecode(str(tmp_path / "torch" / "__pycache__" / "x.pyc"))] == [
        "bytecode of torch"
    ]


@pytest.mark.parametrize(
    ("toolkit", "driver", "old"),
    [
        ("CUDA 13.0", "570.86.10", True),
        ("CUDA 13.0", "580.65.06", False),
        ("CUDA 12.8", "525.60.13", False),
        ("CUDA 12.8", "470.256", True),
        ("CUDA 14.1", "470.256", False),  # of which nothing is known
        ("CUDA 13.0", None, False),
        (None, "470.256", False),
        ("HIP 6.4.43482", "6.12.12", False),
    ],
)
def test_a_driver_too_old_for_torch(tmp_path, toolkit, driver, old):
    found = checks(tmp_path, toolkit=toolkit, driver=driver)
    assert ("driver for torch's CUDA" in found) == old
    if old:
        assert "install torch's build for an older CUDA" in found["driver for torch's CUDA"].remedy


@pytest.mark.parametrize(("value", "state"), [("1", "gap"), ("0", "ok")])
def test_counter_permission(tmp_path, value, state):
    make(tmp_path, "proc/driver/nvidia/params", f"EnableMSI: 1\nRmProfilingAdminOnly: {value}\n")
    check = checks(tmp_path)["NVIDIA counters"]
    assert check.state == state
    assert bool(check.remedy) == (state == "gap")


def test_an_administrator_may_read_counters(tmp_path):
    make(tmp_path, "proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
    make(tmp_path, "proc/self/status", "Name:\tpython\nCapEff:\t000001ffffffffff\n")
    assert checks(tmp_path)["NVIDIA counters"].state == doctor.OK


@pytest.mark.parametrize(
    ("version", "state", "found"),
    [
        ("2025.3.1.0", "ok", "ncu 2025.3.1.0"),
        ("2019.5.3", "gap", "ncu 2019.5.3 is too old: no counters of NVIDIA GPUs"),
    ],
)
def test_ncu_and_its_version(tmp_path, monkeypatch, version, state, found):
    make(tmp_path, "ncu", f"#!/bin/sh\necho 'Version {version} (build 1)'\n")
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    check = checks(tmp_path)["ncu"]
    assert (check.state, check.found) == (state, found)
    assert bool(check.remedy) == (state == "gap")


def test_baseline_libraries_are_named_with_their_versions(tmp_path, monkeypatch):
    there, missing = Library("pytest", "pytest"), Library("no-such-library", "no_such_library")
    monkeypatch.setattr(doctor, "KNOWN", (there, missing))
    found = checks(tmp_path)
    assert (found["baseline pytest"].state, found["baseline pytest"].found) == (doctor.OK, pytest.__version__)
    gap = found["baseline no-such-library"]
    assert (gap.state, gap.found) == (doctor.GAP, "not installed: no speedup over it")
    assert gap.remedy.startswith("pip install no-such-library")


def test_every_gap_has_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = checks(tmp_path, torch=None, triton=None, toolkit=None, devices=[], backends=[], driver=None)
    assert found["C compiler"].state == doctor.GAP
    assert all(each.remedy for each in found.values() if each.state != doctor.OK)


def test_dead_probe_is_one_blocked_line(monkeypatch):
    monkeypatch.setattr(doctor.sys, "executable", "/bin/false")
    facts = doctor.gather()
    assert [(each.name, each.state) for each in examine(facts)] == [("probe", doctor.BLOCKED)]


@pytest.mark.parametrize("torch", [None, "2.13.0"])
def test_exit_code_and_json(monkeypatch, torch):
    monkeypatch.setattr(doctor, "gather", lambda: Facts({**HOST, "torch": torch}, {}))
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == (1 if torch is None else 0)
    assert json.loads(result.stdout)["possible"] is (torch is not None)


def test_table_without_colour(monkeypatch):
    monkeypatch.setattr(doctor, "gather", lambda: Facts(HOST, {}))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mok" in CliRunner().invoke(doctor.command, [], color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    result = CliRunner().invoke(doctor.command, [], color=True)
    assert "\x1b[3" not in result.stdout
    assert "Rows that a run on this host can have: interpreted, compiled, emulated, measured" in result.stdout


# The probe


def test_probe_says_what_is_installed(monkeypatch):
    torch = pytest.importorskip("torch")
    triton = pytest.importorskip("triton")
    host = probe.probe_host()
    assert (host.torch, host.triton) == (str(torch.__version__), triton.__version__)
    assert {"amd", "nvidia"} >= set(host.backends) > set()
    assert bool(host.devices) == torch.cuda.is_available()


def test_probe_works_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "triton", None)
    host = probe.probe_host()
    assert (host.torch, host.triton, host.toolkit, host.backends, host.devices) == (None, None, None, (), ())
    assert set(probe.import_problems()) == {"torch", "triton"}


def test_identity_is_stable_per_salt_and_names_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(probe, "_module", lambda name: None)
    monkeypatch.setattr(probe, "machine", lambda: "node-7")
    monkeypatch.setenv(probe.SALT_VARIABLE, "a")
    first, again = probe.probe_host(), probe.probe_host()
    monkeypatch.setenv(probe.SALT_VARIABLE, "b")
    other = probe.probe_host()
    assert first.host_id == again.host_id != other.host_id
    assert "node-7" not in repr(first)


def test_users_salt_is_made_once(monkeypatch, tmp_path):
    monkeypatch.delenv(probe.SALT_VARIABLE, raising=False)
    monkeypatch.setattr(probe, "user_data_path", lambda name: tmp_path / name)
    assert probe._salt() == probe._salt()
    assert [each.name for each in (tmp_path / "portkit").iterdir()] == ["salt"]


def test_no_place_for_a_salt_is_no_error(monkeypatch, tmp_path):
    monkeypatch.delenv(probe.SALT_VARIABLE, raising=False)
    (tmp_path / "portkit").write_text("a file, not a folder")
    monkeypatch.setattr(probe, "user_data_path", lambda name: tmp_path / name)
    assert len(probe._salt()) == 32


class Properties:
    def __init__(self, **values):
        vars(self).update(values)


NVIDIA = Properties(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=150_754_820_096, uuid="GPU-7"
)
AMD = Properties(
    name="AMD Instinct MI300X",
    major=9,
    minor=4,
    gcnArchName="gfx942:sramecc+:xnack-",
    multi_processor_count=304,
    total_memory=206_141_652_992,
    uuid="5d",
)
FUTURE = Properties(name="NVIDIA X", major=99, minor=0, multi_processor_count=1, total_memory=1, uuid="GPU-8")


@pytest.mark.parametrize(
    ("properties", "target", "arch"),
    [(NVIDIA, "h200", "sm_90"), (AMD, "mi300x", "gfx942"), (FUTURE, "x", "sm_990")],
)
def test_devices_get_their_target(properties, target, arch):
    device = probe._device(0, properties, load_catalog(), b"salt")
    assert (device.target, device.architecture) == (target, arch)
    assert re.fullmatch(r"[0-9a-f]{16}", device.device_id)


def test_settings_that_change_code_are_kept_places_are_not():
    environment = {
        "TRITON_DEFAULT_FP_FUSION": "0",
        "TRITON_CACHE_DIR": "/home/ann/cache",
        "TRITON_PTXAS_PATH": "/home/ann/cuda/bin/ptxas",
        "NVIDIA_TF32_OVERRIDE": "0",
        "HOME": "/home/ann",
    }
    assert probe.relevant_settings(environment) == {
        "NVIDIA_TF32_OVERRIDE": "0",
        "TRITON_DEFAULT_FP_FUSION": "0",
        "TRITON_PTXAS_PATH": "bin/ptxas",
    }


def test_probe_prints_one_json_line():
    done = subprocess.run([sys.executable, "-m", "portkit.run.host"], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"host", "problems"}
