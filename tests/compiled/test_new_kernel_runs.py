"""What ``portkit new`` writes passes ``pytest --benchmark`` and its own test as it is."""

import re

from portkit.cli import main


def test_a_new_kernel_passes_at_once(pytester):
    assert main(["new", "scaled"]) == 0
    options = ("-p", "no:cacheprovider", "--portkit-emulate", "off", "--portkit-target", "h200,mi300x,interpreter")
    done = pytester.runpytest_subprocess("--benchmark", *options, "-k", "scaled")
    assert done.ret == 0, done.stdout.str()
    assert re.search(r"\(4 of 4 cells\)", done.stdout.str())  # 2 built, 2 shapes interpreted
    done = pytester.runpytest_subprocess("tests", "-p", "no:cacheprovider", "-k", "not interpreter")
    done.assert_outcomes(passed=9, deselected=1)
