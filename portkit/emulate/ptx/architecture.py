"""What differs between NVIDIA architectures, as data.

Sources: PTX ISA, "Target ISA Notes" of each instruction and "Release Notes"; the architectures are those that
Triton's NVIDIA backend builds for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from portkit.emulate.core.findings import Unloadable, Unsupported

NEWEST_VERSION = (9, 4)
"""Of the PTX ISA, that the tables follow."""

NUMBERS = (75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)
"""Compute capabilities that can be emulated."""

GENERATIONS = (75, 80, 90, 100, 120)
"""The first of each, where what the emulator makes of a text changes."""


@dataclass(frozen=True)
class Architecture:
    """One architecture as far as the emulator tells them apart."""

    number: int  # 90 of sm_90a
    specific: bool = False  # sm_90a: with the features of this architecture alone
    family: bool = False  # sm_100f: with those of its family

    @property
    def name(self) -> str:
        """As targets name it, without the letter of features."""
        return f"sm_{self.number}"

    @property
    def generation(self) -> int:
        """First architecture of those whose matrix instructions compute alike: see ``matrix.models``."""
        return max(first for first in GENERATIONS if first <= self.number)

    @property
    def tensor_memory(self) -> bool:
        """Whether it has tcgen05 and its memory."""
        return 100 <= self.number < 120


ARCHITECTURES = {f"sm_{number}": Architecture(number) for number in NUMBERS}
"""Architectures that can be emulated, by name."""

_TARGET = re.compile(r"sm_(\d+)([af]?)")


def architecture_of(target: str) -> Architecture:
    """The architecture of a ``.target``, such as ``sm_90a``.

    Raises:
        Unloadable: it is not emulated.
    """
    match = _TARGET.fullmatch(target)
    if match is None or f"sm_{match[1]}" not in ARCHITECTURES:
        raise Unloadable(f"architecture {target} is not emulated; emulated: {', '.join(ARCHITECTURES)}")
    return Architecture(int(match[1]), match[2] == "a", match[2] == "f")


def check_version(text: str) -> None:
    """Refuse PTX that is newer than what the tables follow.

    Raises:
        Unsupported: it is.
    """
    version = tuple(int(part) for part in text.split("."))
    if version > NEWEST_VERSION:
        newest = ".".join(map(str, NEWEST_VERSION))
        raise Unsupported(f"PTX version {text} is newer than {newest}, the newest that is known")
