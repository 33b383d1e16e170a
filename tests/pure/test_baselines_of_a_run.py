"""Which baselines the measured cells of a run are asked for."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["eager", "torch", "liger", "compile", "compile_max_autotune"]),  # the matrix has the tier full alone
        (("--portkit-baselines", "eager,liger"), ["eager", "liger"]),
        (("--portkit-baselines", "none"), []),
    ],
)
def test_what_is_asked_for(play, pytester, options, expected):
    play("-p", "no:benchmark", *options).assert_outcomes(passed=3, failed=1)
    assert json.loads((pytester.path / "jobs.json").read_text()) == [expected]


def test_a_name_that_no_kernel_has(play):
    result = play("-p", "no:benchmark", "--portkit-baselines", "ligre")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--portkit-baselines: no kernel here has a baseline 'ligre'*", "*did you mean liger?"]
    )
