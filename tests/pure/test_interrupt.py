"""Signals come at moments when they do no harm."""

import signal

import pytest

from portkit.run.interrupt import Interruptions

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def interruptions():
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}  # under nohup: ignored
    taken = Interruptions()
    taken.install()
    yield taken
    taken.restore()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts(interruptions, number):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_held_block_runs_to_its_end_first(interruptions):
    done = []

    def write():
        with interruptions.held():
            with interruptions.held():
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGINT)
            done.append("inner")
            done.append("outer")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["inner", "outer"]


def test_the_last_block_swallows_it(interruptions):
    with interruptions.held(last=True):
        signal.raise_signal(signal.SIGINT)
    with interruptions.held():
        pass


def test_an_error_in_the_block_is_not_hidden(interruptions):
    with pytest.raises(ValueError, match="disk"), interruptions.held():
        raise ValueError("disk")


def test_ignored_signals_stay_ignored_and_handlers_come_back():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    handler = signal.getsignal(signal.SIGTERM)
    taken = Interruptions()
    taken.install()
    try:
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) != handler
    finally:
        taken.restore()
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) == handler
