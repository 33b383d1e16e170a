"""What ``--portkit-baselines`` takes and refuses, and which baselines a tier has."""

from __future__ import annotations

import pytest

from portkit.errors import HostError
from portkit.plan.baselines import baselines_of, parse_baselines

DECLARED = ("torch", "liger")


@pytest.mark.parametrize(
    ("tier", "chosen", "expected"),
    [
        ("quick", None, ("eager", "torch", "liger", "compile")),
        ("nightly", None, ("eager", "torch", "liger", "compile")),
        ("full", None, ("eager", "torch", "liger", "compile", "compile_max_autotune")),
        ("quick", ("compile_max_autotune", "eager"), ("eager", "compile_max_autotune")),
        ("full", ("liger", "flashinfer"), ("liger",)),
        ("full", (), ()),
    ],
)
def test_baselines_of_a_case(tier, chosen, expected):
    assert baselines_of(DECLARED, tier, chosen) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], None),
        (["none"], ()),
        (["eager, torch", "liger", "torch"], ("eager", "torch", "liger")),
        (["compile_max_autotune"], ("compile_max_autotune",)),
    ],
)
def test_names_are_taken(options, expected):
    assert parse_baselines(options, DECLARED) == expected


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        (["ligre"], "no kernel here has a baseline 'ligre'", "did you mean liger?"),
        (["eager,"], "no kernel here has a baseline ''", "known: compile, compile_max_autotune, eager, liger, none"),
        (["none", "eager"], "`none` goes alone", "drop it, or the names beside it"),
    ],
)
def test_a_name_that_no_case_has_is_refused(options, message, remedy):
    with pytest.raises(HostError) as raised:
        parse_baselines(options, DECLARED)
    assert (raised.value.place, raised.value.message) == ("--portkit-baselines", message)
    assert remedy in raised.value.remedy
