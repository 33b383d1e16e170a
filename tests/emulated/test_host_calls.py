"""``tl.device_assert`` and ``tl.device_print``: the host answers what ROCm's own code in the text asks of it."""

from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build

SIGNATURE = {"x_ptr": "*i32", "y_ptr": "*i32", "n": "i32"}


@triton.jit
def _asserting(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.device_assert(x < 100, "x is too large", mask=i < n)  # fault
    tl.store(y_ptr + i, x + 1, mask=i < n)


@triton.jit
def _printing(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.device_print("x and its half", x, x.to(tl.float32) / 2)
    tl.store(y_ptr + i, x + 1, mask=i < n)


def launched(function, architecture, x, **options):
    kernel = build(function, architecture, SIGNATURE, {"BLOCK": 128}, waves=2, aligned=False, **options)
    y = np.zeros_like(x)
    return kernel.launch((2,), x, y, x.size), y


def line_of(mark):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def test_an_assertion_that_holds_runs_through(architecture):
    x = np.arange(-100, 100, dtype=np.int32)
    done, y = launched(_asserting, architecture, x, debug=True)
    assert done.outcome.status == "passed", done.outcome
    assert not done.findings
    assert np.array_equal(y, x + 1)


def test_an_assertion_that_fails_is_named_with_its_words_and_place(architecture):
    x = np.zeros(200, np.int32)
    x[150] = 100
    done, y = launched(_asserting, architecture, x, debug=True)
    assert done.outcome.status == "device_fault"
    assert f" at test_host_calls.py:{line_of('fault')} `s_trap 2` by workgroup (1, 0, 0)" in (done.outcome.message)
    assert "device assertion failed: 'x is too large', in " in done.outcome.message
    assert [str(item.kind) for item in done.findings] == ["trap"]
    assert y[150] == 0


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_what_is_printed(architecture):
    """By every lane, masked or not, each operand in a line of its own."""
    x = np.arange(-7, 193, dtype=np.int32)
    done, y = launched(_printing, architecture, x)
    assert (done.outcome.status, done.findings) == ("passed", ())
    assert np.array_equal(y, x + 1)
    values = [int(x[n]) if n < 200 else 0 for n in range(256)]
    head = "pid ({}, 0, 0) idx ({:3d}) x and its half: "
    expected = [head.format(n // 128, n % 128) + f"(operand 0) {value}\n" for n, value in enumerate(values)]
    expected += [head.format(n // 128, n % 128) + f"(operand 1) {value / 2:f}\n" for n, value in enumerate(values)]
    assert sorted(done.said) == sorted(expected)
