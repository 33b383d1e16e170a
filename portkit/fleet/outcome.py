"""What a job said of itself: the file ``outcome``, which job.sh writes as it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from portkit.fleet.job import OUTCOME
from portkit.store.schema import clean

MIRROR: Final = "mirror"
"""Folder of an attempt for the copy that is made of a job over ssh."""

_MOST_BYTES: Final = 1 << 16


def where(folder: Path, *, by_ssh: bool) -> Path:
    """The job's own folder; of a job over ssh that brought nothing back, the copy that was made meanwhile.

    Args:
        folder: of the attempt at the job.
        by_ssh: whether it runs on a host over ssh.
    """
    stage = Path((folder / "stage").read_text()) if (folder / "stage").exists() else folder / "no-stage"
    return folder / MIRROR if by_ssh and not (stage / OUTCOME).exists() else stage


def read_outcome(path: Path) -> dict[str, str]:
    """Word → its last value; empty where there is no such file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(" ") for line in clean(text).splitlines())
    return {word: value.strip() for word, _, value in pairs}
