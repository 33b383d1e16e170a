"""Cases with matrix products: every variant, bytes moved, offsets over 32 bits, arguments refused, empty tensors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from portkit.model import CaseSource
from portkit.run.calls import as_outputs
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case

ROOT = Path(__file__).parents[2]
CASES = {
    "gemm": "gemm",
    "gemm_traffic": "gemm",
    "gemm_epilogue": "gemm_epilogue",
    "gemm_epilogue_silu": "gemm_epilogue",
    "qkv_projection": "qkv_projection",
    "flash_attention": "flash_attention",
    "flash_attention_full": "flash_attention",
    "decode_attention": "decode_attention",
    "linear_cross_entropy": "linear_cross_entropy",
    "grouped_gemm": "grouped_gemm",
    "varlen_attention": "varlen_attention",
    "producer_consumer_gemm": "producer_consumer_gemm",
}


def path_of(name):
    return str(ROOT / "kernels" / f"{CASES[name]}.py")


def loaded(name):
    return load_case(CaseSource(name, path=path_of(name)))


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_right(name, everywhere, variants):
    found = variants[name, everywhere]
    wrong = [one for one in found if one[2] != ("unsupported" if one[1] == "bfloat16" else "passed")]
    assert found
    assert wrong == []


def test_offsets_pass_31_bits(interpreted):
    found = dict(line.split() for line in interpreted("far_offsets.py"))
    assert set(found) == {"products", "loss", "heads", "tokens", "pages", "experts"}
    assert {name: error for name, error in found.items() if float(error) > 0.01} == {}


def test_gradients_of_the_first_causal_queries_cancel(interpreted):
    gradient, of_another_order = map(float, interpreted("first_gradients.py")[0].split())
    assert of_another_order > 1e-3  # or the inputs show nothing
    assert gradient < 1e-5


class BytesMoved(TorchDispatchMode):
    """Sums what operations read and write: views nothing, a tensor given twice once, a gather what it writes."""

    NOTHING = (torch.ops.aten._unsafe_view, torch.ops.aten.empty)

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.is_view or func.overloadpacket in self.NOTHING:
            return out
        tensors = [t for t in tree_leaves([args, kwargs, out]) if isinstance(t, torch.Tensor) and t.numel()]
        if func.overloadpacket is torch.ops.aten.gather:
            tensors = [out, args[2]]
            self.total += out.nbytes
        moved = {(t.data_ptr(), t.nbytes): min(t.nbytes, t.untyped_storage().nbytes()) for t in tensors}
        self.total += sum(moved.values())
        return out


@pytest.mark.parametrize("name", CASES)
def test_unfused_bytes_are_those_moved(name):
    case = loaded(name)
    for shape in case.small_shapes:
        for dtype in ("float32", "float16"):
            inputs = case.inputs(InputMaker(0, "cpu"), shape, dtype)
            with BytesMoved() as moved:
                case.reference(**inputs)
            offsets = inputs["offsets"].nbytes if "offsets" in inputs else 0  # which the host reads
            assert case.work(shape, dtype).unfused_bytes == moved.total + offsets, (shape, dtype)


@pytest.mark.parametrize("name", ["flash_attention", "flash_attention_full"])
def test_bytes_of_gradients_are_those_moved(name):
    case = loaded(name)
    for shape in case.small_shapes:
        for dtype in ("float32", "float16"):
            inputs = {n: t.requires_grad_() for n, t in case.inputs(InputMaker(0, "cpu"), shape, dtype).items()}
            out = case.reference(**inputs)
            upstream = torch.ones_like(out)
            with BytesMoved() as moved:
                gradients = torch.autograd.grad(out, tuple(inputs.values()), upstream)
            work = case.backward_work(shape, dtype)
            assert work.unfused_bytes == moved.total, (shape, dtype)
            assert work.fused_bytes == sum(t.nbytes for t in (*inputs.values(), out, *gradients))


# Data decide what of an input is read: empty groups, positions beyond a length.
@pytest.mark.parametrize("name", [name for name in CASES if name not in {"grouped_gemm", "decode_attention"}])
def test_fused_bytes_are_inputs_and_outputs(name):
    case = loaded(name)
    for shape in case.small_shapes:
        inputs = case.inputs(InputMaker(0, "cpu"), shape, "float16")
        tensors = [t for t in (*inputs.values(), *as_outputs(case.reference(**inputs))) if isinstance(t, torch.Tensor)]
        assert case.work(shape, "float16").fused_bytes == sum(t.nbytes for t in tensors), shape


@pytest.mark.parametrize(
    ("name", "shape", "bound", "flops"),
    [
        ("gemm", (8192, 14336, 4096), 1.0, 2 * 8192 * 14336 * 4096),
        ("gemm_epilogue", (8192, 14336, 4096), 3.155, 2 * 8192 * 14336 * 4096 + 10 * 8192 * 14336),
        ("qkv_projection", (4096, 4096, 1024, 4096), 1.5, 2 * 4096 * 6144 * 4096),
        ("flash_attention", (4, 32, 32, 4096, 128), 65.09, 128 * 4096 * 4097 // 2 * 517),
        ("decode_attention", (1, 32, 8, 131072, 16, 128), 5.13, 131072 * 32 * 517),
    ],
)
def test_fusion_bound_and_operations(name, shape, bound, flops):
    work = loaded(name).work(shape, "bfloat16")
    assert math.isclose(work.fusion_bound, bound, rel_tol=0.02)
    assert work.flops == flops


def f16(*shape):
    return torch.zeros(shape, dtype=torch.float16)


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


PRODUCT = {"x": f16(8, 32), "w": f16(16, 32)}
HEADS = {"query": f16(1, 4, 8, 16), "key": f16(1, 2, 8, 16), "value": f16(1, 2, 8, 16)}
GIVEN = {
    "gemm": PRODUCT,
    "gemm_traffic": {**PRODUCT, "scale": f16(16), "residual": f16(8, 16)},
    "gemm_epilogue": {**PRODUCT, "bias": f16(16), "residual": f16(8, 16)},
    "producer_consumer_gemm": PRODUCT,
    "qkv_projection": {"x": f16(8, 32), "wq": f16(16, 32), "wk": f16(8, 32), "wv": f16(8, 32)},
    "flash_attention": HEADS,
    "decode_attention": {
        "query": f16(2, 4, 16),
        "key_cache": f16(6, 16, 2, 16),
        "value_cache": f16(6, 16, 2, 16),
        "table": i32(0, 1, 2, 3).view(2, 2),
        "lengths": i32(20, 30),
    },
    "linear_cross_entropy": {"hidden": f16(8, 32), "weight": f16(50, 32), "target": torch.zeros(8, dtype=torch.int64)},
    "grouped_gemm": {"x": f16(8, 32), "w": f16(2, 16, 32), "offsets": i32(0, 3, 8)},
    "varlen_attention": {
        "query": f16(8, 4, 16),
        "key": f16(8, 2, 16),
        "value": f16(8, 2, 16),
        "offsets": i32(0, 3, 8),
        "longest": 5,
    },
}
FAR = torch.empty((2, 32), dtype=torch.float16, device="meta").as_strided((2, 32), (2**23, 1))
REFUSED = [
    ("gemm", {"x": [1.0]}, TypeError, "x is a list"),
    ("gemm", {"x": f16(8, 32).double()}, TypeError, "x is of float64"),
    ("gemm", {"w": f16(16, 32).float()}, TypeError, "w is of float32"),
    ("gemm", {"x": f16(2, 8, 32)}, ValueError, "x has 3 axes"),
    ("gemm", {"w": f16(16, 31)}, ValueError, "w has the shape"),
    ("gemm", {"x": f16(32, 8).t()}, ValueError, "x has a last axis of stride"),
    ("gemm", {"x": FAR}, ValueError, "row stride of x"),
    ("gemm", {"w": torch.empty((16, 32), dtype=torch.float16, device="meta")}, ValueError, "w is on meta, x on cpu"),
    ("gemm", {"parts": 3}, ValueError, "parts is 3, not 1, 2 or 4"),
    ("gemm", {"block_q": 64}, TypeError, "unexpected keyword argument 'block_q'"),
    ("flash_attention", {"block_q": 64}, TypeError, "unexpected keyword argument 'block_q'"),
    ("decode_attention", {"block_q": 64}, TypeError, "unexpected keyword argument 'block_q'"),
    ("gemm_traffic", {"scale": f16(15)}, ValueError, "scale has the shape"),
    ("gemm_traffic", {"residual": f16(8, 15)}, ValueError, "residual has the shape"),
    ("gemm_epilogue", {"bias": f16(32)[::2]}, ValueError, "bias has a last axis of stride 2"),
    ("gemm_epilogue", {"bias": f16(16).float()}, TypeError, "bias is of float32"),
    ("gemm_epilogue", {"activation": "relu"}, ValueError, "activation is 'relu'"),
    ("producer_consumer_gemm", {"w": f16(16, 33)}, ValueError, "w has the shape"),
    ("qkv_projection", {"wk": f16(8, 31)}, ValueError, "wk has the shape"),
    ("qkv_projection", {"wv": f16(7, 32)}, ValueError, "wv has the shape"),
    ("flash_attention", {"query": f16(4, 8, 16)}, ValueError, "query has 3 axes"),
    ("flash_attention", {"query": f16(1, 4, 8, 24)}, ValueError, "query has heads of 24 elements"),
    ("flash_attention", {"key": f16(1, 3, 8, 16)}, ValueError, "key has 3 heads, no divisor of the 4"),
    ("flash_attention", {"value": f16(1, 2, 7, 16)}, ValueError, "value has the shape"),
    ("flash_attention", {"value": f16(1, 2, 8, 16).float()}, TypeError, "value is of float32"),
    ("flash_attention", {"key": f16(1, 2, 16, 8).transpose(2, 3)}, ValueError, "key has a last axis of stride"),
    ("decode_attention", {"table": torch.zeros((2, 2), dtype=torch.int64)}, TypeError, "table is of int64"),
    ("decode_attention", {"lengths": i32(1)}, ValueError, "lengths has the shape"),
    ("decode_attention", {"value_cache": f16(6, 16, 2, 8)}, ValueError, "value_cache has the shape"),
    ("decode_attention", {"key_cache": f16(6, 16, 3, 16)}, ValueError, "key_cache has 3 heads"),
    ("decode_attention", {"query": f16(2, 4, 32)[..., ::2]}, ValueError, "query is not contiguous"),
    ("linear_cross_entropy", {"target": torch.zeros(8)}, TypeError, "target is of float32"),
    ("linear_cross_entropy", {"target": torch.zeros(7, dtype=torch.int64)}, ValueError, "target has the shape"),
    ("linear_cross_entropy", {"weight": f16(0, 32)}, ValueError, "weight has no rows"),
    ("grouped_gemm", {"w": f16(16, 32)}, ValueError, "w has 2 axes"),
    ("grouped_gemm", {"w": f16(2, 16, 31)}, ValueError, "w has the shape"),
    ("grouped_gemm", {"offsets": i32(0, 8)}, ValueError, "offsets has the shape"),
    ("grouped_gemm", {"w": f16(2, 32, 16).transpose(1, 2)}, ValueError, "w is not contiguous"),
    ("varlen_attention", {"longest": -1}, ValueError, "longest is -1"),
    ("varlen_attention", {"offsets": torch.zeros((), dtype=torch.int32)}, ValueError, "offsets has the shape"),
    ("varlen_attention", {"key": f16(8, 3, 16)}, ValueError, "key has 3 heads"),
    ("varlen_attention", {"key": f16(8, 32)}, ValueError, "key has 2 axes"),
]


@pytest.mark.parametrize(("name", "changed", "error", "text"), REFUSED)
def test_bad_arguments_are_named(name, changed, error, text):
    with pytest.raises(error, match=text):
        loaded(name).fused(**{**GIVEN[name], **changed})


@pytest.mark.parametrize(
    ("name", "changed", "shape"),
    [
        ("gemm", {"x": f16(0, 32)}, (0, 16)),
        ("gemm", {"w": f16(0, 32)}, (8, 0)),
        ("gemm_traffic", {"x": f16(0, 32), "residual": f16(0, 16)}, (0, 16)),
        ("gemm_epilogue", {"x": f16(0, 32), "residual": f16(0, 16)}, (0, 16)),
        ("producer_consumer_gemm", {"x": f16(0, 32)}, (0, 16)),
        ("qkv_projection", {"x": f16(0, 32)}, (0, 16)),
        ("flash_attention", {n: x[:, :, :0] for n, x in HEADS.items()}, (1, 4, 0, 16)),
        ("flash_attention", {n: x[:0] for n, x in HEADS.items()}, (0, 4, 8, 16)),
        ("linear_cross_entropy", {"hidden": f16(0, 32), "target": torch.zeros(0, dtype=torch.int64)}, (0,)),
        ("grouped_gemm", {"x": f16(0, 32), "offsets": i32(0, 0, 0)}, (0, 16)),
        (
            "decode_attention",
            {"query": f16(0, 4, 16), "table": torch.zeros((0, 2), dtype=torch.int32), "lengths": i32()},
            (0, 4, 16),
        ),
        (
            "varlen_attention",
            {"query": f16(0, 4, 16), "key": f16(0, 2, 16), "value": f16(0, 2, 16), "offsets": i32(0), "longest": 0},
            (0, 4, 16),
        ),
    ],
)
def test_empty_tensors_give_empty_results(name, changed, shape):
    out = loaded(name).fused(**{**GIVEN[name], **changed})
    first = out[0] if isinstance(out, tuple) else out
    assert tuple(first.shape) == shape


def test_cublaslts_epilogue_has_bias_and_activation_and_no_residual():
    x, w, bias, residual = torch.rand(6, 40), torch.rand(8, 40), torch.rand(8), torch.rand(6, 8)
    found = loaded("gemm_epilogue").baselines["cublaslt"](x=x, w=w, bias=bias, residual=residual)
    exact = torch.nn.functional.gelu(x @ w.T + bias)  # the CPU's operator has no other form
    torch.testing.assert_close(found, exact + residual)
    assert list(loaded("gemm_epilogue_silu").baselines) == []
