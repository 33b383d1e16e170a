"""The reports that paths name: files, folders searched at any depth, archives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portkit.errors import ReportError
from portkit.store.archives import is_archive, unpack
from portkit.store.journal import Report, read_report, why_no_report


@dataclass
class Sources:
    """The files that paths name; unpacked archives live as long as this does."""

    left_out: set[str] = field(default_factory=set)  # why, in words
    _files: dict[str, tuple[Path, Path]] = field(default_factory=dict)  # real path → the file, how it was named
    _unpacked: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Add a report, or all reports of a folder or an archive.

        Raises:
            ReportError: a folder or an archive holds no report, or an archive is not one to trust.
        """
        if path.is_file() and is_archive(path):
            self._add_folder(self._unpack(path), path)
        elif path.is_dir():
            self._add_folder(path, path)
        else:
            self._add_file(path, path)

    def read(self) -> Iterator[Report]:
        """Every report once, by its path.

        Raises:
            ReportError: a report can't be read; the place is the path as it was named.
        """
        for _, (file, named) in sorted(self._files.items()):
            try:
                yield read_report(file)
            except ReportError as error:
                raise _named(error, file, named) from error

    def _add_file(self, file: Path, named: Path) -> None:
        self._files[os.path.realpath(file)] = file, named

    def _unpack(self, archive: Path) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="portkit-", ignore_cleanup_errors=True)
        self._unpacked.append(folder)
        unpack(archive, Path(folder.name))
        return Path(folder.name)

    def _add_folder(self, folder: Path, named: Path) -> None:
        files = {file: why_no_report(file) for file in folder.rglob("*.jsonl") if file.is_file()}
        left_out = {f"left out {file.relative_to(folder)}: {why}" for file, why in files.items() if why}
        self.left_out |= left_out
        if len(left_out) == len(files):
            what = "folder" if named == folder else "archive"
            raise ReportError(
                f"no report in this {what}" + "".join(f"; {text}" for text in sorted(left_out)),
                place=str(named),
                remedy="run `pytest --benchmark` first, or name a folder with *.jsonl reports",
            )
        for file, why in files.items():
            if why is None:
                self._add_file(file, named / file.relative_to(folder))


def _named(error: ReportError, file: Path, named: Path) -> ReportError:
    """The error with the path as the user knows it, not that of the folder where an archive was unpacked."""
    place = (error.place or "").replace(str(file), str(named), 1)
    return ReportError(error.message, place=place, remedy=error.remedy)


def find(paths: Sequence[Path]) -> Sources:
    """The sources of some paths.

    Raises:
        ReportError: as :meth:`Sources.add`.
    """
    sources = Sources()
    for path in paths:
        sources.add(path)
    return sources
