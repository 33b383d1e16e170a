"""What ``-k`` means for a kernel whose file can't be used, and what is said where it chooses nothing."""

from __future__ import annotations

import pytest

from portkit.pytest_plugin.no_match import assumed_words, names_any, no_match


@pytest.mark.parametrize(
    ("expression", "assumed"),
    [
        ("scaled_add and bfloat16", {"bfloat16"}),
        ("Scaled", set()),
        ("bfloat16", {"bfloat16"}),
        ("scaled_add and not float32", set()),
        ("scaled_add and (h200 or mi300x)", {"h200", "mi300x"}),
        ("not softmax", set()),
        ("softmax or h200", {"h200"}),
        ("softmax", None),
        ("softmax and h200", None),
        ("not scaled_add", None),
        ("scaled_add and and", None),
        ("scaled_add (h200)", None),
        ("scaled_add or h200 (w8)", None),
    ],
)
def test_words_with_which_a_kernel_without_cells_is_chosen(expression, assumed):
    assert assumed_words(expression, "scaled_add", ["softmax", "gemm"]) == assumed


def test_many_words_cost_no_more_than_few():
    """Not every set of them is tried, of which there are 10^18."""
    many = " or ".join(f"x{number}" for number in range(60))
    assert assumed_words(f"softmax and ({many})", "scaled_add", ["softmax"]) is None
    assert assumed_words(f"scaled_add and not ({many})", "scaled_add", ["softmax"]) == set()
    assert assumed_words("scaled_add and (w8 and not h200 or h200 and not w8)", "scaled_add", ()) == {"w8"}


def test_kernels_that_cannot_be_used_are_among_those_that_are_named():
    assert no_match("softmx", [], ["softmax"]).endswith(": did you mean softmax?")
    assert no_match("zzz", [], ["scaled_add", "gemm"]).endswith("; the kernels are scaled_add, gemm")
    assert names_any("scaled_add and h200", ["scaled_add"])
    assert not names_any("softmax and h200", ["scaled_add"])
