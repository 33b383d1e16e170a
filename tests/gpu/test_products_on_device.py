"""Cases with matrix products on the device here: every variant, and results of more than 2^31 elements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from portkit.model import CaseSource, Cell, Direction, Status
from portkit.run.evaluate import Runner, evaluate
from portkit.run.load import load_case

ROOT = Path(__file__).parents[2]
CASES = (
    *("gemm", "gemm_traffic", "gemm_epilogue", "gemm_epilogue_silu", "qkv_projection", "producer_consumer_gemm"),
    *("flash_attention", "flash_attention_full", "decode_attention", "varlen_attention"),
    *("linear_cross_entropy", "grouped_gemm"),
)
FAR = 2**31


def case_of(name):
    file = name.removesuffix("_traffic").removesuffix("_silu").removesuffix("_full")
    return load_case(CaseSource(name, path=str(ROOT / "kernels" / f"{file}.py")))


def judged(case, direction, shape, dtype, variant, target):
    """The outcome of a cell, judged as a run judges it, without its times."""
    cell = Cell(case.name, direction, shape, dtype, variant, target.name)
    return evaluate(case, cell, Runner("cuda", lambda *_: None, None), seed=0).outcome


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_right(name, dtype, target):
    case = case_of(name)
    for variant in case.variants:
        for direction in case.directions:
            outcome = judged(case, direction, case.small_shapes[0], dtype, variant, target)
            assert outcome.status is Status.PASSED, (variant, direction, outcome)


@pytest.mark.parametrize("name", CASES)
def test_the_best_variant_is_right_on_shapes_of_models(name, target):
    case = case_of(name)
    for shape in case.shapes:
        outcome = judged(case, Direction.FORWARD, shape, "bfloat16", "best", target)
        assert outcome.status is Status.PASSED, (shape, outcome)


@pytest.fixture
def linear(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "kernels"))
    import products

    yield products.linear
    for name in ("products", "tiles", "arguments"):
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
