"""The rows of a comparison as CSV: one line a row, every field at full precision.

Fields and their order are the same for every report. What is not known is empty, and the
last field has the reasons. A spreadsheet must not take text of a report for a formula.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Final

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.render.columns import field_text
from portkit.render.rows import fields
from portkit.store.schema import clean

_FORMULA: Final = ("=", "+", "-", "@", "\t")
"""How texts begin that spreadsheets compute (OWASP, CSV injection)."""


def comparison_csv(comparison: Comparison, findings: int | None = None, width: int | None = None) -> str:
    """The rows as CSV (RFC 4180, lines end in a newline alone), with a line of names first."""
    del findings, width  # they are no rows
    names = fields()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "nulls"])
    for row in comparison.rows:
        writer.writerow([*(_field(getattr(row, of)) for of in names.values()), _reasons(row)])
    return text.getvalue().removesuffix("\n")


def _reasons(row: ComparisonRow) -> str:
    """Why fields are empty, as JSON by the names of the fields."""
    named = {name: row.nulls[of] for name, of in fields().items() if of in row.nulls}
    return json.dumps(named, ensure_ascii=False, separators=(",", ":")) if named else ""


def _field(value: object) -> str:
    text = field_text(value)
    return inert(text) if isinstance(value, str) else text


def inert(text: str) -> str:
    r"""A text that a spreadsheet shows and does not compute.

    >>> inert("=1+1"), inert("softmax"), inert("\x1b[1m-2")
    ("'=1+1", 'softmax', "'-2")
    """
    shown = clean(text).replace("\r", "")
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
