"""The kernels of the self-test, but for what they do on a device: names, work, references, and what is launched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from portkit.run.selftest import cases
from portkit.run.selftest.judge import CASES, OCCUPANCY

ALL = [getattr(cases, name) for name in CASES]


def test_each_case_has_the_name_under_which_it_is_judged():
    assert tuple(case.name for case in ALL) == CASES


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_bytes_are_those_of_one_read_and_one_write(case):
    (shape,) = case.shapes
    elements = torch.Size(shape).numel()
    assert case.work(shape, "float32").fused_bytes == 8 * elements
    x = torch.linspace(-1, 1, 7)
    torch.testing.assert_close(case.reference(x=x), x + x)


class Launched:
    """Stands for a kernel: notes grid and options."""

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.grid, self.arguments, self.options = grid, arguments, options

        return launch


@pytest.mark.parametrize(
    ("name", "wrong", "over"), [("known_bytes", False, 0), ("planted_wrong", True, 0), ("planted_overrun", False, 1)]
)
def test_faults_are_where_they_are_planted(monkeypatch, name, wrong, over):
    kernel = Launched()
    monkeypatch.setattr(cases, "double_kernel", kernel)
    getattr(cases, name).fused(x=torch.zeros(4096))
    assert (kernel.options["WRONG"], kernel.options["OVER"]) == (wrong, over)
    assert kernel.grid == (3 if over else 2,)  # a block for the one element behind the end


@pytest.mark.parametrize(("hip", "warp", "warps"), [(None, 32, 4), ("6.4", 64, 2), ("6.4", 32, 4)])
def test_a_row_is_held_by_128_threads_everywhere(monkeypatch, hip, warp, warps):
    kernel = Launched()
    monkeypatch.setattr(cases, "hold_kernel", kernel)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(warp_size=warp))
    getattr(cases, OCCUPANCY).fused(x=torch.zeros(3, 8192))
    assert (kernel.options["num_warps"], kernel.options["num_warps"] * warp) == (warps, 128)


def test_inputs_are_uniform():
    made = SimpleNamespace(uniform=lambda shape, dtype: (shape, dtype))
    assert cases.inputs(made, (4,), "float32") == {"x": ((4,), "float32")}
