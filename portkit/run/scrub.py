"""Removes what identifies a user's machine from text that is stored."""

from __future__ import annotations

import re

_ABSOLUTE = re.compile(r"(?<![\w.:/])(?:/[\w.+@~=-]+){2,}")
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")


def scrub(text: str) -> str:
    """Shorten absolute paths: packages to their import path, others to the last two parts.

    >>> scrub('File "/home/ann/k/softmax.py", line 3')
    'File "k/softmax.py", line 3'
    >>> scrub("/opt/venv/lib/python3.11/site-packages/triton/compiler/code_generator.py:12")
    'triton/compiler/code_generator.py:12'
    """
    return _ABSOLUTE.sub(_shorten, text)


def tail(text: str, lines: int = 12) -> str:
    """The last lines that say something, scrubbed."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return scrub("\n".join(kept[-lines:]))


def _shorten(match: re.Match[str]) -> str:
    path = match[0]
    if _PACKAGES.match(path):
        return _PACKAGES.sub("", path)
    return "/".join(path.split("/")[-2:])
