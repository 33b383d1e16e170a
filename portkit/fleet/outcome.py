"""What a job said of itself: the file ``outcome``, which job.sh writes as it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from portkit.store.schema import clean

_MOST_BYTES: Final = 1 << 16


def read_outcome(path: Path) -> dict[str, str]:
    """Word → its last value; empty where there is no such file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(" ") for line in clean(text).splitlines())
    return {word: value.strip() for word, _, value in pairs}
