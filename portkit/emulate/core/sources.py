"""Lines of the kernel's source, from the ``.file`` and ``.loc`` directives that LLVM prints into assembly text."""

from __future__ import annotations

import re

LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+")
FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
FRAME = re.compile(r"([^\s\[\]@]+):(\d+):\d+")


class SourceLines:
    """Follows the directives of a text.

    Attributes:
        here: ``file:line`` of what comes, outermost frame; None before the first directive.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.here: str | None = None

    def file(self, line: str) -> None:
        """Take in a ``.file`` line."""
        if match := FILE.match(line):
            self.files[match[1]] = (match[3] or match[2]).rsplit("/", 1)[-1]

    def location(self, line: str, comment: str) -> None:
        """Take in a ``.loc`` line and its comment, in which LLVM lists the frames.

        The outermost frame counts: code of the standard library is shown where the kernel calls it.
        """
        frames = FRAME.findall(comment)
        if frames and frames[-1][1] != "0":
            self.here = f"{frames[-1][0].rsplit('/', 1)[-1]}:{frames[-1][1]}"
        elif not frames and (match := LOCATION.match(line)) and match[2] != "0":
            self.here = f"{self.files.get(match[1], match[1])}:{match[2]}"
