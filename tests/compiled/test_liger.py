"""An unmodified package: Liger-Kernel's RMSNorm across vendors."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Platform, Status

pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "liger_rms_norm.py"
TARGETS = ("a100", "h200", "b200", "rtx5090", "mi250x", "mi300x", "mi355x", "rx7900xtx", "rx9070xt")


def test_warps_are_those_the_host_code_picks_on_each_vendor(workshop):
    cells = [Cell("liger_rms_norm", Direction.FORWARD, (8, 32768), "bfloat16", "default", target) for target in TARGETS]
    results = workshop.build(CaseSource("liger_rms_norm", path=str(EXAMPLE)), cells)
    for cell, result in results.items():
        rocm = workshop.catalog.get(cell.target).architecture.platform is Platform.ROCM
        (launch,) = result.build.launches
        assert launch.num_warps == (16 if rocm else 32), cell.target
        assert launch.resources.threads_per_block <= 1024
        assert result.outcome.status is Status.BUILT
