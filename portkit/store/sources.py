"""The reports that paths name: files, folders searched at any depth, archives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portkit.errors import ReportError
from portkit.store.archives import ENDINGS, is_archive, is_parquet, packed_as, unpack
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
            ReportError: a folder or an archive holds no report, an archive is not one to trust, or a
                file is packed in another way, or none but a pipe or a device.
        """
        if path.is_file() and is_archive(path):
            self._add_archive(path)
        elif path.is_dir():
            self._add_folder(path, path)
        else:
            _refuse_unfit(path)
            self._add_file(path, path)

    @property
    def files(self) -> list[Path]:
        """Every report once, by its path."""
        return [file for _, (file, _) in sorted(self._files.items())]

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

    def in_archive(self, path: Path) -> bool:
        """Whether a file was unpacked from an archive, and is gone when the command has ended."""
        return any(path.is_relative_to(folder.name) for folder in self._unpacked)

    def _add_file(self, file: Path, named: Path) -> None:
        self._files[os.path.realpath(file)] = file, named

    def _add_archive(self, archive: Path) -> None:
        folder = tempfile.TemporaryDirectory(prefix="portkit-", ignore_cleanup_errors=True)
        self._unpacked.append(folder)
        within = unpack(archive, Path(folder.name))
        self._add_folder(Path(folder.name), archive, within)

    def _add_folder(self, folder: Path, named: Path, within: Iterable[str] = ()) -> None:
        found = _files_of(folder)
        files = {file: why_no_report(file) for file in found if file.suffix == ".jsonl"}
        archives = [*within, *(str(file.relative_to(folder)) for file in found if is_archive(file))]
        left_out = {f"left out {file.relative_to(folder)}: {why}" for file, why in files.items() if why}
        left_out |= {f"left out {name}: an archive within is not opened, so name it by itself" for name in archives}
        self.left_out |= left_out
        if all(files.values()):
            what = "folder" if named == folder else "archive"
            raise ReportError(
                f"no report in this {what}" + "".join(f"; {text}" for text in sorted(left_out)),
                place=str(named),
                remedy="run `pytest --benchmark` first, or name a folder with *.jsonl reports",
            )
        for file, why in files.items():
            if why is None:
                self._add_file(file, named / file.relative_to(folder))


def _files_of(folder: Path) -> list[Path]:
    """Files at any depth, but for those of side folders; no link to a folder is followed.

    Raises:
        ReportError: a folder can't be read.
    """
    found: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = [name for name in folders if not name.endswith(".blobs")]
        found += [file for name in names if (file := Path(place, name)).is_file()]
    return sorted(found)


def _unreadable(error: OSError) -> None:
    raise ReportError(
        f"the folder can't be read: {error.strerror}", place=str(error.filename), remedy="check its permissions"
    ) from error


def _refuse_unfit(path: Path) -> None:
    """Refuse a pipe or a device, which may never end, and a file that is packed."""
    if path.exists() and not path.is_file():
        raise ReportError(
            "is a pipe, a device or a socket, and no file", place=str(path), remedy="write it to a file, and name that"
        )
    if path.is_file() and is_parquet(path):
        raise ReportError(
            "is a summary, and here reports are read: a summary has no findings, and is compared with nothing",
            place=str(path),
            remedy="name the reports that it was made of; `portkit merge` reads files that end in .parquet",
        )
    if path.is_file() and (packed := packed_as(path)):
        raise ReportError(
            f"is packed with {packed}, and its name does not end as that of an archive that can be read",
            place=str(path),
            remedy=f"unpack it, or pack the folder of reports as one of {', '.join(ENDINGS)}",
        )


def _named(error: ReportError, file: Path, named: Path) -> ReportError:
    """The error with the path as the user knows it, not that of the folder where an archive was unpacked."""
    place = (error.place or "").replace(str(file), str(named), 1)
    return ReportError(error.message, place=place, remedy=error.remedy)


def find(paths: Sequence[Path]) -> Sources:
    """The sources of some paths.

    Raises:
        ReportError: as :meth:`Sources.add`, or the disk or the system does not give a file's bytes.
    """
    sources = Sources()
    for path in paths:
        try:
            sources.add(path)
        except OSError as error:
            raise ReportError(
                f"can't be read: {error.strerror}", place=str(path), remedy="check the disk and the path"
            ) from error
    return sources
