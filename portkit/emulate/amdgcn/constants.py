"""Constant data that a text has beside its code, such as the message of an assertion.

Only what stands there as numbers and strings is known; a symbol whose data holds expressions over other symbols is
left out, and a kernel that takes its address is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from portkit.emulate.core.bounds import Bounds
from portkit.emulate.core.findings import Site
from portkit.emulate.core.memory import BASE, GUARD

ADDRESS = BASE + GUARD
"""Of the first byte: constants are the first allocation of a launch."""

ALIGNMENT = Bounds(0, 31)
"""Power of two behind ``.p2align``, as LLVM takes it."""

ROOM = Bounds(0, 1 << 24)
"""Bytes of all constants of a text; compilers have a few thousand."""

_LABEL = re.compile(r"([\w.$]+):\s*$")
_STRING = re.compile(r'\.(ascii|asciz)\s+"((?:[^"\\]|\\.)*)"$')
_NUMBERS = re.compile(r"\.(byte|short|long|quad)\s+(.+)$")
_ROOM = re.compile(r"\.zero\s+(\d+)$")
_ALIGN = re.compile(r"\.p2align\s+(\d+)\b.*$")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"\\": b"\\"}
_BYTES = {"byte": 1, "short": 2, "long": 4, "quad": 8}
_SILENT = re.compile(r"\.(size|type|globl|local|weak|hidden|protected|ident)\b")


@dataclass
class Constants:
    """Bytes, and where each symbol lies in them."""

    data: bytearray = field(default_factory=bytearray)
    symbols: dict[str, int] = field(default_factory=dict)

    @property
    def addresses(self) -> Mapping[str, int]:
        """Where a kernel finds each symbol."""
        return {name: ADDRESS + offset for name, offset in self.symbols.items()}

    def room(self, count: int, site: Site) -> None:
        """Zeros.

        Raises:
            Unloadable: more than any text has.
        """
        ROOM.check("bytes of constants", len(self.data) + count, site)
        self.data.extend(bytes(count))


def constants_of(text: str) -> Constants:
    """What the read-only sections of a text hold."""
    found = Constants()
    last: str | None = None
    for number, line in _data_lines(text):
        if match := _LABEL.match(line):
            last = match[1]
            found.symbols[last] = len(found.data)
        elif match := _ALIGN.match(line):
            power = ALIGNMENT.check("alignment", int(match[1]), Site(number, line))
            found.room(-len(found.data) % (1 << power), Site(number, line))
        elif match := _ROOM.match(line):
            found.room(int(match[1]), Site(number, line))
        elif (raw := _raw(line)) is not None:
            found.data.extend(raw)
        elif last and not _SILENT.match(line):
            found.symbols.pop(last, None)
    return found


def _data_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbers and text of the lines of sections of read-only data, without comments; a kernel's descriptor is none."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        code = line.strip()
        if code.startswith((".section", ".text", ".data", ".amdgpu_metadata", ".amdhsa_kernel")):
            inside = bool(re.match(r"\.section\s+\.rodata", code))
        elif inside and code and code[0] not in ";#":
            yield number, code if '"' in code else code.split(";", 1)[0].strip()


def _raw(line: str) -> bytes | None:
    """Bytes of one line of data; None where it holds none that are known."""
    if match := _STRING.match(line):
        return _unescaped(match[2].encode()) + (b"\0" if match[1] == "asciz" else b"")
    match = _NUMBERS.match(line)
    if match is None:
        return None
    size = _BYTES[match[1]]
    try:
        return b"".join((int(each, 0) % (1 << 8 * size)).to_bytes(size, "little") for each in match[2].split(","))
    except ValueError:
        return None


def _unescaped(raw: bytes) -> bytes:
    def character(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 255]) if code[:1] in b"01234567" else _LETTERS.get(code, code)

    return _ESCAPE.sub(character, raw)
