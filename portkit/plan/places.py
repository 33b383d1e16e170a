"""Where kernels stand in a repository, for annotations: read from the matrix and the kernel files' text.

Nothing is imported: a file that another host ran is looked at here, as it is now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portkit.model import MatrixKernel
from portkit.plan.matrix import read_matrix


@dataclass(frozen=True)
class Place:
    """A line of a file of the repository."""

    file: str  # from the repository's root, with slashes
    line: int


@dataclass(frozen=True)
class KernelPlaces:
    """Where one kernel case and what belongs to it stand."""

    case: Place  # of its declaration; without a file of its own, of its line in the matrix
    functions: Mapping[str, Place] = field(default_factory=dict)  # by name, of the kernel file

    def of(self, names: Iterable[str]) -> Place:
        """The first of some functions that the file has, else the case's declaration."""
        return next((self.functions[name] for name in names if name in self.functions), self.case)


def kernel_places(matrix: Path) -> Mapping[str, KernelPlaces]:
    """Places of all kernels of a matrix, by the name of their case.

    Raises:
        MatrixError: the matrix can't be read.
    """
    root = repository(matrix)
    kernels = read_matrix(matrix).kernels
    return {kernel.source.name: _places(kernel, Place(_from(root, matrix), _line(kernel)), root) for kernel in kernels}


def repository(path: Path) -> Path:
    """The folder that has ``.git``, from a file upwards; without one the folder of the file."""
    folder = path.resolve().parent
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _places(kernel: MatrixKernel, in_matrix: Place, root: Path) -> KernelPlaces:
    path = Path(kernel.source.path) if kernel.source.path else None
    tree = _parsed(path)
    if path is None or tree is None or not path.resolve().is_relative_to(root):
        return KernelPlaces(in_matrix)
    name = _from(root, path)
    functions = {each.name: Place(name, each.lineno) for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    declared = next(_declarations(tree, kernel.source.name), 1)
    return KernelPlaces(Place(name, declared), functions)


def _parsed(path: Path | None) -> ast.Module | None:
    """The syntax tree of a kernel file; None where it can't be read."""
    try:
        return ast.parse(path.read_text(encoding="utf-8")) if path else None
    except (OSError, SyntaxError, ValueError):
        return None


def _declarations(tree: ast.Module, case: str) -> Iterator[int]:
    """Lines of the calls that make the case: ``KernelCase(name="softmax", …)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("KernelCase"):
            given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
            if any(isinstance(each, ast.Constant) and each.value == case for each in given):
                yield node.lineno


def _line(kernel: MatrixKernel) -> int:
    """The line of ``matrix.yaml:3``."""
    line = kernel.place.rpartition(":")[2]
    return int(line) if line.isdecimal() else 1


def _from(root: Path, path: Path) -> str:
    resolved = path.resolve()
    return (resolved.relative_to(root) if resolved.is_relative_to(root) else Path(path.name)).as_posix()
