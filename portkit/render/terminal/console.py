"""The console that commands write to: its width, and its characters where it has no Unicode."""

from __future__ import annotations

import os
from typing import IO, Any, Final

from rich.console import Console
from rich.segment import Segment

PIPED_WIDTH: Final = 120
"""Columns where nobody can tell how wide the reader is."""

_ASCII: Final = str.maketrans(
    {
        **{"✓": "+", "✗": "x", "–": "-", "—": "-", "…": "...", "·": "|", "→": "->", "−": "-"},
        **{"×": "x", "÷": "/", "±": "+-", "µ": "u", "≥": ">=", "≤": "<=", "†": "*", "│": "|", "─": "-", "²": "2"},
        **{"█": "#", "▌": "#"},
    }
)


def make_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """A console that writes texts as they are: no markup, no highlighting.

    Colours are rich's choice: on a terminal alone, none with ``NO_COLOR``. ``COLUMNS`` sets the width.

    Args:
        file: where to write; standard output by default.
        width: columns; those of the terminal by default, 120 without one.
    """
    console = Writer(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)
    if width is None and not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = PIPED_WIDTH
    return console


class Writer(Console):
    """Writes what the encoding has in place of what it has not, and no blanks at a line's end but on a terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's, but for the blanks."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        lines = captured.get().split("\n")
        self.file.write("\n".join(line.rstrip() for line in lines))

    @property
    def plain_characters(self) -> bool:
        """Whether only ASCII can be written."""
        return not self.encoding.lower().startswith("utf")

    def render(self, *arguments: Any, **options: Any) -> Any:
        """Segments, their characters in ASCII where the encoding has no others."""
        for segment in super().render(*arguments, **options):
            yield Segment(in_ascii(segment.text), segment.style, segment.control) if self.plain_characters else segment


def in_ascii(text: str) -> str:
    """A text with signs that ASCII has; letters that it has not stay, and become ``?`` when written.

    >>> in_ascii("2.5 × faster ✓ – on 3 µs")
    '2.5 x faster + - on 3 us'
    """
    return text.translate(_ASCII)
