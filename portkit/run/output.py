"""What a process writes, read while it runs, of which only the end is kept."""

from __future__ import annotations

import os
from typing import Final

KEPT_BYTES: Final = 64 * 1024
"""How much of the end is kept: a process may write without end, and fills no disk."""

_CHUNK = 64 * 1024
_CHUNKS_AT_A_TIME = 64  # so that one that floods does not keep the reader from the others


_MARK = "\x1e"  # ASCII's record separator


def mark(number: int) -> bytes:
    """What a worker writes where it begins the cell of that number in its job."""
    return f"{_MARK}{number}\n".encode()


class Output:
    """A pipe from a process; ``sink`` is for the process, ``source`` for who reads."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        self.ended = False
        self._kept = b""

    def close_sink(self) -> None:
        """Leave the writing end to the process alone, so that its end is seen."""
        os.close(self.sink)

    def read(self) -> None:
        """Take in what is there, without waiting."""
        for _ in range(_CHUNKS_AT_A_TIME):
            try:
                chunk = os.read(self.source, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self.ended = True
                return
            self._kept = (self._kept + chunk)[-KEPT_BYTES:]

    @property
    def text(self) -> str:
        """The end of what was written so far; a cut first line is left out."""
        whole = self._kept if len(self._kept) < KEPT_BYTES else self._kept.partition(b"\n")[2]
        return whole.decode(errors="replace")

    def of_cell(self, number: int) -> str:
        """What was written since the mark of a cell, up to the next; all that is kept where there is no mark."""
        return self.text.rpartition(mark(number).decode())[2].partition(_MARK)[0]

    def close(self) -> None:
        """Stop reading."""
        os.close(self.source)
