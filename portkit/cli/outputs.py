"""Files that commands write: their layout, and what they must not be."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from portkit.errors import ReportError
from portkit.store.journal import write_whole

LAYOUT_OF_SUFFIX = {".md": "github", ".json": "json", ".txt": "plain"}
"""Endings that every command knows."""

TABLE_SUFFIXES = {**LAYOUT_OF_SUFFIX, ".csv": "csv", ".tex": "latex", ".xml": "junit"}
"""Those of a comparison's rows."""


def layout_of(output: Path | None, suffixes: Mapping[str, str] = LAYOUT_OF_SUFFIX) -> str:
    """Layout of a file's ending; plain on standard output.

    Raises:
        ReportError: the ending has none.
    """
    if output is None:
        return "plain"
    if output.suffix not in suffixes:
        raise ReportError(
            f"no layout is known for the ending {output.suffix!r}",
            place=str(output),
            remedy=f"end the name in {', '.join(suffixes)}, or give --format",
        )
    return suffixes[output.suffix]


def rows_of(rows: int, reports: int) -> str:
    """What a file holds.

    >>> rows_of(1, 1), rows_of(14, 2)
    ('1 row of 1 report', '14 rows of 2 reports')
    """
    return f"{rows} row{'s' * (rows != 1)} of {reports} report{'s' * (reports != 1)}"


def terminal_width() -> int | None:
    """Characters of a line: ``COLUMNS``, else those of the terminal; None where there is neither: files have all."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def check_output(output: Path, paths: Sequence[Path]) -> None:
    """See before the work whether a file may be written; a report never is: it may be the only one of a run.

    Raises:
        ReportError: the output is one, or can't be written.
    """
    names = (output.suffix, Path(os.path.realpath(output)).suffix)
    if ".jsonl" in names or any(path.exists() and output.exists() and path.samefile(output) for path in paths):
        raise ReportError(
            "nothing is written over a report, nor under a report's ending, .jsonl",
            place=str(output),
            remedy="name another file",
        )
    try:
        why = _why_unwritable(output)
    except OSError as error:
        why = error.strerror
    if why:
        raise _unwritable(output, why)


def _why_unwritable(output: Path) -> str | None:
    """Why a file can't be written; None where nothing speaks against it."""
    if output.is_dir():
        return "it is a folder"
    if output.exists():
        return None
    above = next(each for each in output.absolute().parents if each.exists())
    if not above.is_dir():
        return f"{above} is no folder"
    return None if os.access(above, os.W_OK) else f"{above} can't be written to"


def make_folder(output: Path) -> None:
    """Make the folder of a file that a command is to write.

    Raises:
        ReportError: it can't be made.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(output, error.strerror) from error


def _unwritable(output: Path, why: str | None) -> ReportError:
    return ReportError(f"can't be written: {why}", place=str(output), remedy="name a file that you may write")


def write(output: Path, content: str | bytes) -> None:
    """Replace a file as a whole, its folder made where it is not there, or write to a pipe or a device.

    Raises:
        ReportError: it can't be written, or has the ending of reports.
    """
    check_output(output, ())
    content = content.encode(errors="replace") if isinstance(content, str) else content
    make_folder(output)
    try:
        if output.exists() and not output.is_file():  # a device or a pipe
            output.write_bytes(content)
        else:
            write_whole(Path(os.path.realpath(output)), content)
    except OSError as error:
        raise _unwritable(output, error.strerror) from error
