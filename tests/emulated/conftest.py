"""Kernels that Triton compiles on this host for absent AMD GPUs, run in the emulator."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="compiles kernels with Triton")

sys.path.insert(0, str(Path(__file__).parent))  # compiled.py

ARCHITECTURES = ("gfx942", "gfx950", "gfx1100", "gfx1201")


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    """Every architecture that is emulated whole."""
    return request.param
