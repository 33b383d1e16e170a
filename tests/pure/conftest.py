"""Fixtures of tests that need no torch."""

from __future__ import annotations

from pathlib import Path

import pytest

try:
    from isa_claims import Recorder, claims

    from portkit.emulate.amdgcn import launch
except ImportError:  # NumPy is missing, and with it the emulator
    launch = None

MATRIX = """
version: 1
kernels: {softmax: {}}
targets: [h200, mi300x]
"""


@pytest.fixture
def play(pytester, monkeypatch):
    """Runs ``pytest --benchmark`` on a host whose GPU is played, see ``played.py``."""
    pytester.makefile(".yaml", matrix=MATRIX)
    pytester.mkdir("kernels").joinpath("softmax.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    monkeypatch.setenv("PORTKIT_SALT", str(pytester.path))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # this session's; the run has none

    def run(*options, factor=1.0):
        monkeypatch.setenv("PLAYED_FACTOR", str(factor))
        plugins = ("-p", "played", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        real = ("--portkit-counters", "off", "--portkit-probe", "off", "--portkit-shared-device")  # not of a real GPU
        return pytester.runpytest_subprocess("--benchmark", *plugins, *real, "--portkit-target", "h200", *options)

    return run


@pytest.fixture(autouse=True)
def claimed_instructions_run(request, monkeypatch):
    """A test of instructions runs those that its name or its marker says it is about."""
    claimed = claims(request.node) if launch else set()
    if not claimed:
        yield
        return
    recorder = Recorder(launch.load)
    monkeypatch.setattr(launch, "load", recorder)
    yield
    left = claimed - recorder.names
    assert not left, f"named by the test, but not run: {', '.join(sorted(left))}"
