"""Reads YAML files of entries by name into models of pydantic's: prices and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from portkit.document import Document, Kind, read_document
from portkit.plan.mistakes import first_mistake

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_PAGE = "docs/savings.md"


def read_validated(path: Path, kind: Kind, model: type[M], parts: Sequence[type[BaseModel]]) -> tuple[Document, M]:
    """A file and what it says.

    Args:
        path: of the file.
        kind: what it is for.
        model: of the whole file.
        parts: models within it, whose keys an unknown key may have been meant to be, too.

    Raises:
        PortkitError: of the kind: the file is wrong; the message has file, line, key and remedy.
    """
    document = read_document(path, kind)
    models: Sequence[type[BaseModel]] = (model, *parts)

    def keys(location: Sequence[str | int]) -> Iterable[str]:
        return (key for each in models for key in each.model_fields)

    try:
        return document, model.model_validate(document.data)
    except ValidationError as error:
        raise first_mistake(error, document, kind.error, keys, _PAGE) from error


def merged(read: Callable[[Path], Mapping[str, T]], built_in: Path, files: Iterable[Path]) -> Mapping[str, T]:
    """Entries of several files by name: those of the package, and before them those of the user's, the last first."""
    return {name: each for file in (built_in, *files) for name, each in read(file).items()}
