"""Kernels like those of the suite, compiled for absent AMD GPUs and executed, against float64."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import row_kernels
from compiled import build, from_bf16, to_bf16

from portkit.emulate import Options, Order

KERNELS = Path(__file__).parents[2] / "kernels"
sys.path.append(str(KERNELS))  # modules that kernel files share


def load(name):
    """A kernel file by path, as a run loads it."""
    spec = importlib.util.spec_from_file_location(f"suite_{name}", KERNELS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def uniform(*shape, low=-1.0, high=1.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape)


class Format:
    """How a test's dtype is stored, and how far one rounding may be off, relative to the value."""

    def __init__(self, triton_type, store, load, step):
        self.type, self.store, self.load, self.step = triton_type, store, load, step


FORMATS = {
    "float32": Format("fp32", lambda x: x.astype(np.float32), lambda x: x.astype(np.float64), 2.0**-24),
    "float16": Format("fp16", lambda x: x.astype(np.float16), lambda x: x.astype(np.float64), 2.0**-11),
    "bfloat16": Format("bf16", to_bf16, from_bf16, 2.0**-8),
}


@pytest.fixture(params=FORMATS)
def form(request):
    return FORMATS[request.param]


def assert_close(result, reference, form, *, roundings=24):
    """Within the rounding of the result and some of float32, both relative to value and scale."""
    scale = np.abs(reference) + np.sqrt(np.mean(reference**2))
    error = np.max(np.abs(result - reference) / scale)
    assert error <= form.step + roundings * 2.0**-24, error


def test_swiglu(architecture, form):
    gate, up = (form.store(uniform(5003, low=-4, high=4, seed=seed)) for seed in (1, 2))
    y = np.zeros_like(gate)
    signature = {"gate_ptr": f"*{form.type}", "up_ptr": f"*{form.type}", "y_ptr": f"*{form.type}", "n": "i32"}
    kernel = build(load("swiglu")._swiglu, architecture, signature, {"BLOCK": 2048}, aligned=False)
    kernel.passes((3,), gate, up, y, gate.size)
    g = form.load(gate)
    assert_close(form.load(y), g / (1 + np.exp(-g)) * form.load(up), form)


@pytest.mark.parametrize("waves", [4, 8, 16])
def test_softmax_of_a_short_row(architecture, form, waves):
    rows, columns = 3, 1000
    x = form.store(uniform(rows, columns, low=-4, high=4))
    y = np.zeros_like(x)
    signature = {"x_ptr": f"*{form.type}", "y_ptr": f"*{form.type}", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_short, architecture, signature, {"BLOCK": 1024}, waves=waves, aligned=False)
    kernel.passes((rows,), x, y, columns, columns)
    power = np.exp(form.load(x) - form.load(x).max(axis=1, keepdims=True))
    assert_close(form.load(y), power / power.sum(axis=1, keepdims=True), form, roundings=64)


def test_softmax_of_a_long_row(architecture):
    form, rows, columns = FORMATS["float32"], 2, 20001
    x = form.store(uniform(rows, columns, low=-4, high=4))
    y = np.zeros_like(x)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_long, architecture, signature, {"CHUNK": 8192}, waves=8, aligned=False)
    kernel.passes((rows,), x, y, columns, columns)
    power = np.exp(form.load(x) - form.load(x).max(axis=1, keepdims=True))
    assert_close(form.load(y), power / power.sum(axis=1, keepdims=True), form, roundings=64)


def test_add_rms_norm(architecture, form):
    rows, hidden, epsilon = 3, 1000, 1e-6
    x, residual = (form.store(uniform(rows, hidden, seed=seed)) for seed in (1, 2))
    weight = form.store(uniform(hidden, low=0.5, high=1.5, seed=3))
    y, h = np.zeros_like(x), np.zeros_like(x)
    kind = f"*{form.type}"
    module = row_kernels
    names = module._add_rms_norm.arg_names
    pointers = {name: kind for name in names if name.endswith("_ptr")}
    numbers = {name: "fp32" if name == "eps" else "i32" for name in names if name not in pointers and name != "BLOCK"}
    kernel = build(module._add_rms_norm, architecture, {**pointers, **numbers}, {"BLOCK": 1024}, waves=8, aligned=False)
    kernel.passes((rows,), x, residual, weight, y, h, hidden, hidden, hidden, epsilon)
    total = form.load(x) + form.load(residual)
    scale = 1 / np.sqrt(np.mean(total**2, axis=1, keepdims=True) + epsilon)
    assert_close(form.load(h), total, form)
    assert_close(form.load(y), total * scale * form.load(weight), form, roundings=64)


def test_sum_abs(architecture, form):
    count, module = 20011, load("sum_abs")
    x = form.store(uniform(count))
    partial, y = np.zeros(5, np.float32), np.zeros(1, np.float32)
    signature = {"x_ptr": f"*{form.type}", "partial_ptr": "*fp32", "n": "i32"}
    first = build(module._partial_sums, architecture, signature, {"BLOCK": 4096}, waves=8, aligned=False)
    first.passes((partial.size,), x, partial, count)
    signature = {"partial_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    second = build(module._total, architecture, signature, {"BLOCK": 2048}, aligned=False)
    second.passes((1,), partial, y, partial.size)
    expected = np.abs(form.load(x)).sum()
    assert abs(y[0] - expected) <= expected * 2.0**-18


@pytest.mark.parametrize("order", Order)
def test_every_order_of_waves_gives_the_same_bits(architecture, order):
    columns = 1000
    x, results = uniform(4, columns).astype(np.float32), []
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_short, architecture, signature, {"BLOCK": 1024}, aligned=False)
    for options in (Options(), Options(order=order, seed=7), Options(poison=0x3F8C_CCCD), Options(poison=0)):
        y = np.zeros_like(x)
        kernel.passes((4,), x, y, columns, columns, options=options)
        results.append(y)
    assert all(np.array_equal(results[0], other) for other in results[1:])
