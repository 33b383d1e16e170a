"""Cuts a record to the size of a line, and keeps what was cut in a blob.

A record is at most :data:`LIMIT` bytes, so that a merge of very many stays possible.
The cuts are tried in this order until the line fits:

1. ``outcome.message`` and the reasons in ``nulls`` are cut to 400 characters each; the
   whole texts are the blobs ``message`` and ``nulls``.
2. Input families that passed, but for ``nan`` and ``inf``, go to the blob ``families``.
3. The launches lose ``specialization``, ``constants``, ``options``, ``raw`` and the limits
   of each resource; the whole launches are blob ``launches``.
4. Launches are left out, except those with the worst figure of a kind or a broken limit
   that no other shows; ``build.omitted_launches`` counts the rest. Of an autotuner's trials
   only those with a worst figure stay. Of configurations that failed the first stays;
   ``build.tuning.omitted_failed`` counts the others, and blob ``tuning`` has them.
5. ``asked``, then ``verdict``, ``timing`` and ``build`` go to a blob of their name, and
   ``nulls`` says so.

So the figures that tables show survive all but the last cut.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from portkit.errors import ReportError
from portkit.model import NONFINITE_FAMILIES, Build, Launch, Record
from portkit.store.schema import encode, plain

LIMIT: Final = 4096
"""Most bytes of a record's line, newline included."""

MESSAGE_CHARACTERS: Final = 400

_FAILED_CHARACTERS = 120  # of a reason why a configuration can't run

StoreBlob = Callable[[str, bytes], str]


def encode_fitting(record: Record, store_blob: StoreBlob) -> tuple[Record, bytes]:
    """The record as it is kept, and its line of at most :data:`LIMIT` bytes.

    Raises:
        ReportError: the names and parameters alone are larger than that.
    """
    line = encode(record)
    for cut in _cuts(store_blob):
        if len(line) <= LIMIT:
            return record, line
        record = cut(record)
        line = encode(record)
    if len(line) > LIMIT:
        raise ReportError(
            f"a record's names and parameters alone take {len(line)} bytes, {LIMIT} is the most",
            place=record.cell.label(record.evidence),
            remedy="shorten the variant's parameters or the reasons in the matrix",
        )
    return record, line


def _cuts(store_blob: StoreBlob) -> Iterator[Callable[[Record], Record]]:
    yield lambda record: _cut_message(record, store_blob)
    yield lambda record: _cut_nulls(record, store_blob)
    yield lambda record: _cut_families(record, store_blob)
    yield lambda record: _cut_details(record, store_blob)
    yield lambda record: _omit_launches(record, store_blob)
    for part in ("asked", "verdict", "timing", "build"):
        yield lambda record, part=part: _move_part(record, part, store_blob)  # type: ignore[misc]


def _cut_message(record: Record, store_blob: StoreBlob) -> Record:
    text = record.outcome.message
    if len(text) <= MESSAGE_CHARACTERS:
        return record
    record = dataclasses.replace(record, outcome=dataclasses.replace(record.outcome, message=_shortened(text)))
    return _with_blob(record, "message", store_blob("message", text.encode()))


def _cut_nulls(record: Record, store_blob: StoreBlob) -> Record:
    cut = {part: _shortened(reason) for part, reason in record.nulls.items()}
    if cut == record.nulls:
        return record
    address = store_blob("nulls", _json(record.nulls))
    return _with_blob(dataclasses.replace(record, nulls=cut), "nulls", address)


def _shortened(text: str) -> str:
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return text[: MESSAGE_CHARACTERS - 40].rstrip() + f" … ({len(text)} characters in all)"


def _cut_families(record: Record, store_blob: StoreBlob) -> Record:
    if record.verdict is None or not record.verdict.families:
        return record
    families = record.verdict.families
    record = _with_blob(record, "families", store_blob("families", _json(families)))
    telling = {
        name: line
        for name, line in families.items()
        if name in NONFINITE_FAMILIES or not (line.status.good and line.nonfinite_agree)
    }
    nulls = {**record.nulls, "verdict.families": "those that passed are in the blob families"}
    assert record.verdict is not None
    return dataclasses.replace(record, nulls=nulls, verdict=dataclasses.replace(record.verdict, families=telling))


def _cut_details(record: Record, store_blob: StoreBlob) -> Record:
    if record.build is None:
        return record
    record = _with_blob(record, "launches", store_blob("launches", _json(record.build.launches)))
    assert record.build is not None
    return _with_launches(record, record.build, tuple(_bare(launch) for launch in record.build.launches))


def _bare(launch: Launch) -> Launch:
    return dataclasses.replace(
        launch,
        specialization={},
        constants={},
        options={},
        resources=dataclasses.replace(launch.resources, raw={}),
        occupancy=dataclasses.replace(launch.occupancy, limits={}),
    )


def _omit_launches(record: Record, store_blob: StoreBlob) -> Record:
    if record.build is None:
        return record
    telling = _telling_launches(record.build)
    record = _cut_tuning(record, record.build, store_blob)
    assert record.build is not None
    return _with_launches(record, record.build, tuple(x for i, x in enumerate(record.build.launches) if i in telling))


def _cut_tuning(record: Record, build: Build, store_blob: StoreBlob) -> Record:
    """Keep one of the configurations that failed."""
    tuning = build.tuning
    if tuning is None or not tuning.failed:
        return record
    text, why = next(iter(tuning.failed.items()))
    cut = dataclasses.replace(
        tuning,
        failed={text: why[:_FAILED_CHARACTERS]},
        omitted_failed=tuning.omitted_failed + len(tuning.failed) - 1,
    )
    record = dataclasses.replace(record, build=dataclasses.replace(build, tuning=cut))
    return _with_blob(record, "tuning", store_blob("tuning", _json(tuning)))


def _telling_launches(build: Build) -> set[int]:
    """Positions of the launches that decide a worst figure, or alone show a broken limit."""
    places = {id(x): i for i, x in enumerate(build.launches)}
    launches = build.candidates
    if not launches:
        return set()
    figures: tuple[Callable[[Launch], float], ...] = (
        lambda x: x.resources.registers_per_thread,
        lambda x: x.resources.spill_bytes_per_thread,
        lambda x: x.resources.shared_bytes_per_block,
        lambda x: x.resources.threads_per_block,
        lambda x: -x.occupancy.percent,
    )
    worst = {places[id(max(launches, key=figure))] for figure in figures}
    first_broken = {text: places[id(x)] for x in reversed(build.counted) for text in x.limits_broken}
    return worst | set(first_broken.values())


def _with_launches(record: Record, build: Build, launches: tuple[Launch, ...]) -> Record:
    cut = dataclasses.replace(build, launches=launches)
    omitted = build.omitted_launches + len(build.counted) - len(cut.counted)
    return dataclasses.replace(record, build=dataclasses.replace(cut, omitted_launches=omitted))


def _move_part(record: Record, part: str, store_blob: StoreBlob) -> Record:
    value = getattr(record, part)
    if not value:
        return record
    record = _with_blob(record, part, store_blob(part, _json(value)))
    nulls = {**record.nulls, part: f"too large for a record; whole in the blob {part}"}
    emptied: dict[str, Any] = {part: {} if part == "asked" else None}
    return dataclasses.replace(record, nulls=nulls, **emptied)


def _with_blob(record: Record, name: str, address: str) -> Record:
    return dataclasses.replace(record, blobs={**record.blobs, name: address})


def _json(value: object) -> bytes:
    return json.dumps(plain(value), indent=1).encode()
