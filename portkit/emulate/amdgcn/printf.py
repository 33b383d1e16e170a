"""C's ``printf`` on the words that a kernel sends: the format's bytes, then a word an argument."""

from __future__ import annotations

import struct

from portkit.emulate.core import printf

_WORD = 8  # bytes


def formatted(words: list[int]) -> str:
    """The text that ``printf`` writes.

    Args:
        words: of 64 bits: the format, which ends with a zero byte and fills whole words, then the arguments.
            Strings among them lie there as the format does.
    """
    source = _Source(struct.pack(f"<{len(words)}Q", *words))
    return printf.formatted(source.string(), source)


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
