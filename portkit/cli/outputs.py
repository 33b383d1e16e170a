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


def terminal_width() -> int | None:
    """Characters of a line: ``COLUMNS``, else those of the terminal; None where there is neither: files have all."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def refuse_report(output: Path, paths: Sequence[Path]) -> None:
    """A report is never written over: it may be the only one of a run.

    Raises:
        ReportError: the output is one.
    """
    names = (output.suffix, Path(os.path.realpath(output)).suffix)
    if ".jsonl" in names or any(path.exists() and output.exists() and path.samefile(output) for path in paths):
        raise ReportError(
            "nothing is written over a report, nor under a report's ending, .jsonl",
            place=str(output),
            remedy="name another file",
        )


def write(output: Path, content: str | bytes) -> None:
    """Replace a file as a whole, or write to a pipe or a device.

    Raises:
        ReportError: it can't be written, or has the ending of reports.
    """
    refuse_report(output, ())
    content = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.exists() and not output.is_file():  # a device or a pipe
            output.write_bytes(content)
        else:
            write_whole(Path(os.path.realpath(output)), content)
    except OSError as error:
        raise ReportError(
            f"can't be written: {error.strerror}", place=str(output), remedy="name a file that you may write, with -o"
        ) from error
