"""What the tables of a comparison share: columns, notes, the forms of figures, two layouts."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

NONE: Final = "–"
"""What stands for a figure that is not known or does not apply."""

WIDE: Final = 158
"""Characters of a line of text where no terminal says how many it has."""

Row = TypeVar("Row")


class Notes:
    """Numbers the reasons as the tables first mention them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """The mark of a reason, a space before it."""
        return f" [{self._numbers.setdefault(one_line(text), len(self._numbers) + 1)}]"

    def numbered(self) -> Iterable[tuple[int, str]]:
        """All reasons with their numbers, in order."""
        return ((number, text) for text, number in self._numbers.items())


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table for people, and the fields for programs that it is made of."""

    head: tuple[str, str, str]  # lines, with the unit
    cell: Callable[[Row, Notes], str]
    right: bool = False
    spare: int = 0  # where room is short, columns go by falling spare; those of 0 stay
    fields: Mapping[str, str] = field(default_factory=dict)  # name, with its unit → attribute of the row

    @property
    def name(self) -> str:
        """The head in one line."""
        return " ".join(self.head).strip()


def github_table(columns: Sequence[Column[Row]], rows: Sequence[Row], notes: Notes) -> str:
    """The table in GitHub's Markdown."""
    as_shown = functools.cache(escaped)  # most cells are like another: each text is looked at, and kept, once
    body = [
        [column.name for column in columns],
        *([as_shown(column.cell(row, notes)) for column in columns] for row in rows),
    ]
    head, *lines = _aligned(columns, body, ("| ", " | ", " |"))
    rule = "|".join(["", *("-" * (width + 2) for width in _widths(body)), ""])
    return "\n".join([head, rule, *lines])


def _aligned(
    columns: Sequence[Column[Row]], body: Sequence[Sequence[str]], edges: tuple[str, str, str]
) -> Iterator[str]:
    """Lines of cells, as wide as the widest of their column.

    Not tabulate's: of a million cells it takes most of a merge's time and memory, since it looks for a number in each
    though it is told that there is none.
    """
    left, between, right = edges
    signs = (">" if column.right else "<" for column in columns)
    fields = (f"{{:{sign}{width}}}" for sign, width in zip(signs, _widths(body), strict=True))
    line = f"{left}{between.join(fields)}{right}"
    return (line.format(*cells) for cells in body)


def _widths(body: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(*body, strict=True)]


def plain_table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    group: Callable[[Row], str],
    notes: Notes,
    width: int | None = None,
    elsewhere: str = "a file (-o)",
) -> str:
    """The table for a terminal, with a line of ``group`` before the rows that share it.

    Where the terminal is narrower than the table, the columns that can be spared are left out
    and named below it, with what has them all (``elsewhere``).
    """
    kept = _fitting(columns, rows, width)
    body = _cells(kept, rows, notes)
    heads = [line for line in zip(*(column.head for column in kept), strict=True) if any(line)]
    lines = list(_aligned(kept, [*heads, *body], ("", " " * _GAP, "")))
    out = [*lines[: len(heads)], "-" * max(map(len, lines))]
    previous = ""
    for row, line in zip(rows, lines[len(heads) :], strict=True):
        if (text := group(row)) != previous:
            out += [*([""] if previous else []), text]
            previous = text
        out.append(line.rstrip())
    return "\n".join([*out, *_left_out(columns, kept, width, elsewhere)])


def _cells(columns: Sequence[Column[Row]], rows: Sequence[Row], notes: Notes) -> list[list[str]]:
    return [[column.cell(row, notes).replace("\n", " ") for column in columns] for row in rows]


def _fitting(columns: Sequence[Column[Row]], rows: Sequence[Row], width: int | None) -> list[Column[Row]]:
    """The columns that a terminal has room for, the most spare left out first."""
    kept = list(columns)
    if width is None:
        return kept
    cells = zip(*_cells(columns, rows, Notes()), strict=True) if rows else iter([()] * len(columns))
    widths = [max(map(len, (*column.head, *of_it))) for column, of_it in zip(columns, cells, strict=True)]
    for place in sorted(range(len(columns)), key=lambda place: -columns[place].spare):
        room = sum(widths[columns.index(column)] + _GAP for column in kept) - _GAP
        if room <= width or not columns[place].spare:
            break
        kept.remove(columns[place])
    return kept


_GAP: Final = 2  # between columns


def _left_out(
    columns: Sequence[Column[Row]], kept: Sequence[Column[Row]], width: int | None, elsewhere: str
) -> Iterable[str]:
    names = [" ".join(" ".join(column.head).split()) for column in columns if column not in kept]
    if names:
        text = f"left out for want of room: {', '.join(names)}; a wider terminal or {elsewhere} has them"
        yield wrapped([text], width)


def wrapped(texts: Iterable[str], width: int | None = None) -> str:
    """Texts broken into lines that a terminal of this width has room for, a paragraph each."""
    most = min(width or WIDE, WIDE)
    return "\n".join(textwrap.fill(text, most, subsequent_indent="  ", break_long_words=False) for text in texts)


def field_text(value: object) -> str:
    """A field as data: full precision, nothing for what is not known."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def whole(value: float) -> str:
    """A figure without decimals."""
    return f"{value:.0f}"


def decimals(value: float) -> str:
    """A figure with two decimals."""
    return f"{value:.2f}"


def milliseconds(value: float) -> str:
    """A time with four digits."""
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def percent(value: float) -> str:
    """A share of 1 in percent."""
    return f"{100 * value:.0f}"


def over_limit(value: float) -> str:
    """An error in units of its limit."""
    return f"{value:.2f}" if value >= 0.01 or value == 0 else "<0.01"


def one_line(text: str) -> str:
    """A text on one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "…"


def escaped(text: str) -> str:
    r"""A text that a Markdown page shows as it is: it breaks no table, and makes no markup, link, image or code.

    >>> print(escaped("<b>|[x](http://y)` <0.01 &lt;"))
    &lt;b>\|[x]\(http://y)\` <0.01 &amp;lt;
    """
    plain = _TAG.sub("&lt;", _ENTITY.sub("&amp;", text)).replace("\n", " ")
    return plain.replace("|", r"\|").replace("](", r"]\(").replace("`", r"\`")


_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
