"""The first mistake that pydantic found in a file, told with its line, key and remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from portkit.document import Document
from portkit.errors import PortkitError, nearest

KeysBeside = Callable[[Sequence[str | int]], Iterable[str]]
"""The location of an unknown key → keys that its section knows."""


def shown(value: object) -> str:
    """A value in few characters; what holds others is not looked into, as aliases make it huge."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = repr(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."


def first_mistake(
    error: ValidationError, document: Document, kind: type[PortkitError], keys_beside: KeysBeside, page: str
) -> PortkitError:
    """The error of a file whose format says remedies itself; it names the lines of the other mistakes too.

    Args:
        error: what pydantic said of the file.
        document: the file.
        kind: of the error to make.
        keys_beside: what an unknown key may have been meant to be.
        page: of the manual, where no better remedy is known.
    """
    # A key that may be left out is a union with null: its second half is noise.
    mistakes = [each for each in error.errors(include_url=False) if each["type"] != "none_required"]
    lines = [document.line(_location(mistake, document)) for mistake in mistakes]
    # A key that is missing may be there under a name mistyped, which says more.
    first = min(range(len(mistakes)), key=lambda index: (mistakes[index]["type"] == "missing", lines[index]))
    more = sorted({line for index, line in enumerate(lines) if index != first})
    message, remedy = _words(mistakes[first], keys_beside, page)
    if more:
        message += f" (other mistakes at line {', '.join(map(str, more[:5]))})"
    return kind(message, place=document.place(_location(mistakes[first], document)), remedy=remedy)


def _location(error: ErrorDetails, document: Document) -> tuple[str | int, ...]:
    location = document.known_part(error["loc"])
    entry = error.get("ctx", {}).get("entry")
    return location if entry is None else (*location, entry)


def _words(error: ErrorDetails, keys_beside: KeysBeside, page: str) -> tuple[str, str]:
    """Message and remedy of one of pydantic's errors."""
    kind, name = error["type"], str(error["loc"][-1]) if error["loc"] else ""
    if kind == "mistake":
        return error["ctx"]["message"], error["ctx"]["remedy"]
    if kind == "extra_forbidden":
        return f"unknown key {name!r}", nearest(name, keys_beside(error["loc"]))
    if kind in ("invalid_key", "string_type") and (kind == "invalid_key" or name == "[key]"):
        return (
            f"a key must be text, not {_type_word(error['input'])}",
            "write a name, in quotes if YAML reads it as another type",
        )
    if kind == "missing":
        return f"`{name}` is missing", f"add `{name}:`"
    if kind == "too_short":
        return "is empty", "name at least one, or remove the key" if len(error["loc"]) > 1 else "name at least one"
    return _words_of_value(error, page)


def _words_of_value(error: ErrorDetails, page: str) -> tuple[str, str]:
    kind = error["type"]
    if kind in _BOUNDS:
        word, bound = _BOUNDS[kind]
        return f"must be {word} {error['ctx'][bound]}, not {shown(error['input'])}", "write such a number"
    if kind in _VALUES:
        wanted, example = _VALUES[kind]
        return f"must be {wanted}, not {shown(error['input'])}", example
    wanted, example = _TYPES.get(kind, (error["msg"], f"see {page}"))
    return f"must be {wanted}, not {_type_word(error['input'])}", example


_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
"""Kind of error of a number → the words of its bound, and the name of that."""

_VALUES = {
    "finite_number": ("a finite number", "write such a number"),
    "string_too_short": ("a text that says something", "write one, or remove the key"),
}
"""Kind of error of a value of the right type → what it must be, and what would be right."""

_TYPES = {
    "list_type": ("a list", "write the values in brackets, as [a, b]"),
    "dict_type": ("a mapping", "write keys with values, as `key: value`"),
    "model_type": ("a mapping", "write keys with values, as `key: value`"),
    "string_type": ("text", "write a text; put it in quotes if YAML reads it as another type"),
    "int_type": ("a whole number", "write a number, as `version: 1`"),
    "float_type": ("a number", "write a number, without quotes"),
    "date_type": ("a date", "write it as 2026-09-24, without quotes"),
    "bool_type": ("true or false", "write true or false, without quotes"),
}


def _type_word(value: Any) -> str:
    if value is None:
        return "empty"
    words = (
        (bool, "true or false"),
        (str, "text"),
        (int | float, "a number"),
        (list | tuple, "a list"),
        (Mapping, "a mapping"),
    )
    return next((word for kind, word in words if isinstance(value, kind)), type(value).__name__)
