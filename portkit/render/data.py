"""A comparison as JSON: everything at full precision, a row's fields under the names that CSV has, units in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.render.rows import fields
from portkit.store.schema import plain


def comparison_json(comparison: Comparison, findings: int | None = None, width: int | None = None) -> str:
    """All of a comparison; of what is None in a row its ``nulls`` say why."""
    del findings, width  # data is whole
    data = {**plain(replace(comparison, rows=())), "rows": [row_data(row) for row in comparison.rows]}
    return json.dumps(data, indent=1, allow_nan=False)


def row_data(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain values: the fields of CSV in their order, then what has no column there, ``nulls`` last."""
    names = {of: name for name, of in _attributes().items()}
    values = plain(row)
    nulls = {names.get(of, of): why for of, why in values.pop("nulls").items()}
    return {**{name: values.pop(of) for of, name in names.items()}, **values, "nulls": nulls}


def _attributes() -> Mapping[str, str]:
    """Field of CSV → attribute of a row that has its value; the shape is a list here."""
    return {**fields(), "shape": "shape"}
