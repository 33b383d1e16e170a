"""The merge of summaries: the rules of :mod:`portkit.store.merge` over columns, for millions of rows.

Two passes: the first reads the columns that decide, and finds for each cell and evidence the
row that is shown and the spread of its repetitions; the second reads the rows that are shown.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from portkit.errors import ReportError
from portkit.store.alike import CLOCK_TOLERANCE
from portkit.store.merge import in_order, version_of

CELL: Final = ("cell_key", "evidence")

_DECIDES: Final = (
    *("row", "run_id", "started", "partial", "source_hash", "version_set", "by_toolchain", "triton", "node"),
    *(*CELL, "timed", "flushed", "throttled", "sm_clock_mhz", "events_median_ms", "trace_median_ms"),
)

_OF_SHOWN: Final = ("source_hash", "version_set", "timed", "flushed", "throttled", "sm_clock_mhz")
"""What a row must share with the one that is shown to be a repetition of it."""


def merged(summaries: pl.LazyFrame, triton: str | None = None) -> pl.DataFrame:
    """One row for each cell and evidence that the table shows.

    Args:
        summaries: rows of :data:`portkit.store.summary.SCHEMA`; a run given twice counts once.
        triton: version whose compiled and emulated rows are shown; the newest by default.

    Returns:
        The columns of the row that is shown, and ``older_source``, ``runs`` and ``nodes`` (repetitions, it
        included), ``clock`` (that the spread is on), ``run_low_ms``, ``run_high_ms`` (over all
        repetitions), ``node_low_ms``, ``node_high_ms`` (over the medians of nodes), ``apart`` (other runs that
        are no repetitions); sorted by case, shape, dtype, variant, direction, target and evidence.

    Raises:
        ReportError: two rows of one run and cell differ, or no row is of that Triton.
    """
    numbered = summaries.with_row_index("row")
    deciding = _without_copies(numbered.select(_DECIDES).collect(engine="streaming"))
    ranked = _ranked(deciding, _triton_of_the_table(deciding, triton))
    shown = _shown(ranked)
    found = shown.join(_spread(ranked, shown), on=CELL, how="left")
    extra = found.select("row", "older_source", "runs", "nodes", "clock", *_SPREAD, "apart")
    return numbered.join(extra.lazy(), on="row").drop("row").sort(_ORDER, nulls_last=False).collect(engine="streaming")


_SPREAD: Final = ("run_low_ms", "run_high_ms", "node_low_ms", "node_high_ms")
_ORDER: Final = ("case", "shape", "dtype", "variant", "direction", "target", "partition", "evidence", "cell_key")


def _without_copies(rows: pl.DataFrame) -> pl.DataFrame:
    """Each run, cell and evidence once.

    Raises:
        ReportError: two of one differ.
    """
    identity = ["run_id", *CELL]
    once = rows.unique(subset=[name for name in rows.columns if name != "row"], keep="first", maintain_order=True)
    twice = once.filter(pl.struct(identity).is_duplicated())
    if twice.height:
        raise ReportError(
            f"two different rows of one run and cell, {twice['run_id'][0]} and {twice['cell_key'][0]}",
            place="summaries",
            remedy="keep the summary that was made of the report from the host",
        )
    return once


def _triton_of_the_table(rows: pl.DataFrame, asked: str | None) -> str | None:
    known: list[str | None] = rows.filter("by_toolchain")["triton"].unique().to_list()
    if asked is not None and asked not in known:
        raise ReportError(
            f"no compiled or emulated row is of Triton {asked}",
            place="--triton",
            remedy=f"name one of {', '.join(in_order(known)) or 'none: no such rows'}",
        )
    return asked or max(known, key=version_of, default=None)


def _ranked(rows: pl.DataFrame, triton: str | None) -> pl.DataFrame:
    """With ``rank`` (the greatest of a cell is shown), ``newest_source`` and ``of_table``."""
    runs = rows.select("started", "run_id").unique().sort("started", "run_id").with_row_index("run_rank")
    versions = in_order(rows["triton"].unique().to_list())
    order = pl.DataFrame({"triton": versions, "version": range(1, len(versions) + 1)}, schema_overrides=_RANKS)
    rows = rows.join(runs, on=["started", "run_id"]).join(order, on="triton", how="left")
    newest = rows.group_by("cell_key").agg(pl.col("source_hash").sort_by("run_rank").last().alias("newest_source"))
    of_table = pl.col("by_toolchain") & pl.col("triton").eq_missing(pl.lit(triton, dtype=pl.String))
    return rows.join(newest, on="cell_key").with_columns(
        of_table.alias("of_table"),
        pl.struct(
            of_table.alias("1"),
            (pl.col("source_hash") == pl.col("newest_source")).alias("2"),
            pl.when("by_toolchain").then(pl.col("version").fill_null(0)).otherwise(0).alias("3"),
            (~pl.col("partial")).alias("4"),
            pl.col("run_rank").alias("5"),
        )
        .rank("dense")
        .alias("rank"),
    )


_RANKS: Final = {"triton": pl.String, "version": pl.UInt32}


def _shown(rows: pl.DataFrame) -> pl.DataFrame:
    """The row of each cell and evidence that the table shows, without what is drift alone."""
    best = rows.filter(pl.col("rank") == pl.col("rank").max().over(CELL))
    measured = best.filter(pl.col("evidence") == "measured").select("cell_key", pl.col("triton").alias("beside"))
    best = best.join(measured, on="cell_key", how="left").with_columns(
        (pl.col("source_hash") != pl.col("newest_source")).alias("older_source")
    )
    alone = ~pl.col("cell_key").is_in(measured["cell_key"].implode())
    fits = pl.col("of_table") & (alone | pl.col("triton").eq_missing(pl.col("beside")))
    return best.filter(~pl.col("by_toolchain") | fits)


def _spread(rows: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
    """Repetitions of each row that is shown, and the spread of their times."""
    like = shown.select(*CELL, *(pl.col(name).alias(f"{name}_shown") for name in _OF_SHOWN))
    joined = rows.join(like, on=CELL).with_columns(_alike().alias("alike"))
    apart = joined.group_by(CELL).agg((~pl.col("alike")).sum().alias("apart"))
    alike = joined.filter("alike").with_columns(
        pl.when(pl.col("trace_median_ms").is_not_null().all().over(CELL))
        .then(pl.lit("trace"))
        .otherwise(pl.lit("events"))
        .alias("clock")
    )
    on_trace = pl.col("clock") == "trace"
    timed = alike.with_columns(
        pl.when(on_trace).then("trace_median_ms").otherwise("events_median_ms").alias("time"),
    )
    return timed.group_by(CELL).agg(*_RUNS).join(_nodes(timed), on=CELL).join(apart, on=CELL)


_RUNS: Final = (
    pl.len().alias("runs"),
    pl.when(pl.col("time").first().is_not_null()).then(pl.col("clock").first()).alias("clock"),
    pl.col("time").min().alias("run_low_ms"),
    pl.col("time").max().alias("run_high_ms"),
)


def _nodes(timed: pl.DataFrame) -> pl.DataFrame:
    medians = timed.group_by(*CELL, "node").agg(pl.col("time").median())
    return medians.group_by(CELL).agg(
        pl.len().alias("nodes"),
        pl.col("time").min().alias("node_low_ms"),
        pl.col("time").max().alias("node_high_ms"),
    )


def _alike() -> pl.Expr:
    """Whether a row repeats the one that is shown; the rules of :func:`portkit.store.alike.why_apart`."""

    def same(name: str) -> pl.Expr:
        return pl.col(name).eq_missing(pl.col(f"{name}_shown"))

    clock, shown = pl.col("sm_clock_mhz"), pl.col("sm_clock_mhz_shown")
    near = ((clock - shown).abs() <= CLOCK_TOLERANCE * shown).fill_null(value=True)
    return same("source_hash") & same("version_set") & same("timed") & same("flushed") & same("throttled") & near
