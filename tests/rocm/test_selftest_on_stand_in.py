"""``portkit selftest`` on a ROCm host of stand-ins: AMD's machine code runs, and planted faults are caught.

Times and counters of a stand-in mean nothing, so what they say of bandwidth is not looked at; the
kernel of known occupancy computes for a GPU and not for an interpreter, and is left out.
"""

from __future__ import annotations

import pytest
from stand_in_host import environment

from portkit.run.selftest.judge import BYTES, OCCUPANCY, OVERRUN, WRONG, State
from portkit.run.selftest.trial import run_trial

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a host with a GPU needs no stand-in")

SMALL = {BYTES: "65536", WRONG: "5000", OVERRUN: "5120"}


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """Name of a check → the check."""
    folder = tmp_path_factory.mktemp("selftest")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        options = ("--portkit-counters", "off", "--portkit-cell-seconds", "250", "-k", f"measured and not {OCCUPANCY}")
        trial = run_trial(folder / "trial", options, SMALL)
    return {each.name: each for each in trial.checks}


def test_the_device_is_matched(checks):
    assert checks["matching"].state is State.OK
    assert "gfx942, 304 units: target mi300x" in checks["matching"].text


@pytest.mark.parametrize("case", SMALL)
def test_verdicts_are_right_planted_faults_among_them(checks, case):
    assert checks[f"verdict on {case}"].state is State.OK


def test_faults_are_named_for_what_they_are(checks):
    assert checks[f"verdict on {WRONG}"].text.startswith("wrong_result (output 0: error 3.99e-01")
    assert "output 0: written after its end, from byte 20480 of 20480 (4 bytes changed)" in (
        checks[f"verdict on {OVERRUN}"].text
    )


def test_what_the_driver_says_is_held_against_the_binaries(checks):
    assert checks["binaries"].state is State.OK
