"""All of one cell in sections, for a terminal and a page: every raw field with its unit or why it is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from portkit.analysis.rows import ComparisonRow
from portkit.analysis.views.raw import Field, raw_fields
from portkit.model import Record
from portkit.render.columns import NONE
from portkit.render.rows import fields
from portkit.store.merge import Row

PARTS: Final = ("outcome", "build", "verdict", "timing", "baselines", "work", "asked")
"""Parts of a record that have a heading of their own."""

_HEAD: Final = (
    *("run_id", "keys", "cell", "evidence", "host_id", "device_id", "triton", "architecture"),
    *("variant_params", "expected", "expected_reason", "seconds", "schema"),
)

Section = tuple[str, Iterable[Field]]
"""A heading and what stands under it."""


def figures(row: ComparisonRow) -> Section:
    """What the tables show of a row, and what they work out of it."""
    shown = {of: getattr(row, of) for of in fields().values() if of in row.nulls or _is_figure(row, of)}
    roofline = {"roofline": row.roofline} if row.roofline else {}
    return "figures", raw_fields({**shown, **roofline}, row.nulls)


def _is_figure(row: ComparisonRow, name: str) -> bool:
    value = getattr(row, name)
    return isinstance(value, float | int) and not isinstance(value, bool) and name != "seconds"


def sections(row: Row) -> Iterator[Section]:
    """A cell's record and counters; its host and its device are told elsewhere."""
    record, nulls = row.record, _reasons(row.record)
    yield "record", _of(record, _HEAD, nulls)
    for part in PARTS:
        yield part, _without_prefix(raw_fields(getattr(record, part), nulls, part), part)
    if row.counters:
        yield "counters", raw_fields(row.counters, row.counters.nulls)
    yield "other reasons", (Field(name, why, "", None) for name, why in record.nulls.items())
    yield "runs of the cell", (Field(each.run_id, each.outcome.status.value, "", None) for each in row.other_runs)


def _reasons(record: Record) -> Mapping[str, str]:
    """Why fields are unknown; those of a baseline that was not good for that reason."""
    bad = {name: found for name, found in record.baselines.items() if not found.status.good}
    return {**{f"baselines.{name}": f"{found.status}: {found.message}" for name, found in bad.items()}, **record.nulls}


def _of(value: Any, names: Sequence[str], nulls: Mapping[str, str]) -> Iterator[Field]:
    for name in names:
        yield from raw_fields(getattr(value, name), nulls, name)


def _without_prefix(found: Iterable[Field], prefix: str) -> Iterator[Field]:
    """Fields under a heading that says the first part of their path."""
    above = f"{prefix}."
    for path, value, unit, reason in found:
        yield Field(path.removeprefix(above) if path != prefix else NONE, value, unit, reason)
