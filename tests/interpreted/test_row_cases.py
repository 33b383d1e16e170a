"""Cases over rows and elements: every variant, bytes moved, offsets over 32 bits, arguments refused, empty tensors."""

from __future__ import annotations

import sys
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
NAMES = (
    *("sum_abs", "swiglu", "add_rms_norm", "softmax", "rms_norm", "layer_norm", "rope", "cross_entropy"),
    "bias_gelu_dropout",
    *("pointwise_chain", "pointwise_fan_in", "rms_norm_fp8", "fused_moe_gate", "scatter_add", "sampling"),
)


def path_of(name):
    return str(ROOT / "kernels" / f"{name}.py")


def loaded(name):
    return load_case(CaseSource(name, path=path_of(name)))


def module_of(name):
    return sys.modules[loaded(name).fused.__module__]


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_every_variant_is_right(name, everywhere, variants):
    found = variants[name, everywhere]
    wrong = [one for one in found if one[2] != ("unsupported" if name == "rms_norm_fp8" else "passed")]
    assert found
    assert wrong == []


def test_offsets_pass_31_bits(interpreted):
    found = dict(line.split() for line in interpreted("far_rows.py"))
    assert len(found) == 20
    assert {name: error for name, error in found.items() if float(error) > 0.002} == {}


def test_tokens_are_drawn_right_on_either_way_of_search(interpreted):
    found = dict(line.split() for line in interpreted("sampled_tokens.py"))
    assert len(found) == 24
    assert {name: count for name, count in found.items() if count != "0"} == {}


def test_cross_entropy_of_logits_far_from_0(interpreted):
    found = {
        name: (float(loss), float(gradient)) for name, loss, gradient in map(str.split, interpreted("far_logits.py"))
    }
    assert len(found) == 16
    assert {name: errors for name, errors in found.items() if not max(errors) < 1e-6} == {}


class BytesMoved(TorchDispatchMode):
    """Sums the bytes that operations read and write; views move none, and a gather reads what it picks."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            given = [out, out, *args[1:]] if func.overloadpacket is torch.ops.aten.gather else [args, kwargs, out]
            self.total += sum(t.nbytes for t in tree_leaves(given) if isinstance(t, torch.Tensor))
        return out


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_those_moved(name):
    case = loaded(name)
    for shape in case.shapes:
        for dtype in case.dtypes:
            inputs = case.inputs(InputMaker(0, "meta"), shape, dtype)
            with BytesMoved() as moved:
                outputs = as_outputs(case.reference(**inputs))
            inputs.pop("keep", None)  # the mask that only the unfused chain reads
            fused = sum(t.nbytes for t in (*inputs.values(), *outputs) if isinstance(t, torch.Tensor))
            work = case.work(shape, dtype)
            assert work.unfused_bytes == moved.total, (shape, dtype)
            assert work.fused_bytes == fused, (shape, dtype)


READ_AGAIN = {
    **dict.fromkeys(("rms_norm", "layer_norm"), ("x", "weight")),
    "add_rms_norm": ("x", "weight"),  # x stands for the sum, which is as large
    "softmax": ("x",),  # for the result
    "swiglu": ("gate", "up"),
    "rope": ("cos", "sin"),
}
"""Case → inputs whose size its gradients read, beside the gradients that come in."""


@pytest.mark.parametrize("name", READ_AGAIN)
def test_bytes_of_gradients_are_those_moved(name):
    case = loaded(name)
    for shape in case.shapes[:3]:
        for dtype in case.dtypes:
            inputs = case.inputs(InputMaker(0, "meta"), shape, dtype)
            given = case.differentiable or [key for key, value in inputs.items() if isinstance(value, torch.Tensor)]
            leaves = {key: inputs[key].clone().requires_grad_() for key in given}
            outputs = as_outputs(case.reference(**{**inputs, **leaves}))
            upstream = [torch.empty_like(output) for output in outputs]
            with BytesMoved() as moved:
                torch.autograd.grad(outputs, [*leaves.values()], upstream)
            written = [leaf for key, leaf in leaves.items() if key != "residual"]  # its gradient is that of x
            read = [inputs[key] for key in READ_AGAIN[name]]
            work = case.backward_work(shape, dtype)
            assert work.unfused_bytes == moved.total, (shape, dtype)
            assert work.fused_bytes == sum(t.nbytes for t in (*upstream, *read, *written)), (shape, dtype)


def test_philox_gives_its_published_words():
    # Random123 1.14, tests/kat_vectors: philox4x32 of 10 rounds, counter and key 0.
    philox = module_of("bias_gelu_dropout").philox
    words = [int(word) for word in philox(torch.zeros(1, dtype=torch.int64), 0)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_a_mask_keeps_its_share():
    keep = module_of("bias_gelu_dropout").keep_mask(64, 8192, 0.25, 77, "cpu")
    assert abs(float(keep.double().mean()) - 0.75) < 0.003


def test_a_loss_is_pytorchs():
    logits, target = torch.randn(5, 40, dtype=torch.float64), torch.tensor([0, 39, -100, 7, 7])
    leaf = logits.clone().requires_grad_()
    for smoothing in (0.0, 0.3):
        loss = torch.nn.functional.cross_entropy(leaf, target, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss, leaf)
        own_loss, own_gradient = loaded("cross_entropy").reference(logits, target, smoothing)
        torch.testing.assert_close(own_loss, loss.detach())
        torch.testing.assert_close(own_gradient, gradient)


def f16(*shape):
    return torch.zeros(shape, dtype=torch.float16)


def meta(*shape):
    return torch.empty(shape, dtype=torch.float16, device="meta")


ROW = {"x": f16(4, 32), "weight": f16(32)}
GIVEN = {
    "sum_abs": {"x": f16(4, 32)},
    "swiglu": {"gate": f16(4, 32), "up": f16(4, 32)},
    "add_rms_norm": {**ROW, "residual": f16(4, 32)},
    "softmax": {"x": f16(4, 32)},
    "rms_norm": ROW,
    "layer_norm": {**ROW, "bias": f16(32)},
    "rope": {"q": f16(1, 3, 4, 8), "k": f16(1, 3, 2, 8), "cos": f16(1, 3, 8), "sin": f16(1, 3, 8)},
    "cross_entropy": {"logits": f16(4, 32), "target": torch.zeros(4, dtype=torch.int64)},
    "bias_gelu_dropout": {"x": f16(4, 32), "bias": f16(32), "keep": None, "p": 0.1, "seed": 3},
    "pointwise_chain": {"x": f16(32), "operations": 4},
    "pointwise_fan_in": {"x": f16(5, 32)},
    "rms_norm_fp8": ROW,
    "fused_moe_gate": {"logits": f16(4, 32), "k": 2},
    "sampling": {"logits": f16(4, 32), "uniform": torch.zeros(4)},
    "scatter_add": {"dy": f16(4, 32), "index": torch.zeros(4, dtype=torch.int64), "vocabulary": 9},
}
TURNED = f16(32, 4).t()
REFUSED = [
    *((name, {"x": TURNED}, ValueError, "x has a last axis of stride 4") for name in ("softmax", "rms_norm")),
    *((name, {"x": [1.0]}, TypeError, "x is a list") for name in ("softmax", "layer_norm", "rms_norm_fp8")),
    *((name, {"x": f16(4, 32).double()}, TypeError, "x is of float64") for name in ("add_rms_norm", "rms_norm")),
    *((n, {"weight": f16(31)}, ValueError, "weight has the shape") for n in ("rms_norm", "add_rms_norm", "layer_norm")),
    *((n, {"weight": f16(32).float()}, TypeError, "weight is of float32") for n in ("rms_norm", "rms_norm_fp8")),
    *((n, {"weight": meta(32)}, ValueError, "weight is on meta, x on cpu") for n in ("rms_norm", "layer_norm")),
    ("sum_abs", {"x": TURNED}, ValueError, "x is not contiguous"),
    ("sum_abs", {"x": 1.0}, TypeError, "x is a float"),
    ("swiglu", {"gate": TURNED}, ValueError, "gate is not contiguous"),
    ("swiglu", {"up": f16(4, 31)}, ValueError, "up has the shape"),
    ("swiglu", {"up": f16(4, 32).float()}, TypeError, "up is of float32"),
    ("swiglu", {"up": meta(4, 32)}, ValueError, "up is on meta, gate on cpu"),
    ("softmax", {"x": f16()}, ValueError, "x has 0 axes"),
    ("rms_norm", {"weight": f16(64)[::2]}, ValueError, "weight has a last axis of stride 2"),
    ("rms_norm", {"x": meta(2, 70000), "weight": meta(70000)}, ValueError, "hidden size 70000 is over 65536"),
    ("rms_norm_fp8", {"x": meta(2, 70000), "weight": meta(70000)}, ValueError, "hidden size 70000 is over 65536"),
    ("add_rms_norm", {"residual": f16(4, 31)}, ValueError, "residual has the shape"),
    ("add_rms_norm", {"residual": TURNED}, ValueError, "residual has a last axis of stride 4"),
    ("layer_norm", {"bias": f16(33)}, ValueError, "bias has the shape"),
    ("layer_norm", {"bias": f16(32).bfloat16()}, TypeError, "bias is of bfloat16"),
    ("rope", {"q": f16(3, 4, 8)}, ValueError, "q has 3 axes"),
    ("rope", {"q": f16(1, 3, 4, 7), "k": f16(1, 3, 2, 7)}, ValueError, "q has heads of size 7"),
    ("rope", {"k": f16(1, 2, 2, 8)}, ValueError, "k has the shape"),
    ("rope", {"k": f16(1, 3, 2, 8).float()}, TypeError, "k is of float32"),
    ("rope", {"k": f16(1, 1, 2, 8).expand(1, 3, 2, 8)}, ValueError, "k has an expanded axis"),
    ("rope", {"q": meta(1, 3, 1024, 128), "k": meta(1, 3, 2, 128)}, ValueError, "q has 1024 heads of 128"),
    ("rope", {"q": meta(65536, 1, 1, 2)}, ValueError, "batch 65536 is over 65535"),
    ("rope", {"cos": f16(2, 3, 8)}, ValueError, "cos has the shape"),
    ("rope", {"sin": f16(1, 3, 8).bfloat16()}, TypeError, "sin is of bfloat16"),
    ("cross_entropy", {"logits": f16(2, 2, 32)}, ValueError, "logits has 3 axes"),
    ("cross_entropy", {"logits": f16(1, 32).expand(4, 32)}, ValueError, "logits has rows that share memory"),
    ("cross_entropy", {"target": torch.zeros(4)}, TypeError, "target is of float32"),
    ("cross_entropy", {"target": torch.zeros(3, dtype=torch.int64)}, ValueError, "target has the shape"),
    ("cross_entropy", {"label_smoothing": 1.5}, ValueError, "label_smoothing is 1.5"),
    ("bias_gelu_dropout", {"bias": f16(16)}, ValueError, "bias has the shape"),
    ("bias_gelu_dropout", {"p": 1.0}, ValueError, "p is 1.0"),
    ("bias_gelu_dropout", {"seed": -1}, ValueError, "seed is -1"),
    ("bias_gelu_dropout", {"seed": 0.5}, TypeError, "seed is a float"),
    ("pointwise_chain", {"x": TURNED}, ValueError, "x is not contiguous"),
    ("pointwise_chain", {"operations": 257}, ValueError, "operations is 257"),
    ("pointwise_fan_in", {"x": f16(66, 4)}, ValueError, "x has 66 rows"),
    ("pointwise_fan_in", {"x": f16(4)}, ValueError, "x has 1 axes"),
    ("fused_moe_gate", {"k": 33}, ValueError, "k is 33"),
    ("fused_moe_gate", {"logits": f16(4, 1025)}, ValueError, "logits is of 1025 experts"),
    ("sampling", {"logits": TURNED, "uniform": torch.zeros(4)}, ValueError, "logits has a last axis of stride 4"),
    ("sampling", {"uniform": torch.zeros(3)}, ValueError, "uniform has the shape"),
    ("sampling", {"uniform": f16(4)}, TypeError, "uniform is of float16"),
    ("sampling", {"temperature": 0.0}, ValueError, "temperature is 0.0"),
    ("sampling", {"top_p": 0.0}, ValueError, "top_p is 0.0"),
    ("sampling", {"top_k": -1}, ValueError, "top_k is -1"),
    ("sampling", {"logits": f16(4, 0)}, ValueError, "logits has no columns"),
    ("scatter_add", {"index": torch.zeros(4)}, TypeError, "index is of float32"),
    ("scatter_add", {"index": torch.zeros(8, dtype=torch.int64)[::2]}, ValueError, "index is not contiguous"),
    ("scatter_add", {"vocabulary": -1}, ValueError, "vocabulary is -1"),
]


@pytest.mark.parametrize(("name", "changed", "error", "text"), REFUSED)
def test_bad_arguments_are_named(name, changed, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        loaded(name).fused(**{**GIVEN[name], **changed})


EMPTY = [
    ("sum_abs", {"x": f16(0)}, ()),
    ("swiglu", {"gate": f16(0, 32), "up": f16(0, 32)}, (0, 32)),
    ("add_rms_norm", {"x": f16(0, 32), "residual": f16(0, 32)}, (0, 32)),
    ("softmax", {"x": f16(3, 0)}, (3, 0)),
    ("rms_norm", {"x": f16(2, 0, 32)}, (2, 0, 32)),
    ("layer_norm", {"x": f16(0, 32)}, (0, 32)),
    ("rope", {"q": f16(1, 0, 4, 8), "k": f16(1, 0, 2, 8), "cos": f16(1, 0, 8), "sin": f16(1, 0, 8)}, (1, 0, 4, 8)),
    ("cross_entropy", {"logits": f16(0, 32), "target": torch.zeros(0, dtype=torch.int64)}, ()),
    ("bias_gelu_dropout", {"x": f16(0, 32)}, (0, 32)),
    ("pointwise_chain", {"x": f16(0)}, (0,)),
    ("pointwise_fan_in", {"x": f16(5, 0)}, (0,)),
    ("rms_norm_fp8", {"x": f16(0, 32)}, (0, 32)),
    ("fused_moe_gate", {"logits": f16(0, 32)}, (0, 2)),
    ("sampling", {"logits": f16(0, 32), "uniform": torch.zeros(0)}, (0,)),
    ("scatter_add", {"vocabulary": 0}, (0, 32)),
]


@pytest.mark.parametrize(("name", "changed", "shape"), EMPTY)
def test_empty_tensors_give_empty_results(name, changed, shape):
    out = loaded(name).fused(**{**GIVEN[name], **changed})
    first = out[0] if isinstance(out, tuple) else out
    assert tuple(first.shape) == shape


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax", "add_rms_norm", "swiglu"])
def test_empty_tensors_have_empty_gradients(name):
    given = {key: value[:0] if value.dim() == 2 else value for key, value in GIVEN[name].items()}
    leaves = [value.clone().requires_grad_() for value in given.values()]
    out = loaded(name).fused(**dict(zip(given, leaves, strict=True)))
    first = out[0] if isinstance(out, tuple) else out
    first.sum().backward()
    assert [leaf.grad.shape for leaf in leaves] == [leaf.shape for leaf in leaves]
