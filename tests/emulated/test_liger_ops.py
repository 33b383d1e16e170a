"""Liger-Kernel's operations from its package, forward and backward: emulated, they agree with float64.

A selection by default; ``-m slow`` runs all of them on four architectures, ``scripts/liger_table.py`` prints the table.
"""

import pytest

pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

from liger_cells import FILE, TARGETS, agrees, cells_of, emulate, liger_cases, why

SELECTED = {
    "liger_rms_norm_gemma": "gfx942",
    "liger_geglu": "gfx1100",
    "liger_softmax": "gfx1201",
    "liger_group_norm": "gfx1201",  # loads that a compare-and-swap checks, beside loads of what nothing changes
    "liger_rope": "gfx942",  # in place, a row shorter than the workgroup
    "liger_cross_entropy": "gfx1100",
    "liger_fused_linear_jsd": "gfx950",
    "liger_embedding": "gfx1201",  # gradients by atomics
    "liger_mhc_pre": "gfx950",
}
NEEDED = 0.95


@pytest.fixture(scope="module")
def selection():
    cells = [cell for name, architecture in SELECTED.items() for cell in cells_of([name], [architecture], ["bfloat16"])]
    return emulate(cells)


@pytest.mark.parametrize("name", SELECTED)
def test_selected(selection, name):
    mine = [result for cell, result in selection.items() if cell.case == name]
    assert len(mine) == 2
    assert all(result.build.launches for result in mine)
    assert not [why(result) for result in mine if not agrees(result)]


def test_every_exported_function_is_here():
    """But for the two without a Triton kernel on AMD, which the case file names."""
    from liger_kernel import ops

    text = FILE.read_text()
    exported = {name for name in vars(ops) if name.endswith("Function")}
    assert {name for name in exported if f"ops.{name}" not in text} == {
        "LigerFusedLinearScaledCrossEntropyFunction",
        "LigerFusedLinearScaledCrossEntropyTPFunction",
    }


@pytest.mark.slow
@pytest.mark.parametrize("architecture", TARGETS)
def test_all(architecture):
    results = emulate(cells_of(liger_cases(), [architecture])).values()
    assert len(results) > 100
    missed = [why(result) for result in results if not agrees(result)]
    assert len(missed) <= (1 - NEEDED) * len(results), "\n".join(missed)
