"""Random edits of compiled texts and of launches: each is refused by name or runs to an end, and none is an exception.

A few by default; ``-m slow`` runs ``scripts/fuzz_emulated.py`` on twenty kernels a vendor.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import ARCHITECTURES, edited, launch, launched, mutant

from portkit.model import Status

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_emulated.py"
NAMED = {*Status} - {Status.CAPTURE_FAILED}


@pytest.fixture(scope="module", params=["gfx1201", "sm_90"])
def kernel(request):
    return launched("softmax", request.param)


def test_edits_have_a_status(kernel):
    found = [mutant(kernel, seed).outcome for seed in range(60)]
    assert {item.status for item in found} <= NAMED
    assert len({item.status for item in found}) >= 4  # refused in several ways, and run
    assert all(item.message for item in found if item.status is not Status.PASSED)


def test_the_text_as_it_was_passes(kernel):
    assert launch(kernel, kernel.case.built.text).outcome.status == "passed"


def test_edits_are_those_of_their_seed(kernel):
    text = kernel.case.built.text
    assert edited(text, 7) == edited(text, 7)
    assert len({edited(text, seed) for seed in range(40)} - {text}) > 35


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ARCHITECTURES)
def test_thousands_of_edits(vendor):
    command = [sys.executable, str(SCRIPT), "1500", "--vendor", vendor, "--seed", "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 without a name" in done.stdout
