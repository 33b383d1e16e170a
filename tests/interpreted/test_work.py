"""Work models against bytes counted operation by operation, on meta tensors."""

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
FILES = {
    "sum_abs": "kernels/sum_abs.py",
    "add_rms_norm": "kernels/add_rms_norm.py",
    "swiglu": "kernels/swiglu.py",
    "softmax": "kernels/softmax.py",
    "liger_rms_norm": "examples/liger_rms_norm.py",
    "liger_layer_norm": "examples/liger_layer_norm.py",
    "liger_swiglu": "examples/liger_swiglu.py",
    "liger_rope": "examples/liger_rope.py",
}


class BytesMoved(TorchDispatchMode):
    """Sums the bytes that each operation reads and writes; views move none."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            tensors = [t for t in tree_leaves([args, kwargs, out]) if isinstance(t, torch.Tensor)]
            self.total += sum(t.nbytes for t in tensors)
        return out


@pytest.fixture(params=FILES)
def case(request):
    if request.param.startswith("liger"):
        pytest.importorskip("liger_kernel", reason="the example needs liger-kernel")
    return load_case(CaseSource(request.param, path=str(ROOT / FILES[request.param])))


def test_unfused_and_fused_bytes_are_those_moved(case):
    for shape in case.shapes:
        for dtype in case.dtypes:
            inputs = case.inputs(InputMaker(0, "meta"), shape, dtype)
            with BytesMoved() as moved:
                outputs = as_outputs(case.reference(**inputs))
            work = case.work(shape, dtype)
            assert work.unfused_bytes == moved.total, (shape, dtype)
            assert work.fused_bytes == sum(t.nbytes for t in (*inputs.values(), *outputs)), (shape, dtype)


@pytest.mark.parametrize(
    ("name", "shape", "bound", "flops"),
    [
        ("sum_abs", (16777216,), 3.0, 16777215),
        ("add_rms_norm", (4096, 4096), 2.5, 5 * 4096**2 + 3 * 4096),
        ("swiglu", (4096, 14336), 5 / 3, 6 * 4096 * 14336),
        ("softmax", (4096, 4096), 4.0, 5 * 4096**2),
        ("liger_rms_norm", (4096, 4096), 3.5, 4 * 4096**2 + 3 * 4096),
        ("liger_layer_norm", (4096, 4096), 6.0, 7 * 4096**2 + 4 * 4096),
        ("liger_swiglu", (4096, 14336), 5 / 3, 6 * 4096 * 14336),
        ("liger_rope", (1, 4096, 32, 8, 128), 404 / 82, 3 * 4096 * 40 * 128),
    ],
)
def test_fusion_bound_and_operations(name, shape, bound, flops):
    if name.startswith("liger"):
        pytest.importorskip("liger_kernel", reason="the example needs liger-kernel")
    work = load_case(CaseSource(name, path=str(ROOT / FILES[name]))).work(shape, "bfloat16")
    assert math.isclose(work.fusion_bound, bound, rel_tol=1e-3)
    assert work.flops == flops


def test_a_hidden_size_over_one_block_is_refused():
    case = load_case(CaseSource("add_rms_norm", path=str(ROOT / FILES["add_rms_norm"])))
    inputs = case.inputs(InputMaker(0, "meta"), (1, 70000), "float32")
    with pytest.raises(ValueError, match="hidden size 70000 is over 65536"):
        case.fused(**inputs)
