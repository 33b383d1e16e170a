"""Recorded results of single instructions: the file that holds them, and how others are held against it.

A recording is a zip archive: ``header.json`` (format, version, origin, probes, the SHA-256 of every other member),
``header.sha256``, and NumPy arrays of 32-bit words ``operands/<key>.npy`` and ``results/<probe>.npy``, a row a lane.
What a probe's lines mean is the instruction set's affair; nothing here knows of one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from portkit.emulate.core.bytestore import Words
from portkit.errors import VectorsError

FORMAT, VERSION = "portkit instruction vectors", 1
EMULATOR = "instruction interpreter of portkit"
"""Name of the device of a recording that no hardware made."""

_HEADER, _SUM = "header.json", "header.sha256"
_REMEDY = "record it again: portkit selftest --isa-vectors FILE"


@dataclass(frozen=True)
class Origin:
    """Who computed the results."""

    isa: str  # such as ``amdgcn``
    architecture: str  # such as ``gfx942``
    device: str
    emulated: bool  # no hardware: a test of the way from kernel to file, and of nothing else
    driver: str | None
    triton: str | None
    portkit: str


@dataclass(frozen=True)
class Probe:
    """One instruction under test, with the lines around it that lay out its operands and results."""

    name: str
    mnemonic: str
    lines: tuple[str, ...]
    sources: tuple[str, ...]  # kinds of the operands, which lie one behind the other
    results: tuple[str, ...]  # kinds of the results, likewise

    @property
    def operands(self) -> str:
        """Key of the operands: probes with sources of the same kinds share them."""
        return "-".join(self.sources)


@dataclass(frozen=True)
class Recording:
    """What one device computed."""

    origin: Origin
    probes: tuple[Probe, ...]
    operands: Mapping[str, Words]  # key → ``[rows, words]``
    results: Mapping[str, Words]  # name of the probe → ``[rows, words]``
    refused: Mapping[str, str] = field(default_factory=dict)  # name of a probe → why there are no results


def write(path: Path, recording: Recording) -> None:
    """Write a recording.

    Raises:
        VectorsError: the file can't be written.
    """
    members = {f"operands/{key}.npy": _packed(words) for key, words in recording.operands.items()}
    members |= {f"results/{name}.npy": _packed(words) for name, words in recording.results.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "origin": asdict(recording.origin),
        "probes": [asdict(probe) for probe in recording.probes],
        "refused": dict(recording.refused),
        "sha256": {name: _digest(content) for name, content in members.items()},
    }
    members[_HEADER] = json.dumps(header, indent=1).encode()
    members[_SUM] = _digest(members[_HEADER]).encode()
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    except OSError as error:
        raise VectorsError(f"can't be written: {error.strerror}", place=str(path)) from None


def read(path: Path) -> Recording:
    """Read a recording.

    Raises:
        VectorsError: the file is missing, of another format or version, or damaged.
    """
    members = _members(path)
    if _digest(members.get(_HEADER, b"")).encode() != members.get(_SUM):
        raise VectorsError("the checksum of the header is wrong", place=str(path), remedy=_REMEDY)
    header = json.loads(members[_HEADER])
    if header.get("format") != FORMAT:
        raise VectorsError("holds no instruction vectors", place=str(path), remedy=_REMEDY)
    if header["version"] != VERSION:
        message = f"version {header['version']} of the format, where this portkit reads version {VERSION}"
        raise VectorsError(message, place=str(path), remedy=f"use the portkit that wrote it, or {_REMEDY}")
    for name, digest in header["sha256"].items():
        if _digest(members.get(name, b"")) != digest:
            raise VectorsError(f"the checksum of {name} is wrong", place=str(path), remedy=_REMEDY)
    return _recording(path, header, members)


def _members(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except FileNotFoundError:
        raise VectorsError("no such file", place=str(path), remedy=_REMEDY) from None
    except OSError as error:
        raise VectorsError(f"can't be read: {error.strerror}", place=str(path), remedy="name a readable file") from None
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise VectorsError(f"is no recording, or a damaged one: {error}", place=str(path), remedy=_REMEDY) from None


def _recording(path: Path, header: Mapping[str, Any], members: Mapping[str, bytes]) -> Recording:
    try:
        probes = tuple(_probe(each) for each in header["probes"])
        arrays = {name: _unpacked(members[name]) for name in header["sha256"]}
        operands = {probe.operands: arrays[f"operands/{probe.operands}.npy"] for probe in probes}
        results = {name[8:-4]: words for name, words in arrays.items() if name.startswith("results/")}
        return Recording(Origin(**header["origin"]), probes, operands, results, header["refused"])
    except (KeyError, TypeError, ValueError) as error:
        raise VectorsError(f"lacks what a recording has: {error}", place=str(path), remedy=_REMEDY) from None


def _probe(saved: Mapping[str, Any]) -> Probe:
    lists = {name: tuple(map(str, saved[name])) for name in ("lines", "sources", "results")}
    return Probe(str(saved["name"]), str(saved["mnemonic"]), **lists)


def _packed(words: Words) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(words, np.uint32), allow_pickle=False)
    return stream.getvalue()


def _unpacked(content: bytes) -> Words:
    words: Words = np.load(io.BytesIO(content), allow_pickle=False)
    if words.dtype != np.uint32 or words.ndim != 2:
        raise ValueError("an array of something else than words")
    return words


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -- kinds of operands and results

_MANTISSAS = {"F16": 10, "B16": 7, "F32": 23, "F64": 52}
_BFLOAT_MANTISSA = _MANTISSAS["B16"]
_KIND = re.compile(r"([A-Z]+)(\d+)(?:x(\d+))?")


@dataclass(frozen=True)
class Kind:
    """How a value lies in words: its width, how many lie side by side, and bits of mantissa of a float."""

    bits: int
    count: int
    mantissa: int | None

    @property
    def words(self) -> int:
        """32-bit words that it fills."""
        return max(1, self.bits * self.count // 32)


def kind_of(name: str) -> Kind:
    """A kind by its name: ``F32``, ``I64``, ``F16x2``.

    Raises:
        VectorsError: there is none.
    """
    match = _KIND.fullmatch(name)
    if match is None:
        raise VectorsError(f"kind {name} is not known")
    letters, bits, count = match.groups()
    return Kind(int(bits), int(count or 1), _MANTISSAS.get(letters + bits))


Array = np.ndarray[Any, Any]


def elements(words: Words, kind: Kind) -> Array:
    """Bits of the values: ``[rows, words]`` to ``[rows, count]``."""
    if kind.bits == 64:
        long: Array = np.ascontiguousarray(words).view(np.uint64)
        return long
    per = max(1, min(kind.count, 32 // kind.bits))
    places = np.arange(per, dtype=np.uint64) * np.uint64(kind.bits)
    parts: Array = (words.astype(np.uint64)[:, :, None] >> places) & _all(kind)
    return parts.reshape(len(words), -1)


# -- comparison


@dataclass(frozen=True)
class Bound:
    """How far results may lie apart."""

    ulps: int = 0
    absolute: float | Array = 0.0  # for all, or [rows, 1]
    relative: float = 0.0  # of the sizes that the caller gives


@dataclass(frozen=True)
class Range:
    """Operands up to a size, and how far their results may lie from the device's."""

    reach: float
    absolute: float


@dataclass(frozen=True)
class Approximation:
    """How far a result may lie from the device's, and why."""

    why: str
    ulps: int = 0  # steps between neighbouring values of the result's type
    absolute: float = 0.0  # or this far
    relative: float = 0.0  # or this part of the sum of the sizes of all products and of the addend
    ranges: tuple[Range, ...] = ()  # instead of ``absolute``, by the operand; beyond the last nothing is declared

    @property
    def bound(self) -> Bound:
        """Without the reason, of whatever operand."""
        return Bound(self.ulps, self.absolute, self.relative)

    def bound_of(self, sizes: Array) -> Bound:
        """For operands of sizes ``[rows]`` within the last of the ranges."""
        place = np.searchsorted([each.reach for each in self.ranges], sizes)
        return Bound(self.ulps, np.array([each.absolute for each in self.ranges])[place][:, None], self.relative)


EXACT = Approximation("the device's bits")


@dataclass(frozen=True)
class Difference:
    """Two results that lie too far apart."""

    operands: tuple[int, ...]  # words of the row
    recorded: int
    computed: int


@dataclass(frozen=True)
class Comparison:
    """Results of one probe on two devices."""

    name: str
    values: int
    equal: int  # bits alike
    nans: int  # NaN in both, of other bits
    largest: float  # steps between neighbours, of the pair that is furthest apart; infinite for NaN in one alone
    outside: int  # beyond the bound
    first: Difference | None


def compare(
    probe: Probe, operands: Words, recorded: Words, computed: Words, bound: Bound, sizes: Array | None = None
) -> Comparison:
    """Hold results against recorded ones.

    Args:
        probe: what was computed.
        operands: ``[rows, words]``.
        recorded: ``[rows, words]``.
        computed: likewise.
        bound: within it, results pass.
        sizes: what ``bound.relative`` is relative to, ``[rows, 1]``.
    """
    near = bound.absolute if sizes is None else bound.absolute + bound.relative * sizes
    values = equal = nans = outside = place = 0
    largest, first = 0.0, None
    for name in probe.results:
        kind = kind_of(name)
        left, right = (elements(side[:, place : place + kind.words], kind) for side in (recorded, computed))
        both, steps, apart = _apart(left, right, kind)
        wrong = (steps > bound.ulps) & ~((apart <= near) & (apart > 0))
        values, equal, nans = values + left.size, equal + int((left == right).sum()), nans + int(both.sum())
        outside, largest = outside + int(wrong.sum()), max(largest, float(steps.max(initial=0)))
        if wrong.any() and first is None:
            row, column = (int(index[0]) for index in np.nonzero(wrong))
            first = Difference(tuple(map(int, operands[row])), int(left[row, column]), int(right[row, column]))
        place += kind.words
    return Comparison(probe.name, values, equal, nans, largest, outside, first)


def _apart(left: Array, right: Array, kind: Kind) -> tuple[Array, Array, Array]:
    """Where both are NaN of other bits, the steps between, and the distance."""
    if kind.mantissa is None:
        steps = np.where(left == right, 0.0, np.inf)
        return np.zeros(left.shape, np.bool_), steps, steps
    sign = np.uint64(1 << (kind.bits - 1))
    infinity = np.uint64((1 << (kind.bits - 1)) - (1 << kind.mantissa))
    nan_left, nan_right = ((side & ~sign & _all(kind)) > infinity for side in (left, right))
    steps = np.abs(_ordered(left, sign) - _ordered(right, sign))
    steps = np.where(nan_left | nan_right, np.where(nan_left & nan_right, 0.0, np.inf), steps)
    with np.errstate(invalid="ignore"):
        apart = np.abs(values_of(left, kind) - values_of(right, kind))
    return nan_left & nan_right & (left != right), steps, apart


def _all(kind: Kind) -> np.uint64:
    return np.uint64((1 << kind.bits) - 1)


def _ordered(bits: Array, sign: np.uint64) -> Array:
    """Numbers that neighbouring floats have neighbouring ones of, negative and positive zero too."""
    size: Array = (bits & (sign - np.uint64(1))).astype(np.float64)
    ordered: Array = np.where(bits & sign != 0, -size - 1, size)
    return ordered


def values_of(bits: Array, kind: Kind) -> Array:
    """Float64 of the bits of a floating-point kind."""
    if kind.mantissa == _BFLOAT_MANTISSA:
        wide: Array = bits.astype(np.uint32) << np.uint32(16)
        return _as_float(wide, 32)
    return _as_float(bits.astype(f"u{kind.bits // 8}"), kind.bits)


def _as_float(bits: Array, width: int) -> Array:
    values: Array = bits.view(f"f{width // 8}").astype(np.float64)
    return values
