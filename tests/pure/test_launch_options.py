"""Variants whose launch options one vendor's backend has alone."""

import pytest
from test_expand import KNOWN, declaration, matrix

from portkit.model import Axes, Evidence, Expectation, Platform, Selector, Status
from portkit.plan.expand import expand
from portkit.plan.options import AMD, NVIDIA, foreign

PLATFORMS = {"h200": Platform.CUDA, "mi300x": Platform.ROCM}
VARIANTS = {"w8": {"num_warps": 8}, "regs": {"num_warps": 8, "maxnreg": 64}, "eu2": {"waves_per_eu": 2}}
CASES = {"softmax": declaration("softmax", variants=VARIANTS)}
ONE = Axes(shapes=((8, 8),), dtypes=("float32",))


def planned(**changes):
    plan = expand(matrix({"softmax": ONE}, **changes), CASES, KNOWN, platforms=PLATFORMS)
    return {(x.cell.target, x.cell.variant): x for x in plan.cells if x.evidence is Evidence.COMPILED}


def test_a_variant_with_a_vendor_s_option_is_for_that_vendor_alone():
    cells = planned()
    assert {key for key, cell in cells.items() if not cell.excluded} == {
        ("h200", "w8"),
        ("h200", "regs"),
        ("mi300x", "w8"),
        ("mi300x", "eu2"),
    }
    assert cells["mi300x", "regs"].excluded == "maxnreg: launch option of NVIDIA's backend alone"
    assert cells["h200", "eu2"].excluded == "waves_per_eu: launch option of AMD's backend alone"


def test_a_cell_of_which_the_matrix_expects_something_is_run():
    """Somebody wants to see the refusal."""
    rule = Expectation(Selector(variant="eu2", target="h200"), Status.UNSUPPORTED, "refused", "matrix.yaml:9")
    cells = planned(expectations=(rule,))
    assert cells["h200", "eu2"].excluded is None
    assert cells["mi300x", "regs"].excluded


@pytest.mark.parametrize(
    ("params", "platform", "why"),
    [
        ({"num_ctas": 1}, Platform.ROCM, None),
        ({"num_ctas": 2}, Platform.ROCM, "num_ctas: launch option of NVIDIA's backend alone"),
        ({"num_ctas": 2}, Platform.CUDA, None),
        ({"kpack": 2, "schedule_hint": "attention"}, Platform.ROCM, None),
        (
            {"kpack": 2, "schedule_hint": "a"},
            Platform.CUDA,
            "kpack, schedule_hint: launch options of AMD's backend alone",
        ),
        ({"no_such_option": 1}, Platform.CUDA, None),  # the compiler refuses it by name
    ],
)
def test_what_is_foreign(params, platform, why):
    assert foreign(params, platform) == why


def test_no_option_is_in_both_tables():
    assert not NVIDIA & AMD
