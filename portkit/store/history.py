"""A history of nights: one Parquet file a run, in a folder or an object store.

A file is a :mod:`portkit.store.summary` with the versions of its run beside each row, so `portkit merge`
reads it too, and so does anything that reads Parquet. Files are written whole and never changed in
place, hence two hosts that add at once do not disturb each other, and a night that is added twice
is there once. Object stores are reached by Polars itself (``s3://``, ``gs://``, ``az://``, ``abfss://``),
with the variables or files that each one's own tools use.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from portkit.errors import ReportError
from portkit.model import Header
from portkit.store.journal import write_whole
from portkit.store.merge import Dataset
from portkit.store.summary import ENDING, SCHEMA, judged, misfits, summary

VERSIONS: Final = ("portkit", "torch", "driver", "toolkit")
"""What a run's host says beside Triton's version, which each row has."""

HISTORY_SCHEMA: Final[Mapping[str, type[pl.DataType]]] = {**SCHEMA, **dict.fromkeys(VERSIONS, pl.String)}
"""Column → type."""


class Kept(enum.StrEnum):
    """What became of a night that was added."""

    NEW = "new"
    FULLER = "fuller than the one that was there"
    THERE = "there already"


@dataclass(frozen=True)
class Added:
    """One night that was added."""

    run_id: str
    rows: int
    kept: Kept


def is_store(place: str) -> bool:
    """Whether a history is in an object store rather than a folder."""
    return "://" in place


@contextmanager
def reading(place: str) -> Iterator[None]:
    """What goes wrong while nights are read is one error, wherever Polars meets it.

    Raises:
        ReportError: a file is damaged, or the object store refuses or gives no answer.
    """
    try:
        yield
    except (PolarsError, OSError, PanicException) as error:  # a panic is a fault of Polars that damage brought about
        told = next(iter(str(error).splitlines()), "")[:500]
        remedy = (
            "set the variables that the object store's own tools take, such as AWS_REGION and AWS_ACCESS_KEY_ID"
            if is_store(place)
            else "remove the damaged file, and add its reports again"
        )
        raise ReportError(f"can't be read: {told}", place=place, remedy=remedy) from error


def add(place: str, dataset: Dataset) -> list[Added]:
    """Add every run of a dataset.

    Args:
        place: folder, made if absent, or the path of an object store.
        dataset: of merged reports.

    Returns:
        What became of each run, the oldest first.

    Raises:
        ReportError: the place can't be read or written.
    """
    rows = nights(dataset)
    there = _there(place)
    return [_add(place, header, rows.filter(pl.col("run_id") == header.run_id), there) for header in dataset.headers]


def nights(dataset: Dataset) -> pl.DataFrame:
    """Rows of :data:`HISTORY_SCHEMA`: every record of the merged reports."""
    versions = pl.DataFrame(
        [{"run_id": header.run_id, **_versions(header)} for header in dataset.headers],
        schema={"run_id": pl.String, **dict.fromkeys(VERSIONS, pl.String)},
    )
    return summary(dataset).join(versions, on="run_id", how="left")


def _versions(header: Header) -> dict[str, str | None]:
    host = header.host
    return {"portkit": header.portkit, "torch": host.torch, "driver": host.driver, "toolkit": host.toolkit}


def _add(place: str, header: Header, rows: pl.DataFrame, there: Mapping[str, int]) -> Added:
    before = there.get(header.run_id)
    kept = Kept.NEW if before is None else Kept.FULLER if rows.height > before else Kept.THERE
    if kept is not Kept.THERE:
        _write(place, f"{header.run_id}{ENDING}", rows)
    return Added(header.run_id, rows.height, kept)


def _there(place: str) -> dict[str, int]:
    """Runs that the history has, and the rows of each."""
    with reading(place):
        return dict(_scan(place).group_by("run_id").len().collect().rows())


def _write(place: str, name: str, rows: pl.DataFrame) -> None:
    try:
        if is_store(place):
            rows.write_parquet(f"{place.rstrip('/')}/{name}", compression="zstd")
        else:
            _write_file(Path(place), name, rows)
    except OSError as error:
        told = error.strerror or str(error).splitlines()[0][:200]
        raise ReportError(f"can't be written: {told}", place=place, remedy="name a place you may write to") from None


def _write_file(folder: Path, name: str, rows: pl.DataFrame) -> None:
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / name, content.getvalue())


def scan(place: str) -> pl.LazyFrame:
    """Every night of a history, judged but not yet read into memory.

    Raises:
        ReportError: there is none, or a file can't be read or is no night.
    """
    with reading(place):
        found = judged(_scan(place), place, HISTORY_SCHEMA)
        if found.select(pl.len()).collect().item():
            return found
    raise ReportError("no night is kept here", place=place, remedy="add one with `portkit history add REPORTS`")


def _scan(place: str) -> pl.LazyFrame:
    """All files; with the schema named, a place without any has no rows rather than no meaning."""
    schema = dict(HISTORY_SCHEMA)
    if is_store(place):
        return pl.scan_parquet(f"{place.rstrip('/')}/*{ENDING}", schema=schema, extra_columns="ignore")
    files = sorted(Path(place).glob(f"*{ENDING}"))
    for file in files:
        _check(file)
    return pl.scan_parquet(files, schema=schema, extra_columns="ignore") if files else pl.LazyFrame(schema=schema)


def _check(file: Path) -> None:
    """Refuse a file that is no night by its own name: of many files Polars does not say which it is."""
    with reading(str(file)):
        found = pl.read_parquet_schema(file)
    if wrong := misfits(found, HISTORY_SCHEMA):
        raise ReportError(
            f"is no night: it has no column {wrong[0]!r}, or one of another type",
            place=str(file),
            remedy="remove it, and add its reports again",
        )


def told(added: Sequence[Added]) -> Iterator[str]:
    """A line for each night that was added."""
    yield from (f"{each.run_id}: {each.rows} rows, {each.kept.value}" for each in added)
