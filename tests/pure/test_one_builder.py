"""One process at a time builds a kernel."""

import errno
import fcntl
import tempfile
import threading
import time

import pytest
from filelock import FileLock

from portkit.run import locks
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


def test_who_waited_long_enough_builds_beside_the_other_and_waits_no_more(monkeypatch):
    monkeypatch.setattr(locks, "BUILDER_SECONDS", 0.3)
    waited = []

    def build():
        for kernel in ("softmax", "matmul"):
            start = time.monotonic()
            with one_builder(kernel):
                waited.append(time.monotonic() - start)

    with one_builder("softmax"), one_builder("matmul"):
        other = threading.Thread(target=build, daemon=True)
        other.start()
        other.join(10.0)
    assert waited[0] >= 0.3 > waited[1]


def test_a_build_within_a_build_does_not_wait_for_itself():
    start = time.monotonic()
    with one_builder("softmax"):
        with one_builder("softmax"):
            pass
        assert not enters("softmax", 0.2)  # the inner one did not let go of the lock
    assert enters("softmax", 5.0)
    assert time.monotonic() - start < 10.0


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_flock_nobody_hangs(monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(locks, "BUILDER_SECONDS", 0.3)
    monkeypatch.setattr(fcntl, "flock", flock)
    assert enters("softmax", 5.0)
    assert enters("softmax", 5.0)


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError, OSError])
def test_a_lock_that_is_refused_is_no_reason_not_to_build(monkeypatch, error):
    def refuse(lock, **options):
        raise error("no lock")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert enters("softmax", 5.0)


def test_an_error_of_the_build_is_not_swallowed():
    with pytest.raises(RuntimeError, match="no such layout"), one_builder("softmax"):
        raise RuntimeError("no such layout")
    assert enters("softmax", 5.0)
