"""A few kills of a real run; ``scripts/fault_injection.py`` does two hundred."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_modules import script_module

pytest.importorskip("torch", reason="a run needs torch")
pytest.importorskip("triton", reason="a run needs Triton")

ROOT = Path(__file__).parents[2]
KILLS = 4  # one of each victim
SEED = 2

KERNELS = """
import torch
import triton
import triton.language as tl

import portkit


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * FACTOR, mask=i < n)


def fused(x, factor, num_warps=4):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, FACTOR=factor, num_warps=num_warps)
    return y


variants = {f"f{factor}": {"factor": factor} for factor in range(2, 10)}
case = portkit.KernelCase(
    name="times",
    fused=fused,
    reference=lambda x: x * 2,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
    work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
    shapes=((1000,),),
    small_shapes=((100,), (200,)),
    dtypes=("float32",),
    variants={**variants, "w32": {"factor": 2, "num_warps": 32}},
)
"""

MATRIX = """
version: 1
kernels:
  times: {path: kernels.py}
targets: [h200, mi300x]
expect:
  - {kernel: times, target: mi300x, variant: w32, status: out_of_resources, reason: 2048 threads}
"""


@pytest.fixture(scope="module")
def faults():
    return script_module("fault_injection")


def test_no_record_is_lost_or_doubled_and_every_run_comes_to_its_end(faults, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    figures = faults.inject(tmp_path / "matrix.yaml", tmp_path / "reports", KILLS, seed=SEED)
    assert sum(figures.kills.values()) == KILLS
    assert figures.kills.keys() == set(faults.VICTIMS)


def test_what_the_script_promises_is_really_checked(faults, tmp_path):
    """A report that lost a line is noticed."""
    folder = tmp_path / "run0"
    folder.mkdir()
    schema = (ROOT / "tests" / "records" / "schema1.jsonl").read_bytes()
    (folder / "r.jsonl").write_bytes(schema)
    injection = faults.Injection(tmp_path / "matrix.yaml", tmp_path, kills=1, seed=1)
    assert injection._look(folder).partial is None
    lines = schema.splitlines(keepends=True)
    (folder / "r.jsonl").write_bytes(b"".join(lines[:2] + lines[3:-1]))
    with pytest.raises(faults.BrokenPromiseError, match="a line that was there is gone"):
        injection._look(folder)
    injection.seen = b""
    (folder / "r.jsonl").write_bytes(b"".join([*lines[:2], lines[1]]))
    with pytest.raises(faults.BrokenPromiseError, match="the cell of line 2 again"):
        injection._look(folder)
