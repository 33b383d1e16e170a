"""Cases with matrix products on the device here: every variant, and results of more than 2^31 elements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from portkit.model import CaseSource, Cell, Status
from portkit.run.load import load_case
from portkit.run.measure import measure_cell
from portkit.run.timing import engine

ROOT = Path(__file__).parents[2]
FILES = (
    *("gemm", "gemm_epilogue", "qkv_projection", "flash_attention", "decode_attention", "linear_cross_entropy"),
    *("grouped_gemm", "varlen_attention", "producer_consumer_gemm"),
)
FAR = 2**31


@pytest.fixture(autouse=True)
def short_budget(monkeypatch):
    for clock in ("EVENT_SECONDS", "TRACE_SECONDS", "MODE_SECONDS"):
        monkeypatch.setattr(engine, clock, 0.05)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FILES)
def test_every_variant_is_right(name, dtype, target):
    case = load_case(CaseSource(name, path=str(ROOT / "kernels" / f"{name}.py")))
    for variant in case.variants:
        for direction in case.directions:
            cell = Cell(name, direction, case.small_shapes[0], dtype, variant, target.name)
            outcome = measure_cell(case, cell, target).outcome
            assert outcome.status is Status.PASSED, (variant, direction, outcome)


@pytest.fixture
def linear(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "kernels"))
    import products

    yield products.linear
    for name in ("products", "arguments"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("descriptors", [False, True])
def test_a_product_of_more_than_2_to_the_31_elements(linear, descriptors):
    if torch.cuda.mem_get_info()[0] < 6 * FAR:
        pytest.skip("needs 12 GiB of free device memory")
    x = torch.rand((66000, 64), device="cuda", dtype=torch.bfloat16) - 0.5
    w = torch.rand((32800, 64), device="cuda", dtype=torch.bfloat16) - 0.5
    y = linear(x, w, descriptors=descriptors)
    assert y.numel() > FAR
    for rows in (slice(0, 4), slice(65470, 65480), slice(65996, 66000)):
        wanted = x[rows].double() @ w.double().t()
        assert (y[rows].double() - wanted).abs().max() < 0.05
