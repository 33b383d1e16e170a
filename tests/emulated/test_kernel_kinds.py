"""Kinds of kernels beside the suite's: atomics, scans, sorts, locks, grids of three axes, doubles, spills, faults."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

from portkit.emulate import Options, Order


@triton.jit
def _histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
    tl.atomic_add(counts_ptr + bins, 1, mask=lanes < n)


@pytest.mark.parametrize("kind", ["*i32", "*fp32", "*i64"])
def test_histogram(architecture, kind):
    x = np.random.default_rng(0).integers(0, 10, 3000).astype(np.int32)
    counts = np.zeros(10, {"*i32": np.int32, "*fp32": np.float32, "*i64": np.int64}[kind])
    kernel = build(
        _histogram, architecture, {"x_ptr": "*i32", "counts_ptr": kind, "n": "i32"}, {"BLOCK": 1024}, aligned=False
    )
    kernel.passes((3,), x, counts, x.size)
    assert counts.tolist() == np.bincount(x).tolist()


@triton.jit
def _scan_and_sort(x_ptr, sums_ptr, sorted_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(sums_ptr + lanes, tl.cumsum(x, 0))
    tl.store(sorted_ptr + lanes, tl.sort(x))


def test_scan_and_sort(architecture):
    x = np.random.default_rng(1).normal(size=(2, 256)).astype(np.float32)
    sums, ordered = np.zeros_like(x), np.zeros_like(x)
    pointers = dict.fromkeys(("x_ptr", "sums_ptr", "sorted_ptr"), "*fp32")
    build(_scan_and_sort, architecture, pointers, {"BLOCK": 256}).passes((2,), x, sums, ordered)
    assert np.abs(sums - np.cumsum(x.astype(np.float64), axis=1)).max() < 1e-4
    assert np.array_equal(ordered, np.sort(x, axis=1))


@triton.jit
def _locked_sum(x_ptr, lock_ptr, total_ptr, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def test_locks(architecture):
    x, lock, total = np.arange(1024, dtype=np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    signature = {"x_ptr": "*i32", "lock_ptr": "*i32", "total_ptr": "*i32"}
    kernel = build(_locked_sum, architecture, signature, {"BLOCK": 256})
    kernel.passes((4,), x, lock, total, options=Options(budget=100_000_000))
    assert (int(total[0]), int(lock[0])) == (int(x.sum()), 0)


@triton.jit
def _where(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + place, 100 * z + 10 * y + x)


def test_grids_of_three_axes(architecture):
    out = np.zeros((2, 3, 4), np.int32)
    build(_where, architecture, {"out_ptr": "*i32"}, {}, waves=1).passes((4, 3, 2), out)
    z, y, x = np.indices(out.shape)
    assert np.array_equal(out, 100 * z + 10 * y + x)


@triton.jit
def _doubles(a_ptr, b_ptr, c_ptr, y_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    a, b, c = tl.load(a_ptr + lanes), tl.load(b_ptr + lanes), tl.load(c_ptr + lanes)
    tl.store(y_ptr + lanes, tl.fma(a, b, c))


def test_fused_doubles(architecture):
    """Products that cancel: what is left is the rounding error of the product."""
    a, b = np.random.default_rng(2).normal(size=(2, 128))
    c, y = -a * b, np.zeros(128)
    pointers = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr", "y_ptr"), "*fp64")
    build(_doubles, architecture, pointers, {"BLOCK": 128}).passes((1,), a, b, c, y)
    from fractions import Fraction

    assert y.tolist() == [float(Fraction(p) * Fraction(q) + Fraction(r)) for p, q, r in zip(a, b, c, strict=True)]


@triton.jit
def _quotients(x_ptr, y_ptr, q_ptr, r_ptr, i_ptr, j_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    tl.store(q_ptr + lanes, tl.load(x_ptr + lanes, mask=mask) / tl.load(y_ptr + lanes, mask=mask), mask=mask)
    i, j = tl.load(i_ptr + lanes, mask=mask, other=1), tl.load(j_ptr + lanes, mask=mask, other=1)
    tl.store(r_ptr + lanes, i // j * 1000 + i % j, mask=mask)


def test_quotients(architecture):
    random = np.random.default_rng(3)
    x, y = random.integers(0, 2**32, (2, 500), dtype=np.uint64).astype(np.uint32).view(np.float32)
    i, j = random.integers(0, 2**20, 500).astype(np.int32), random.integers(1, 3000, 500).astype(np.int32)
    q, r = np.zeros(500, np.float32), np.zeros(500, np.int32)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "q_ptr": "*fp32", "n": "i32"}
    signature |= dict.fromkeys(("r_ptr", "i_ptr", "j_ptr"), "*i32")
    kernel = build(_quotients, architecture, signature, {"BLOCK": 512}, aligned=False)
    kernel.passes((1,), x, y, q, r, i, j, 500)
    with np.errstate(all="ignore"):
        assert np.array_equal(q, x / y, equal_nan=True)
    assert np.array_equal(r, i // j * 1000 + i % j)


@triton.jit
def _copy_too_far(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(y_ptr + lanes, x, mask=lanes <= n)


@pytest.mark.parametrize("ranged", [True, False])
def test_a_mask_that_is_off_by_one_is_named_with_its_line(architecture, ranged):
    """The store is one element too long; with 32-bit buffers as with 64-bit addresses."""
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    kernel = build(_copy_too_far, architecture, signature, {"BLOCK": 256}, aligned=False, ranged=ranged)
    done = kernel.launch((4,), x, y, 1000)
    assert done.outcome.status == "out_of_bounds"
    (finding,) = done.findings
    line = _copy_too_far.starting_line_number + 4
    assert finding.site.source.rpartition(":")[2] in {str(line), str(line - 1)}
    assert finding.site.source.startswith("test_kernel_kinds.py:")
    assert (finding.buffer, finding.offset, finding.place.workgroup) == ("argument 1", 4000, (3, 0, 0))


@triton.jit
def _spilling(x_ptr, y_ptr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + columns[None, :])
    total = tl.sum(x, axis=0)
    tl.store(y_ptr + rows[:, None] * BLOCK + columns[None, :], x * total[None, :])


def test_spilled_registers(architecture):
    rows = 256 if architecture.startswith("gfx9") else 128  # twice a wave's registers; more take long to build
    x = np.random.default_rng(4).integers(-8, 8, (rows, 128)).astype(np.float32)
    y = np.zeros_like(x)
    constants = {"BLOCK": 128, "ROWS": rows}
    kernel = build(_spilling, architecture, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, constants, waves=1)
    assert "scratch_store" in kernel.text
    kernel.passes((1,), x, y)
    assert np.array_equal(y, x * x.sum(axis=0))


@pytest.mark.parametrize("order", [Order.FORWARD, Order.REVERSE])
def test_locks_in_every_order(order):
    x, lock, total = np.arange(1024, dtype=np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    signature = {"x_ptr": "*i32", "lock_ptr": "*i32", "total_ptr": "*i32"}
    kernel = build(_locked_sum, "gfx942", signature, {"BLOCK": 256})
    kernel.passes((4,), x, lock, total, options=Options(order=order, budget=100_000_000))
    assert int(total[0]) == int(x.sum())
