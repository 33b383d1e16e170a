"""One process at a time builds a kernel."""

import tempfile
import threading

import pytest

from portkit.run.locks import one_builder


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def enters(kernel, seconds):
    """Whether another thread, which has a lock of its own, comes to build a kernel in so many seconds."""
    entered = threading.Event()

    def build():
        with one_builder(kernel):
            entered.set()

    threading.Thread(target=build, daemon=True).start()
    return entered.wait(seconds)


def test_who_wants_the_same_kernel_waits():
    with one_builder("softmax sm_90"):
        assert enters("softmax gfx942", 5.0)
        assert not enters("softmax sm_90", 0.2)
    assert enters("softmax sm_90", 5.0)


def test_without_a_folder_for_locks_nobody_waits(folder, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "file"))
    with one_builder("softmax"):
        assert enters("softmax", 5.0)
