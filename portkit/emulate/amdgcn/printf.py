"""C's ``printf`` on the words that a kernel sends: the format's bytes, then a word an argument."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_SPECIFIER = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|ll|[hlqjzt])?([diouxXcsaAeEfFgGp%])")
_BITS = {"hh": 8, "h": 16, "": 32}  # of a length; all others have 64
_WORD = 8  # bytes


def formatted(words: list[int]) -> str:
    """The text that ``printf`` writes.

    Args:
        words: of 64 bits: the format, which ends with a zero byte and fills whole words, then the arguments.
            Strings among them lie there as the format does.
    """
    source = _Source(struct.pack(f"<{len(words)}Q", *words))
    form = source.string()
    return _SPECIFIER.sub(lambda found: _one(found, source), form)


class _Source:
    """Takes arguments one after another; what is not there is 0."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def string(self) -> str:
        """The bytes up to a zero."""
        end = self._raw.find(b"\0", self._at)
        end = len(self._raw) if end < 0 else end
        text = self._raw[self._at : end].decode(errors="replace")
        self._at += -(-(end + 1 - self._at) // _WORD) * _WORD
        return text

    def word(self) -> int:
        """The next word."""
        raw = self._raw[self._at : self._at + _WORD].ljust(_WORD, b"\0")
        self._at += _WORD
        return int.from_bytes(raw, "little")

    def number(self, bits: int, *, signed: bool) -> int:
        """The low bits of the next word."""
        value = self.word() & ((1 << bits) - 1)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    def real(self) -> float:
        """The next word as a float64."""
        return float(struct.unpack("<d", self.word().to_bytes(_WORD, "little"))[0])


def _one(found: re.Match[str], source: _Source) -> str:
    flags, width, precision, length, letter = found.groups()
    if letter == "%":
        return "%"
    sizes = "".join(_sizes(width, precision, source))
    value, as_python = _argument(letter, _BITS.get(length or "", 64), source)
    return str(f"%{flags}{sizes}{as_python}" % value)


def _argument(letter: str, bits: int, source: _Source) -> tuple[int | float | str, str]:
    """The value that a conversion takes, and Python's letter for it."""
    if letter in "diuoxX":
        return source.number(bits, signed=letter in "di"), "d" if letter in "diu" else letter
    if letter == "c":
        return source.word() & 0xFF, "c"
    if letter in "aA":
        text = source.real().hex()
        return text.upper() if letter == "A" else text, "s"
    if letter in "sp":
        return source.string() if letter == "s" else hex(source.word()), "s"
    return source.real(), letter


def _sizes(width: str | None, precision: str | None, source: _Source) -> Iterator[str]:
    """Width and precision as numbers; a star takes an argument."""
    for mark, size in (("", width), (".", precision)):
        if size is not None:
            yield mark + (str(source.number(32, signed=True)) if size == "*" else size)
