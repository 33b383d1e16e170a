"""Reads the tables of Nsight Compute's ``--csv``.

Two layouts, told apart by their columns. ``--page raw`` is wide: names of metrics in the
first row, units in the second, then a row a kernel. ``--page details`` is long: a row a
kernel and metric. Either may follow the tool's own lines and what the program printed.

``n/a`` is no value, numbers have commas between thousands, and columns are matched by name.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from portkit.run.counters import Kernel, Table

_NUMBER = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.I)

_UNITS: Final[Mapping[str, float]] = {
    "s": 1e9,
    "second": 1e9,
    "ms": 1e6,
    "msecond": 1e6,
    "us": 1e3,
    "usecond": 1e3,
    "ns": 1.0,
    "nsecond": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "Tbyte": 1e12,
}
"""Unit → base units in it, which are ns and byte; what is not here is taken as it is."""

_ABOUT_THE_ROW: Final = frozenset({"ID", "Process ID", "Process Name", "Host Name", "Context", "Stream", "Device"})
"""Columns that say nothing of the kernel, and some of them of the host."""

_LONG: Final = ("Metric Name", "Metric Unit", "Metric Value")
_NO_VALUE: Final = frozenset({"", "n/a", "nan", "inf", "-inf"})
_LEFT_OUT: Final = re.compile(
    r"^(device|nvlink|numa|c2clink|pcie)__|^(?!sm__cycles_(active|elapsed)\.max$).*\.(min|max)(\.|$)|\.avg$"
)
"""Metrics of the device, and those that ncu adds to each that is asked for."""
_RANGES: Final = ":Push/Pop_Range:"  # in the name of the column that has them
_RANGE = re.compile(r":(\d+\.\d+\.\d+):")


def parse(text: str) -> Table | None:
    """The table in the output of ``ncu --csv``.

    Args:
        text: all that the tool wrote.

    Returns:
        Its kernels, with the range of each where the table names them. A row that is cut off
        is left out, and the table is then not whole. None where no table begins.
    """
    start = re.search(r'^"ID",.*\n', text, re.M)
    if start is None:
        return None
    body = text[start.start() :]
    csv.field_size_limit(max(csv.field_size_limit(), len(body)))  # a quote that nothing closes takes in all the rest
    header, *rows = csv.reader(io.StringIO(body[: body.rfind("\n") + 1]))
    rows = [row for row in rows if row and not row[0].startswith("==")]  # the tool may have a last word
    is_long = set(_LONG) <= set(header)
    needed = header.index(_LONG[-1]) + 1 if is_long else len(header)  # rows of the long layout end early
    full = [row for row in rows if len(row) >= needed]
    read = _long if is_long else _wide
    return Table(tuple(read(header, full)), whole=body.endswith("\n") and len(full) == len(rows))


def _wide(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Kernel]:
    if not rows:
        return
    units, *kernels = rows
    about = [(position, name) for position, name in enumerate(header) if "__" not in name]
    metrics = [(position, name) for position, name in enumerate(header) if "__" in name and not _LEFT_OUT.search(name)]
    for row in kernels:
        fields = {name: row[position] for position, name in about}
        yield _kernel(fields, {name: _value(row[position], units[position]) for position, name in metrics})


def _long(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Kernel]:
    lines = [dict(zip(header, row, strict=False)) for row in rows]
    by_kernel: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        by_kernel.setdefault(line["ID"], []).append(line)
    name, unit, value = _LONG
    for own in by_kernel.values():
        yield _kernel(own[0], {line[name]: _value(line[value], line[unit]) for line in own if line[name]})


def _kernel(fields: Mapping[str, str], metrics: Mapping[str, float | str | None]) -> Kernel:
    about = {n: text for n, text in fields.items() if n not in _ABOUT_THE_ROW and "__" not in n and ":" not in n}
    name = about.pop("Kernel Name", "")
    for column in (*_LONG, "Section Name"):
        about.pop(column, None)
    known = {n: v for n, v in metrics.items() if v is not None and not _LEFT_OUT.search(n)}
    return Kernel(_range(fields), name, known, {n: text for n, text in about.items() if text})


def _range(fields: Mapping[str, str]) -> str:
    """Range of ours, which lies within one named after the project."""
    stacks = [text for column, text in fields.items() if _RANGES in column]
    found = [match for text in stacks for match in _RANGE.findall(text)]
    return found[0] if found else ""  # the function may open ranges of its own within


def _value(text: str, unit: str) -> float | str | None:
    text = text.strip()
    if text.lower() in _NO_VALUE:
        return None
    if _NUMBER.fullmatch(text) is None:
        return text
    value = float(text.replace(",", "")) * _UNITS.get(unit.partition("/")[0], 1.0)
    return value if math.isfinite(value) else None
