"""C's ``printf`` on arguments that a kernel sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

_SPECIFIER = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|ll|[hlqjzt])?([diouxXcsaAeEfFgGp%])")
_BITS = {"hh": 8, "h": 16, "": 32}  # of a length; all others have 64


class Source(Protocol):
    """Gives arguments one after another."""

    def string(self) -> str:
        """The next one, a string."""

    def number(self, bits: int, *, signed: bool) -> int:
        """The next one, an integer of which that many bits count."""

    def real(self) -> float:
        """The next one, a float64."""


def formatted(form: str, source: Source) -> str:
    """The text that ``printf`` writes."""
    return _SPECIFIER.sub(lambda found: _one(found, source), form)


def _one(found: re.Match[str], source: Source) -> str:
    flags, width, precision, length, letter = found.groups()
    if letter == "%":
        return "%"
    sizes = "".join(_sizes(width, precision, source))
    value, as_python = _argument(letter, _BITS.get(length or "", 64), source)
    return str(f"%{flags}{sizes}{as_python}" % value)


def _argument(letter: str, bits: int, source: Source) -> tuple[int | float | str, str]:
    """The value that a conversion takes, and Python's letter for it."""
    if letter in "diuoxX":
        return source.number(bits, signed=letter in "di"), "d" if letter in "diu" else letter
    if letter == "c":
        return source.number(8, signed=False), "c"
    if letter in "aA":
        text = source.real().hex()
        return text.upper() if letter == "A" else text, "s"
    if letter in "sp":
        return source.string() if letter == "s" else hex(source.number(64, signed=False)), "s"
    return source.real(), letter


def _sizes(width: str | None, precision: str | None, source: Source) -> Iterator[str]:
    """Width and precision as numbers; a star takes an argument."""
    for mark, size in (("", width), (".", precision)):
        if size is not None:
            yield mark + (str(source.number(32, signed=True)) if size == "*" else size)
