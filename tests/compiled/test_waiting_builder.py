"""Waiting for another process that builds is no time of the compiler's."""

import contextlib
from types import SimpleNamespace

import pytest

from portkit.run import capture
from portkit.targets.catalog import load_catalog


@pytest.fixture
def steps(monkeypatch):
    """What happens, in order."""
    happened = []

    @contextlib.contextmanager
    def one_builder(kernel):
        happened.append("locked")
        yield
        happened.append("unlocked")

    monkeypatch.setattr(capture, "one_builder", one_builder)
    return happened


def recorder(steps):
    return capture.Recorder(load_catalog().get("h200"), steps.append, lambda: steps.append("compiled"))


def test_the_compilers_clock_starts_behind_the_lock(steps):
    built = SimpleNamespace(hash="1")
    compiled = recorder(steps).timed_compile(lambda src, **rest: built)
    assert compiled(SimpleNamespace(name="softmax")) is built
    assert steps == ["locked", "softmax", "compiled", "unlocked"]


def test_it_ends_though_the_compiler_fails(steps):
    def fail(src, **rest):
        raise RuntimeError("no such layout")

    with pytest.raises(RuntimeError, match="no such layout"):
        recorder(steps).timed_compile(fail)(SimpleNamespace(name="softmax"))
    assert steps == ["locked", "softmax", "compiled"]
