"""The emulator against results of an H200 that it was not fitted to: instructions within their bounds, whole kernels.

``scripts/recorded_vectors.py`` prints how far they lie apart.
"""

import h200_vectors
import numpy as np
import pytest

from portkit.cli import main
from portkit.emulate.core.vectors import Bound, read
from portkit.emulate.ptx.replay import approximation, comparisons

EDGES = h200_vectors.RECORDED.with_name("nvidia_h200.vectors")


@pytest.mark.parametrize("name", h200_vectors.functions())
def test_instructions_lie_within_their_bounds(name):
    declared = approximation(name)
    assert h200_vectors.function(name).ulp.size > 300
    if not declared.ranges:
        assert_within(declared.bound, h200_vectors.function(name))
    least = 0.0
    for each in declared.ranges:
        found = h200_vectors.function(name, (least, each.reach))
        assert found.ulp.size > 50
        assert_within(Bound(absolute=each.absolute), found)
        least = each.reach


@pytest.mark.parametrize("name", h200_vectors.functions())
def test_instructions_are_equal_to_the_bit(name):
    """Sines and cosines of whatever arguments."""
    assert h200_vectors.function(name, (0, np.inf)).differing == 0


def assert_within(bound, found):
    outside = found.ulp > bound.ulps
    if found.size is not None and found.expected is not None:
        with np.errstate(invalid="ignore"):
            outside &= found.size > bound.absolute + bound.relative * np.abs(found.expected)
    assert not outside.any(), (found.name, found.ulp[outside][:5])


def kernels():
    """The others of their kind are slow ones."""
    soon = ("matmul 90 bf16", "matmul 90 i8", "described", "attention", "softmax", "norm 90 fp16")
    for name in h200_vectors.kernels():
        yield pytest.param(name, marks=[] if name.startswith(soon) else [pytest.mark.slow])


@pytest.mark.parametrize("name", list(kernels()))
def test_whole_kernels(name):
    """To the bit."""
    assert [found.differing for found in h200_vectors.kernel(name) if found.differing] == []


def test_single_instructions_and_products_are_equal_to_the_bit(capsys):
    """290, as ``portkit selftest --isa-vectors`` recorded them: 1,024 rows of edges each, of 52 matrix products 128."""
    assert main(["emulate", "--check-vectors", str(EDGES)]) == 0
    assert "290 instructions compared, 0 outside what is declared" in capsys.readouterr().out
    compared = list(comparisons(read(EDGES), EDGES.name))
    assert sum("mma" in each.name for each in compared) == 52
    assert [each.name for each in compared if each.equal < each.values] == []


def test_other_forms_are_equal_to_the_bit(capsys):
    """Of 249, which nothing had been fitted to; 15 differed when they came."""
    forms = EDGES.with_name("nvidia_h200_forms.vectors")
    assert main(["emulate", "--check-vectors", str(forms)]) == 0
    assert "249 instructions compared, 0 outside what is declared" in capsys.readouterr().out
    assert [each.name for each in comparisons(read(forms), forms.name) if each.equal < each.values] == []


def test_results_that_are_no_numbers_have_the_bits_of_the_device():
    """One pattern for each type, which no operand's bits reach."""
    compared = list(comparisons(read(EDGES), EDGES.name))
    assert [each.name for each in compared if each.nans] == []
