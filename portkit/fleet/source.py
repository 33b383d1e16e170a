"""What every host gets: the matrix, the files it names and its kernels' folders, as they are when the run begins.

All hosts run the same source, whatever lies on their disks, so that their records may stand side by side.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from portkit.errors import FleetError
from portkit.fleet.site import Fleet
from portkit.plan.matrix import check_kernel_files, read_matrix

MOST_BYTES: Final = 64 << 20
"""Of all files: they go to every host at every attempt."""

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "*.pyc", "reports")

_PYTEST_INI = "[pytest]\n"
"""Ends pytest's search for settings: those of a folder above would be another project's."""


def check_source(fleet: Fleet) -> None:
    """See that all is there that every host gets.

    Raises:
        FleetError: a file is missing, or lies outside of the fleet file's folder.
        MatrixError: the matrix can't be used.
    """
    for _ in _places(fleet):
        pass


def collect_source(fleet: Fleet, into: Path) -> None:
    """Copy what every host gets.

    Raises:
        FleetError: a file is missing, lies outside of the fleet file's folder, or all are too large.
        MatrixError: the matrix can't be used.
    """
    for path, below in _places(fleet):
        _copy(path, into / below)
    size = sum(each.stat().st_size for each in into.rglob("*") if each.is_file())
    if size > MOST_BYTES:
        raise FleetError(
            f"what every host gets has {size >> 20} MiB, {MOST_BYTES >> 20} at most",
            place=str(fleet.path),
            remedy="keep data and reports out of the folders of kernels and of `files`",
        )
    (into / "pytest.ini").write_text(_PYTEST_INI)


def _places(fleet: Fleet) -> Iterator[tuple[Path, Path]]:
    """Each file and folder, and its path below the fleet file's folder."""
    for path in dict.fromkeys(_wanted(fleet)):
        below = _below(path, fleet)
        if not path.exists():
            raise FleetError("no such file or folder", place=str(path), remedy=f"mend `files` of {fleet.path}")
        yield path, below


def _wanted(fleet: Fleet) -> Iterator[Path]:
    path = fleet.folder / fleet.matrix
    if not path.is_file():
        raise FleetError(
            f"no such file: {path}", place=f"{fleet.path}: matrix", remedy="name the matrix, or write one: portkit init"
        )
    matrix = read_matrix(path)
    check_kernel_files(matrix)
    yield path
    yield from (Path(kernel.source.path).parent for kernel in matrix.kernels if kernel.source.path)
    yield from map(Path, matrix.target_files)
    yield from (fleet.folder / name for name in fleet.files)


def _below(path: Path, fleet: Fleet) -> Path:
    inside = path.resolve()
    if not inside.is_relative_to(fleet.folder) or inside == fleet.folder:
        raise FleetError(
            f"{path} does not lie in a folder below the fleet file's",
            place=str(fleet.path),
            remedy="put the fleet file above all that the matrix names, and kernels into a folder of their own",
        )
    return inside.relative_to(fleet.folder)


def _copy(path: Path, into: Path) -> None:
    into.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, into, ignore=_LEFT_OUT, dirs_exist_ok=True)
    else:
        shutil.copy2(path, into)
