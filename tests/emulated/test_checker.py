"""Faults planted in the source of kernels are named with the line that has them."""

from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

from portkit.emulate import Options, Pointer


@triton.jit
def _scaled_rows(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    tl.store(y_ptr + row * stride + columns, x * 2, mask=columns < n)  # the stride may be wrong


@triton.jit
def _reversed(x_ptr, room_ptr, y_ptr, BLOCK: tl.constexpr, BARRIER: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(room_ptr + lanes, tl.load(x_ptr + lanes))
    if BARRIER:
        tl.debug_barrier()
    tl.store(y_ptr + lanes, tl.load(room_ptr + (BLOCK - 1 - lanes)))  # what other waves wrote


@triton.jit
def _far_rows(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(y_ptr + tl.program_id(0) * stride + lanes, x)  # 32 bits do not hold the product


@triton.jit
def _accumulated(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    total = tl.load(sum_ptr + lanes, mask=lanes < n, other=0.0)  # of a buffer that may hold anything
    tl.store(sum_ptr + lanes, total + x, mask=lanes < n)


@triton.jit
def _unlocked_sum(x_ptr, total_ptr, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0)
    tl.store(total_ptr, tl.load(total_ptr) + part)  # with no lock


SOURCE = Path(__file__).read_text().splitlines()


def assert_names(finding, words, kind):
    """The finding is of this kind, at the line that has these words."""
    line = next(number for number, text in enumerate(SOURCE, 1) if words in text)
    assert (finding.kind, finding.site.source) == (kind, f"test_checker.py:{line}")


ROWS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "stride": "i32", "n": "i32"}


@pytest.mark.parametrize(("stride", "kind"), [(250, None), (240, "global_race"), (300, "out_of_bounds")])
def test_wrong_stride(architecture, stride, kind):
    kernel = build(_scaled_rows, architecture, ROWS, {"BLOCK": 256}, aligned=False)
    x, y = np.arange(1000, dtype=np.float32).reshape(4, 250), np.zeros((4, 250), np.float32)
    found = kernel.launch((4,), x, y, stride, 250).findings
    if kind is None:
        assert found == ()
        return
    assert_names(found[0], "the stride may be wrong", kind)
    assert found[0].buffer == "argument 1"
    if kind == "global_race":
        assert found[0].offset == 960
        assert found[0].place.workgroup in {(0, 0, 0), (1, 0, 0)}
        assert "which workgroup (" in found[0].message


def test_missing_barrier(architecture):
    pointers = dict.fromkeys(("x_ptr", "room_ptr", "y_ptr"), "*fp32")
    for barrier in (True, False):
        kernel = build(_reversed, architecture, pointers, {"BLOCK": 1024, "BARRIER": barrier})
        x, room, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32), np.zeros(1024, np.float32)
        found = kernel.launch((1,), x, room, y).findings
        if barrier:
            assert found == ()
        else:
            assert_names(found[0], "what other waves wrote", "workgroup_race")
            assert "of its own wrote" in found[0].message


@triton.jit
def _doubled(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


def test_elements_that_several_waves_load_and_one_stores(architecture):
    """A row shorter than the workgroup, in place: waves read in no order what one writes, and use none of it."""
    kernel = build(_doubled, architecture, {"x_ptr": "*fp32"}, {"BLOCK": 64}, waves=8)
    x = np.arange(64, dtype=np.float32)
    kernel.passes((1,), x)
    assert np.array_equal(x, np.arange(64) * 2)


def test_overflow_of_32_bits(architecture):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "stride": "i32"}
    kernel = build(_far_rows, architecture, signature, {"BLOCK": 128}, ranged=False)
    x, y = np.ones(128, np.float32), np.zeros(1024, np.float32)
    (finding,) = kernel.launch((4,), x, y, 1 << 30).findings
    assert_names(finding, "32 bits do not hold the product", "out_of_bounds")
    assert abs(finding.offset) > 1 << 30


def test_accumulator_that_nothing_initialised(architecture):
    signature = {"x_ptr": "*fp32", "sum_ptr": "*fp32", "n": "i32"}
    kernel = build(_accumulated, architecture, signature, {"BLOCK": 256}, aligned=False)
    x, room = np.ones(500, np.float32), np.zeros(500, np.float32)
    assert kernel.launch((2,), x, room, 500).findings == ()
    found = kernel.launch((2,), x, Pointer(room, written=False), 500).findings
    assert_names(found[0], "of a buffer that may hold anything", "unwritten_global")
    assert (found[0].buffer, found[0].offset, found[0].place.lane) == ("argument 1", 0, 0)


def test_sum_without_a_lock(architecture):
    kernel = build(_unlocked_sum, architecture, {"x_ptr": "*i32", "total_ptr": "*i32"}, {"BLOCK": 256})
    found = kernel.launch((4,), np.ones(1024, np.int32), np.zeros(1, np.int32)).findings
    assert_names(found[0], "with no lock", "global_race")


def test_the_checker_can_be_left_out(architecture):
    kernel = build(_unlocked_sum, architecture, {"x_ptr": "*i32", "total_ptr": "*i32"}, {"BLOCK": 256})
    done = kernel.launch((4,), np.ones(1024, np.int32), np.zeros(1, np.int32), options=Options(check=False))
    assert done.findings == ()
