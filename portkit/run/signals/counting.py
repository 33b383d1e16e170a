"""Counting instructions in a text, by name of a signal and by class."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping

Classes = tuple[tuple[str, re.Pattern[str]], ...]
"""Name of a class and what an instruction of it has; the first that fits counts."""


def compiled(patterns: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    """Signal → its pattern; ``^`` is the start of any line."""
    return {name: re.compile(pattern, re.M) for name, pattern in patterns.items()}


def counts(patterns: Mapping[str, re.Pattern[str]], text: str) -> dict[str, int]:
    """Signal → how often its pattern is in the text."""
    return {name: len(pattern.findall(text)) if _word(pattern) in text else 0 for name, pattern in patterns.items()}


_TIMES = re.compile(r"(?<!\\)\{[\d,]+\}")
_ESCAPED = re.compile(r"\\[a-zA-Z]|\[\^?(?:\\.|[^\]\\])*\]")
_GROUP = re.compile(r"\([^()]*\)")
_WORDS = re.compile(r"(?:[\w ]|\\[^\w\s])+(?![\w ?*+{])")


@functools.cache
def _word(pattern: re.Pattern[str]) -> str:
    """What every match has in it, to be looked for first, which is fast; empty where there is nothing such."""
    rest, before = _ESCAPED.sub("\0", _TIMES.sub("*", pattern.pattern)), ""
    while rest != before:
        rest, before = _GROUP.sub("\0", rest), rest
    if "|" in rest:
        return ""
    return max((found.replace("\\", "") for found in _WORDS.findall(rest)), key=len, default="")


def matrix_classes(instructions: Iterable[str], classes: Classes) -> Counter[str]:
    """``matrix.CLASS`` → how many of the matrix instructions are of it; ``other`` where none fits."""
    return Counter(f"matrix.{_class_of(name, classes)}" for name in instructions)


def _class_of(instruction: str, classes: Classes) -> str:
    return next((name for name, pattern in classes if pattern.search(instruction)), "other")
