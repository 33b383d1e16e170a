"""Cuts a record to the size of a line, and keeps what was cut in a blob.

A record is at most :data:`LIMIT` bytes, so that a merge of very many stays possible.
The cuts are tried in this order until the line fits:

1. ``outcome.message``, ``expected_reason`` and the reasons in ``nulls`` are cut to 400
   characters each; the whole texts are the blobs ``message``, ``expected_reason``, ``nulls``.
2. Input families that passed, but for ``nan`` and ``inf``, go to the blob ``families``.
3. The launches lose ``specialization``, ``constants``, ``options`` but for ``num_ctas``,
   ``raw`` and the limits of each resource; the whole launches are blob ``launches``.
4. Launches are left out, except those with the worst figure of a kind or a broken limit
   that no other shows; ``build.omitted_launches`` counts the rest. Of an autotuner's trials
   only those with a worst figure stay. Of configurations that failed the first stays;
   ``build.tuning.omitted_failed`` counts the others, and blob ``tuning`` has them.
5. ``variant_params`` of more than 256 bytes go to a blob of that name, and ``nulls`` says so;
   the texts of the first cut are cut to 80 characters.
6. ``asked``, ``baselines``, then ``verdict``, ``timing``, ``build`` and ``work`` go to a blob of their name,
   and ``nulls`` says so.
7. ``nulls`` as a whole, then ``blobs`` as a whole, go to a blob of their name.

So the figures that tables show survive the first five cuts, and all records fit whose names do.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from portkit.errors import ReportError
from portkit.model import NONFINITE_FAMILIES, Build, Launch, Record
from portkit.store.schema import encode, plain, storable

LIMIT: Final = 8192
"""Most bytes of a record's line, newline included."""

MESSAGE_CHARACTERS: Final = 400
BRIEF_CHARACTERS: Final = 80

_FAILED_CHARACTERS = 120  # of a reason why a configuration can't run
_SMALL_PARAMS = 256  # bytes of parameters that it is not worth to move

_MOVED = "too large for a record; whole in the blob {}"

StoreBlob = Callable[[str, bytes], str]


def encode_fitting(record: Record, store_blob: StoreBlob) -> tuple[Record, bytes]:
    """The record as it is kept, and its line of at most :data:`LIMIT` bytes.

    Raises:
        ReportError: the names of case, variant, target and shape alone are larger than that,
            or a field has not its type.
    """
    record = storable(record)
    line = encode(record)
    for cut in _cuts(record, store_blob):
        if len(line) <= LIMIT:
            return record, line
        record = cut(record)
        line = encode(record)
    if len(line) > LIMIT:
        raise ReportError(
            f"a record's names alone take {len(line)} bytes, {LIMIT} is the most",
            place=record.cell.label(record.evidence)[:MESSAGE_CHARACTERS],
            remedy="shorten the names of kernel and variant in the matrix",
        )
    return record, line


def _cuts(whole: Record, store_blob: StoreBlob) -> Iterator[Callable[[Record], Record]]:
    yield lambda record: _cut_texts(record, whole, MESSAGE_CHARACTERS, store_blob)
    yield lambda record: _cut_families(record, store_blob)
    yield lambda record: _cut_details(record, store_blob)
    yield lambda record: _omit_launches(record, store_blob)
    yield lambda record: _move_params(record, store_blob)
    yield lambda record: _cut_texts(record, whole, BRIEF_CHARACTERS, store_blob)
    for part in ("asked", "baselines", "verdict", "timing", "build", "work"):
        yield lambda record, part=part: _move_part(record, part, store_blob)  # type: ignore[misc]
    yield lambda record: _move_nulls(record, whole, store_blob)
    yield lambda record: _move_blobs(record, store_blob)


def _cut_texts(record: Record, whole: Record, most: int, store_blob: StoreBlob) -> Record:
    record = _cut_message(record, whole.outcome.message, most, store_blob)
    record = _cut_expected_reason(record, whole.expected_reason or "", most, store_blob)
    return _cut_nulls(record, whole.nulls, most, store_blob)


def _cut_message(record: Record, text: str, most: int, store_blob: StoreBlob) -> Record:
    if len(text) <= most:
        return record
    record = dataclasses.replace(record, outcome=dataclasses.replace(record.outcome, message=_shortened(text, most)))
    return _with_blob(record, "message", store_blob("message", text.encode()))


def _cut_expected_reason(record: Record, text: str, most: int, store_blob: StoreBlob) -> Record:
    if len(text) <= most:
        return record
    record = dataclasses.replace(record, expected_reason=_shortened(text, most))
    return _with_blob(record, "expected_reason", store_blob("expected_reason", text.encode()))


def _cut_nulls(record: Record, whole: Mapping[str, str], most: int, store_blob: StoreBlob) -> Record:
    cut = {part: _shortened(whole.get(part, reason), most) for part, reason in record.nulls.items()}
    if cut == record.nulls:
        return record
    return _with_blob(dataclasses.replace(record, nulls=cut), "nulls", store_blob("nulls", _json(whole)))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - 40].rstrip() + f" … ({len(text)} characters in all)"


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
        options={name: value for name, value in launch.options.items() if name in _OPTIONS_KEPT},
        resources=dataclasses.replace(launch.resources, raw={}),
        occupancy=dataclasses.replace(launch.occupancy, limits={}),
    )


_OPTIONS_KEPT = ("num_ctas",)  # the comparison asks for it


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
        lambda x: x.options.get("num_ctas") or 1,
    )
    worst = {places[id(max(launches, key=figure))] for figure in figures}
    first_broken = {text: places[id(x)] for x in reversed(build.counted) for text in x.limits_broken}
    return worst | set(first_broken.values())


def _with_launches(record: Record, build: Build, launches: tuple[Launch, ...]) -> Record:
    cut = dataclasses.replace(build, launches=launches)
    omitted = build.omitted_launches + build.launch_count - cut.launch_count
    return dataclasses.replace(record, build=dataclasses.replace(cut, omitted_launches=omitted))


def _move_part(record: Record, part: str, store_blob: StoreBlob) -> Record:
    value = getattr(record, part)
    if not value:
        return record
    record = _with_blob(record, part, store_blob(part, _json(value)))
    nulls = {**record.nulls, part: _MOVED.format(part)}
    emptied: dict[str, Any] = {part: {} if part in ("asked", "baselines", "variant_params") else None}
    return dataclasses.replace(record, nulls=nulls, **emptied)


def _move_params(record: Record, store_blob: StoreBlob) -> Record:
    small = len(_json(record.variant_params)) <= _SMALL_PARAMS
    return record if small else _move_part(record, "variant_params", store_blob)


def _move_nulls(record: Record, whole: Record, store_blob: StoreBlob) -> Record:
    """All reasons to a blob, those of the cuts among them."""
    address = store_blob("nulls", _json({**record.nulls, **whole.nulls}))
    return _with_blob(dataclasses.replace(record, nulls={"nulls": _MOVED.format("nulls")}), "nulls", address)


def _move_blobs(record: Record, store_blob: StoreBlob) -> Record:
    return dataclasses.replace(record, blobs={"blobs": store_blob("blobs", _json(record.blobs))})


def _with_blob(record: Record, name: str, address: str) -> Record:
    return dataclasses.replace(record, blobs={**record.blobs, name: address})


def _json(value: object) -> bytes:
    return json.dumps(plain(value), indent=1).encode()
