"""The first mistake that pydantic found in a file, told with its line, key and remedy."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ValidationError

from portkit.document import Document
from portkit.errors import PortkitError, nearest


def mistake_of(
    document: Document,
    error: ValidationError,
    kind: type[PortkitError],
    models: Iterable[type[BaseModel]],
    remedy: str,
) -> PortkitError:
    """The error of a file.

    Args:
        document: the file.
        error: what pydantic said of it.
        kind: of the error to make.
        models: whose keys an unknown key may have been meant to be.
        remedy: where no better one is known.
    """
    first = error.errors()[0]
    keys = tuple(key for key in first["loc"] if key != "[key]")
    name = str(keys[-1]) if keys else ""
    message, advice = f"{first['msg']}, got {_short(first['input'])}", remedy
    if first["type"] == "extra_forbidden":
        message, advice = f"unknown key {name!r}", nearest(name, (key for each in models for key in each.model_fields))
    elif first["type"] == "missing":
        message, advice = f"key {name!r} is missing", f"add {name}"
    return kind(message, place=document.place(keys), remedy=advice)


def _short(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
