"""Warps and grids of Liger-Kernel's functions are those that its host code picks for each GPU.

Read from its source (0.8.5): ``calculate_settings`` gives 8 warps from 2048 columns, 16 from
8192, and from 32768 on 32, on ROCm 16; the gradients of norms run on one block a unit;
cross-entropy takes 16 warps on ROCm, 8 on Blackwell for 16-bit logits, otherwise 32; SwiGLU
is tiled on Blackwell; the rotary embedding leaves the default of 4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Status
from portkit.run.session import chains_for

pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
F, B = Direction.FORWARD, Direction.BACKWARD
CUDA_WIDE, ROCM_WIDE = 32, 16
CROSS_ENTROPY = "liger_cross_entropy_kernel"
UNITS = {"h200": 132, "mi300x": 304, "rx7900xtx": 48}
SHAPES = {
    "liger_rms_norm": (8, 32768),
    "liger_layer_norm": (8, 32768),
    "liger_cross_entropy": (8, 32000),
    "liger_swiglu": (8, 14336),
    "liger_rope": (1, 8, 32, 8, 128),
}


def wide(target):
    return CUDA_WIDE if target == "h200" else ROCM_WIDE


EXPECTED = {
    # case, direction, target → kernel, warps, grid
    **{("liger_rms_norm", B, t): ("_rms_norm_backward_kernel", wide(t), (n, 1, 1)) for t, n in UNITS.items()},
    **{("liger_layer_norm", F, t): ("_layer_norm_forward_kernel", wide(t), (8, 1, 1)) for t in UNITS},
    **{("liger_layer_norm", B, t): ("_layer_norm_backward_kernel", wide(t), (n, 1, 1)) for t, n in UNITS.items()},
    **{
        ("liger_cross_entropy", d, t): ("liger_cross_entropy_kernel", wide(t), (8, 1, 1)) for t in UNITS for d in (F, B)
    },
    ("liger_cross_entropy", F, "b200"): (CROSS_ENTROPY, 8, (8, 1, 1)),
    **{("liger_swiglu", F, t): ("_swiglu_forward_kernel", 16, (8, 1, 1)) for t in UNITS},
    **{("liger_swiglu", B, t): ("_swiglu_backward_kernel", 16, (8, 1, 1)) for t in UNITS},
    ("liger_swiglu", F, "b200"): ("_swiglu_forward_kernel_tiled", 4, (8, 14, 1)),
    **{("liger_rope", d, t): ("_triton_rope", 4, (8, 1, 1)) for t in UNITS for d in (F, B)},
}


@pytest.fixture(scope="module")
def built(workshop):
    cells = [Cell(case, way, SHAPES[case], "bfloat16", "default", target) for case, way, target in EXPECTED]
    planned = [PlannedCell(cell, Evidence.COMPILED) for cell in cells]
    sources = {case: CaseSource(case, path=str(EXAMPLES / f"{case}.py")) for case in SHAPES}
    targets = {cell.target: workshop.catalog.get(cell.target) for cell in cells}
    results = workshop.session.results(chains_for(planned, sources, targets))
    return {(r.cell.case, r.cell.direction, r.cell.target): r for r in results}


@pytest.mark.parametrize("key", EXPECTED, ids=lambda key: "-".join(map(str, key)))
def test_kernel_warps_and_grid(built, key):
    result = built[key]
    assert result.outcome.status in (Status.BUILT, Status.OUT_OF_RESOURCES), result.outcome.message
    (launch,) = result.build.counted
    assert (launch.kernel, launch.num_warps, launch.grid) == EXPECTED[key]


def test_gradients_made_in_the_forward_pass(built):
    for target in UNITS:
        flags = [
            built["liger_cross_entropy", way, target].build.counted[0].constants["HAS_GRADIENTS"] for way in (F, B)
        ]
        assert flags == ["False", "True"]


def test_what_was_asked_is_in_the_result(built):
    assert built["liger_layer_norm", B, "mi300x"].asked == {"multi_processor_count": 304}
    assert built["liger_cross_entropy", F, "h200"].asked == {"major": 9, "minor": 0}
