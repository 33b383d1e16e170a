"""The side of ``portkit merge`` that works on summaries: Parquet in, Parquet or a table out."""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from portkit.errors import ReportError, nearest
from portkit.model import Evidence
from portkit.store.columnar import merged
from portkit.store.merge import merge
from portkit.store.summary import ENDING, damage_named, scan, summary


def is_summary(path: Path | None) -> bool:
    """Whether the name is one of a summary."""
    return path is not None and path.suffix.lower() == ENDING


def summaries(paths: Sequence[Path]) -> pl.LazyFrame:
    """The rows of summaries and, made anew, of reports.

    Raises:
        ReportError: one can't be read.
    """
    reports = [path for path in paths if not is_summary(path)]
    rows = [summary(merge(reports)).lazy()] if reports else []
    files = [path for path in paths if is_summary(path)]
    return pl.concat([*rows, *([scan(files)] if files else [])])


def merged_summaries(paths: Sequence[Path], triton: str | None, kernels: str, targets: str) -> pl.DataFrame:
    """The merge of summaries and reports, of the kernels and targets that were chosen.

    Raises:
        ReportError: one can't be read, or nothing has a chosen name.
    """
    with damage_named(path for path in paths if is_summary(path)):
        rows = merged(summaries(paths), triton)
    return _choose(_choose(rows, "case", kernels), "target", targets)


def compacted(paths: Sequence[Path]) -> bytes:
    """All rows once, as a Parquet file.

    Raises:
        ReportError: one can't be read.
    """
    with damage_named(path for path in paths if is_summary(path)):
        return parquet(summaries(paths).unique().sort("run_id", "cell_key", "evidence").collect())


def missing(rows: pl.DataFrame, expected: Sequence[str]) -> list[str]:
    """Of the targets that must have a row those that have none; ``h200:measured`` asks for that evidence."""
    found = rows.filter(~pl.col("skipped")).select("target", "evidence").unique()
    return [each for each in expected if not _meeting(found, each)]


def _meeting(found: pl.DataFrame, asked: str) -> bool:
    name, _, evidence = asked.partition(":")
    if evidence and evidence not in set(Evidence):
        raise ReportError(f"no evidence is named {evidence!r}", place="--expect", remedy=nearest(evidence, Evidence))
    of_target = found.filter(pl.col("target") == name)
    return of_target.filter(pl.col("evidence") == evidence).height > 0 if evidence else of_target.height > 0


def _choose(rows: pl.DataFrame, column: str, patterns: str) -> pl.DataFrame:
    chosen = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    if not chosen:
        return rows
    known = rows[column].unique().to_list()
    names = [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in chosen)]
    if not names:
        raise ReportError(f"no row of a {column} {patterns!r}", remedy=nearest(chosen[0], known))
    return rows.filter(pl.col(column).is_in(names))


def parquet(rows: pl.DataFrame) -> bytes:
    """The rows as a Parquet file."""
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    return content.getvalue()
