"""What the driver says of loaded kernels, beside binary and rules."""

import ctypes
import dataclasses
from types import SimpleNamespace

import pytest
from factories import build, launch

from portkit.model import Loaded
from portkit.run import loaded
from portkit.run.loaded import ask_driver, disagreements
from portkit.targets.catalog import load_catalog


def disagreements_of(build, target="h200"):
    return disagreements(build, load_catalog().get(target).architecture)


def test_agreement_is_silent():
    assert disagreements_of(build(launch(32, loaded=Loaded(32, 8)), launch(16, loaded=None))) == {}


def test_clusters_and_silent_drivers_say_nothing_against_the_rules():
    assert disagreements_of(build(launch(32, loaded=Loaded(32, None)))) == {}


def test_each_disagreement_names_kernel_and_both_figures():
    assert disagreements_of(build(launch(32, loaded=Loaded(34, 7)))) == {
        "build.registers_per_thread": "_softmax_kernel: the driver says 34 registers, the binary 32",
        "build.occupancy": "_softmax_kernel: the driver says 7 blocks on a unit, the rules 8",
    }


def test_the_first_launch_that_disagrees_is_named():
    other = launch(32, loaded=Loaded(40, 8), kernel="_other")
    found = disagreements_of(build(launch(32, loaded=Loaded(32, 8)), other, launch(32, loaded=Loaded(50, 8))))
    assert found == {"build.registers_per_thread": "_other: the driver says 40 registers, the binary 32"}


@pytest.mark.parametrize(
    ("waves", "found"),
    [
        (5, {}),
        (4, {"build.occupancy": "_softmax_kernel: LLVM says 4 waves on a SIMD, the rules 5"}),
    ],
)
def test_the_compiler_s_own_waves(waves, found):
    """96 registers of 512 leave room for five waves on gfx942."""
    made = launch(96)
    raw = {"sgpr_count": 20, "llvm_waves_per_simd": waves}
    made = dataclasses.replace(made, resources=dataclasses.replace(made.resources, raw=raw))
    assert disagreements_of(build(made), "mi300x") == found


class Driver:
    """Stands in for the driver's library: notes what it is asked."""

    def __init__(self, blocks, code=0):
        self.asked, self._blocks, self._code = None, blocks, code

    def __call__(self, answer, function, threads, shared_bytes):
        self.asked = (function, threads, shared_bytes)
        ctypes.cast(answer, ctypes.POINTER(ctypes.c_int))[0] = self._blocks
        return self._code


def kernel(num_ctas=1):
    return SimpleNamespace(n_regs=44, function=0xF00, metadata=SimpleNamespace(shared=2048, num_ctas=num_ctas))


@pytest.mark.parametrize("name", ["h200", "mi300x"])
def test_what_the_driver_is_asked(monkeypatch, name):
    driver = Driver(5)
    monkeypatch.setattr(loaded, "_call", lambda library, function: driver)
    assert ask_driver(kernel(), load_catalog().get(name), 256) == Loaded(44, 5)
    assert driver.asked == (0xF00, 256, 2048)


def test_a_driver_that_refuses_and_a_cluster_are_unknown(monkeypatch):
    monkeypatch.setattr(loaded, "_call", lambda library, function: Driver(5, code=201))
    h200 = load_catalog().get("h200")
    assert ask_driver(kernel(), h200, 256) == Loaded(44, None)
    assert ask_driver(kernel(num_ctas=2), h200, 256) == Loaded(44, None)


def test_a_library_that_is_not_there_is_unknown():
    assert loaded._call("libnosuch.so.1", "cuOccupancy") is None


MAPS = """\
7f00-7f10 r-xp 00000000 08:01 11 /opt/venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so.7.0.2
7f10-7f20 r--p 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libc.so.6
7f20-7f30 r--p 00000000 08:01 13 /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06
7f30-7f40 rw-p 00000000 00:00 0
"""


@pytest.mark.parametrize(
    ("library", "path"),
    [
        ("libamdhip64.so", "/opt/venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so.7.0.2"),
        ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06"),
        ("libnosuch.so.1", "libnosuch.so.1"),
    ],
)
def test_the_runtime_that_torch_has_loaded_is_asked_and_no_second_one(tmp_path, library, path):
    (tmp_path / "maps").write_text(MAPS)
    assert loaded.loaded_path(library, tmp_path / "maps") == path
    assert loaded.loaded_path(library, tmp_path / "none") == library


def test_a_library_of_this_process_is_found():
    assert loaded.loaded_path("libc.so").startswith("/")
