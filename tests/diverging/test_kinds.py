"""More kernels of each kind of failure: the kind decides, not the case."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import triton
from packaging.version import Version

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Status
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

FILE = Path(__file__).parent / "cases" / "kinds.py"
VERSION = Version(triton.__version__.partition("+")[0])

# LLVM ended the process at an operand without a register class; from 3.8 on it goes on and says nothing.
LOST = "compiler_crash" if Version("3.8") > VERSION else "miscompiled"


def _no_bfloat16() -> str:
    """What becomes of bfloat16 arithmetic on RDNA2, which has none."""
    if Version("3.6") > VERSION:
        return "built on RDNA2"
    return "compiler_crash" if Version("3.9") > VERSION else "compile_error"


NO_BFLOAT16 = _no_bfloat16()

# On 3.6 the assembler can't do without the figures of a function that is nowhere.
OPEN_CALL = "compiler_crash" if VERSION.release[:2] == (3, 6) else "miscompiled"

# A pass for xf32 on float64 operands asserts up to 3.7.
FAILING_PASS = "compile_error" if Version("3.8") > VERSION else "built on gfx942"

EXPECTED = {
    "pointwise": {
        "undefined_name": {"compile_error": "sm80 gfx942 gfx1100"},
        "undefined_function": {"compile_error": "sm80 gfx942 gfx1100"},
        "arguments": {"compile_error": "sm80 gfx942 gfx1100"},
        "pointers": {"compile_error": "sm80 gfx942 gfx1100"},
        "static_assert": {"unsupported": "sm80 gfx942 gfx1100"},
        "size": {"unsupported": "sm80 gfx942 gfx1100"},
        "language": {"unsupported": "sm80 gfx942 gfx1100"},
        "warps3": {"unsupported": "sm80 gfx942 gfx1100"},
        "odd_option": {"unsupported": "sm80 gfx942 gfx1100"},
        "ctas2": {"unsupported": "sm80 gfx942 gfx1100", "built": "sm90"},
        "warps32": {"built": "sm90 gfx1100", "out_of_resources": "gfx90a gfx942"},
        "fp8_everywhere": {"unsupported": "sm80 sm90", "built": "gfx942"},
        "nvidia_library": {"built": "sm90", "unsupported": "gfx942"},
        "amd_library": {"compile_error": "sm90", "built": "gfx942"},
        "asm_integer": {"built": "sm90", "compile_error": "gfx942 gfx1100"},
        "asm_effect": {"built": "sm90", "compile_error": "gfx942 gfx1100"},
        "asm_lines": {"built": "sm90", LOST: "gfx942 gfx1100"},
        "asm_long": {"built": "sm90", LOST: "gfx942 gfx1100"},
        "asm_amd": {"built": "gfx942 gfx1100", LOST: "sm80 sm90"},
        "asm_one_of_two": {LOST: "sm90 gfx942 gfx1100"},
        "asm_too_new": {"built": "sm90", "compile_error": "sm80"},
        "asm_unused": {"built": "sm90 gfx942 gfx1100"},
        "open_call": {"compile_error": "sm90", OPEN_CALL: "gfx942 gfx1100"},
    },
    "products": {
        "fp64": {"built": "sm90 gfx90a"},
        "fp64_xf32": {"built": "sm90", FAILING_PASS: "gfx942"},
        "fp32_k4": {"unsupported": "sm90", "built": "gfx942"},
        "i8_k16": {"unsupported": "sm90", "built": "gfx942"},
        "tf32x3": {"built": "sm90", "unsupported": "gfx942"},
    },
    "bfloat16": {
        "cube": {
            "built": "sm90 gfx1100",
            NO_BFLOAT16: "gfx1030",
        }
    },
    "lacking": {"default": {"compile_error": "sm90 gfx942"}},
}

POINTS = [
    (case, variant, target, status.partition(" ")[0])
    for case, variants in EXPECTED.items()
    for variant, statuses in variants.items()
    for status, targets in statuses.items()
    for target in targets.split()
]

WORDS = {
    ("undefined_name", "sm80"): "NameError: no_such_name is not defined",
    ("arguments", "gfx942"): "TypeError: exp() missing 1 required positional argument: 'x'",
    ("static_assert", "gfx1100"): "CompileTimeAssertionFailure: BLOCK too large",
    ("warps32", "gfx942"): "threads 2048 > 1024",
    (
        "fp8_everywhere",
        "sm90",
    ): "type fp8e4b8 not supported in this architecture. The supported fp8 dtypes are",
    ("nvidia_library", "gfx942"): "Implicit conversion of CUDA __nv_asinhf device function has been dropped",
    ("amd_library", "sm90"): "Unresolved extern function '__ocml_asinh_f32'",
    ("open_call", "gfx1100"): {
        "compiler_crash": "expression could not be evaluated",
        "miscompiled": "the binary calls nowhere_f32 and does not define it",
    }[OPEN_CALL],
    ("odd_option", "sm80"): "Keyword argument no_such_option was specified but unrecognised",
    ("asm_integer", "gfx942"): "error: invalid instruction",
    ("asm_too_new", "sm80"): "ptxas",
    ("fp64_xf32", "gfx942"): "Assertion" if FAILING_PASS == "compile_error" else "",
    ("asm_long", "gfx942"): {
        "compiler_crash": "output register for constraint 'l'",
        "miscompiled": "inline assembly 'add.s64 $0, $1, 1;' is not in the amdgcn",
    }[LOST],
    ("asm_one_of_two", "gfx1100"): {
        "compiler_crash": "output register for constraint 'f'",
        "miscompiled": "inline assembly 'v_sqrt_f32 $0, $1' is not in the amdgcn",
    }[LOST],
}
"""What the message of a cell says."""


@pytest.fixture(scope="module")
def outcomes():
    """What became of every cell above, all built together."""
    catalog = load_catalog()
    cells = [Cell(case, Direction.FORWARD, (1024,), "float32", variant, target) for case, variant, target, _ in POINTS]
    chains = chains_for(
        [PlannedCell(cell, Evidence.COMPILED) for cell in cells],
        {case: CaseSource(case, path=str(FILE)) for case in EXPECTED},
        {cell.target: catalog.get(cell.target) for cell in cells},
    )
    session = Session(Limits(len(os.sched_getaffinity(0))))
    try:
        found = list(session.results(chains))
    finally:
        session.close()
    assert len(found) == len(cells)
    return {(result.cell.case, result.cell.variant, result.cell.target): result.outcome for result in found}


@pytest.mark.parametrize(("case", "variant", "target", "status"), POINTS)
def test_kind(case, variant, target, status, outcomes):
    outcome = outcomes[case, variant, target]
    assert outcome.status == status, outcome.message
    assert WORDS.get((variant, target), "") in outcome.message
    assert bool(outcome.message) == (outcome.status is not Status.BUILT)


def test_messages_name_no_file_of_one_build(outcomes):
    assert not [o.message for o in outcomes.values() if "/tmp" in o.message or str(FILE.parent) in o.message]
    linker = outcomes["pointwise", "asm_integer", "gfx942"].message
    assert "tmp" not in linker
