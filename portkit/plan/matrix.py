"""Matrix file → :class:`portkit.model.Matrix`; every mistake names line, key and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from portkit.document import Document, Kind, display_name, dotted, read_document
from portkit.errors import MatrixError, nearest
from portkit.model import (
    INTERPRETER,
    Axes,
    CaseSource,
    Direction,
    Evidence,
    ExclusionRule,
    Expectation,
    Matrix,
    MatrixKernel,
    Selector,
    Status,
)
from portkit.plan.matrix_format import (
    AxesFormat,
    ExpectFormat,
    KernelFormat,
    MatrixFormat,
    RuleFormat,
)
from portkit.plan.mistakes import first_mistake

FULL = "full"
"""The tier that every matrix has: all axes of all kernels, unless the file narrows it."""


_MATRIX = Kind("matrix file", MatrixError, "`kernels:` and `targets:`", "portkit init")


def read_matrix(path: Path) -> Matrix:
    """Read and check a matrix file.

    What needs the kernel cases or the catalogue is checked by
    :func:`portkit.plan.expand.expand`.

    Raises:
        MatrixError: the first mistake of the file, with its line, key and remedy.
    """
    document = read_document(path, _MATRIX)
    matrix_file = _validated(document)
    _check_names(matrix_file, document)
    return _matrix(matrix_file, document, path)


def check_kernel_files(matrix: Matrix) -> None:
    """See that every kernel's file is there; one that is not is a name or path mistyped.

    Raises:
        MatrixError: names the kernel's line and the nearest files.
    """
    for kernel in matrix.kernels:
        path = Path(kernel.source.path or __file__)
        if not _is_file(path):
            raise MatrixError(
                f"unknown kernel {kernel.source.name!r}: no file {display_name(path)}",
                place=f"{kernel.place}: kernels.{kernel.source.name}",
                remedy=_remedy_of_file(path),
            )


def _remedy_of_file(path: Path) -> str:
    near = [found.stem for found in path.parent.glob("*.py")]
    return nearest(path.stem, near) if near else "write that file, as `portkit new` does, or say where it is: `path:`"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for the file system
        return False


def matrix_schema() -> dict[str, Any]:
    """JSON schema of a matrix file, for editors."""
    schema = MatrixFormat.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "portkit matrix"}


def _validated(document: Document) -> MatrixFormat:
    try:
        return MatrixFormat.model_validate(document.data)
    except ValidationError as error:
        raise first_mistake(error, document, MatrixError, _keys_beside, "docs/matrix.md") from None


def _keys_beside(location: Sequence[str | int]) -> Iterable[str]:
    """Keys that the section of an unknown key knows."""
    if len(location) == 1:
        return MatrixFormat.model_fields
    return _SECTIONS[str(location[0])].model_fields


_SECTIONS: dict[str, type[BaseModel]] = {
    "kernels": KernelFormat,
    "tiers": AxesFormat,
    "expect": ExpectFormat,
    "exclude": RuleFormat,
}


def _check_names(matrix_file: MatrixFormat, document: Document) -> None:
    """Names that one part of the file takes from another."""
    for tier, kernels in (matrix_file.tiers or {}).items():
        for kernel in kernels or {}:
            _check_known("kernel", kernel, matrix_file.kernels, document, ("tiers", tier, kernel))
    for section, rules in (("expect", matrix_file.expect), ("exclude", matrix_file.exclude)):
        for index, rule in enumerate(rules):
            _check_rule(rule, matrix_file, document, (section, index))


def _check_rule(rule: RuleFormat, matrix_file: MatrixFormat, document: Document, location: tuple[str, int]) -> None:
    if rule.kernel is not None:
        _check_known("kernel", rule.kernel, matrix_file.kernels, document, (*location, "kernel"))
    if rule.target is not None:
        targets = [*matrix_file.targets, INTERPRETER]
        _check_known("target", rule.target, targets, document, (*location, "target"))


def _check_known(word: str, name: str, known: Iterable[str], document: Document, location: Sequence[Any]) -> None:
    names = list(known)
    if name not in names:
        raise MatrixError(
            f"{word} {name!r} is not in this matrix", place=document.place(location), remedy=nearest(name, names)
        )


def _matrix(matrix_file: MatrixFormat, document: Document, path: Path) -> Matrix:
    folder = path.resolve().parent
    tiers = {tier: kernels or {} for tier, kernels in (matrix_file.tiers or {}).items()}
    return Matrix(
        path=str(path),
        kernels=tuple(_kernel(name, entry, document, folder) for name, entry in matrix_file.kernels.items()),
        targets=tuple(matrix_file.targets),
        tiers={tier: {name: _axes(axes) for name, axes in kernels.items()} for tier, kernels in tiers.items()}
        | ({} if FULL in tiers else {FULL: {}}),
        expectations=tuple(_expectation(rule, document, index) for index, rule in enumerate(matrix_file.expect)),
        exclusions=tuple(_exclusion(rule, document, index) for index, rule in enumerate(matrix_file.exclude)),
        target_files=tuple(str(folder / name) for name in matrix_file.targets_files),
        places={dotted(where): f"{document.name}:{document.line(where)}" for where in document.locations()},
    )


def _kernel(name: str, entry: KernelFormat | None, document: Document, folder: Path) -> MatrixKernel:
    place = f"{document.name}:{document.line(('kernels', name))}"
    entry = entry or KernelFormat()
    if entry.module:
        source = CaseSource(name, module=entry.module)
    else:
        source = CaseSource(name, path=str(folder / (entry.path or f"kernels/{name}.py")))
    return MatrixKernel(source, _axes(entry), place)


def _axes(entry: AxesFormat | None) -> Axes:
    if entry is None:
        return Axes()
    return Axes(
        shapes=tuple(entry.shapes) if entry.shapes else None,
        dtypes=tuple(entry.dtypes) if entry.dtypes else None,
        variants=tuple(entry.variants) if entry.variants else None,
        directions=tuple(map(Direction, entry.directions)) if entry.directions else None,
        small_shapes=tuple(entry.small_shapes) if entry.small_shapes else None,
    )


def _selector(rule: RuleFormat) -> Selector:
    evidence = Evidence(rule.evidence) if rule.evidence else None
    direction = Direction(rule.direction) if rule.direction else None
    return Selector(rule.kernel, rule.target, rule.dtype, rule.variant, evidence, rule.shape, rule.triton, direction)


def _expectation(rule: ExpectFormat, document: Document, index: int) -> Expectation:
    place = f"{document.name}:{document.line(('expect', index))}"
    return Expectation(_selector(rule), Status(rule.status), rule.reason, place)


def _exclusion(rule: RuleFormat, document: Document, index: int) -> ExclusionRule:
    return ExclusionRule(_selector(rule), rule.reason, f"{document.name}:{document.line(('exclude', index))}")
