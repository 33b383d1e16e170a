"""Fixtures of tests that need no torch."""

from __future__ import annotations

from pathlib import Path

import pytest

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

    def run(*options, factor=1.0):
        monkeypatch.setenv("PLAYED_FACTOR", str(factor))
        plugins = ("-p", "played", "-p", "no:cacheprovider")
        real = ("--portkit-counters", "off", "--portkit-probe", "off", "--portkit-shared-device")  # not of a real GPU
        return pytester.runpytest_subprocess("--benchmark", *plugins, *real, "--portkit-target", "h200", *options)

    return run
