"""How far the outputs of two runs lie apart, over the elements that their fingerprints keep.

Each run keeps the same 1,024 positions of every output (:func:`portkit.model.sampled_positions`)
beside its report. Where two runs had the same inputs, bit by bit, these elements say how
far their results differ: in units in the last place (steps between neighbouring numbers
of the dtype), absolutely and relatively. A largest distance over samples is a lower bound
of that over the whole output; only equal hashes speak of all of it.
"""

from __future__ import annotations

import base64
import collections
import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from portkit.errors import ReportError
from portkit.model import DTYPE_BYTES, Direction, Evidence, Record
from portkit.store.journal import read_blob
from portkit.store.merge import Dataset, Row

FINGERPRINT: Final = "fingerprint"
"""Name of the blob."""


@dataclass(frozen=True)
class OutputDistance:
    """Distance of one output of two runs."""

    output: str  # position, or "grad x"
    dtype: str
    identical: bool  # all bits of the whole output are equal
    samples: int  # elements compared
    differing: int  # of them
    max_ulp: int | None  # None: of one pair only one is a NaN, or an Inf
    max_abs: float | None  # likewise
    max_rel: float | None  # over the larger magnitude; likewise


@dataclass(frozen=True)
class Distance:
    """Outputs of two runs of one operation on the same inputs."""

    kernel: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: str
    variant: str
    one: str  # h200 measured (run …)
    other: str
    outputs: tuple[OutputDistance, ...]
    reason: str | None = None  # why there are none

    @property
    def text(self) -> str:
        """In one line."""
        what = f"{self.operation}, {self.one} and {self.other}"
        if self.reason:
            return f"{what}: outputs can't be compared, {self.reason}"
        return f"{what}: {self.apart}"

    @property
    def targets(self) -> tuple[str, str]:
        """Targets of both."""
        return self.one.partition(" ")[0], self.other.partition(" ")[0]

    @property
    def operation(self) -> str:
        """Kernel, shape, dtype and variant."""
        return f"{self.kernel} {'x'.join(map(str, self.shape))} {self.dtype} {self.variant}"

    @property
    def apart(self) -> str:
        """How far the outputs lie apart."""
        return "; ".join(_output_text(output) for output in self.outputs)


def distances(dataset: Dataset) -> tuple[Distance, ...]:
    """The distance of every run to the first of its operation with the same inputs."""
    return tuple(
        between(first, other, dataset.paths) for first, *others in same_inputs(dataset.rows) for other in others
    )


def same_inputs(rows: Iterable[Row]) -> Iterator[tuple[Record, ...]]:
    """Runs of one operation on the same inputs, two at least, the strongest evidence first.

    Operations are told apart by case, direction, shape, dtype and variant. Of runs of one host on one
    target there is one, and of emulated runs of the same binaries.
    """
    groups: dict[tuple[Any, ...], list[Record]] = collections.defaultdict(list)
    for row in rows:
        for record in row.records:
            if record.verdict and record.verdict.output_hash and FINGERPRINT in record.blobs:
                cell = record.cell
                key = (cell.case, cell.direction.value, cell.shape, cell.dtype, cell.variant, record.verdict.input_hash)
                groups[key].append(record)
    made = (_one_an_origin(groups[key]) for key in sorted(groups))
    return (group for group in made if len(group) > 1)


def distance(one: bytes, other: bytes) -> tuple[OutputDistance, ...]:
    """Distance of the outputs in two fingerprints.

    Raises:
        ValueError: their inputs differ, or their outputs have other names, dtypes or shapes.
    """
    first, second = json.loads(one), json.loads(other)
    if first["input_hash"] != second["input_hash"]:
        raise ValueError("the inputs differ")
    forms = [[(x["name"], x["dtype"], x["shape"]) for x in each["outputs"]] for each in (first, second)]
    if forms[0] != forms[1]:
        raise ValueError("the outputs have other names, dtypes or shapes")
    return tuple(_output_distance(a, b) for a, b in zip(first["outputs"], second["outputs"], strict=True))


def ordinal(bits: int, dtype: str) -> int:
    """The number's place among all numbers of its dtype, 0 for both zeros."""
    size = 8 * DTYPE_BYTES[dtype]
    if "float" not in dtype:
        return bits - (1 << size) if dtype.startswith("int") and bits >> (size - 1) else bits
    magnitude = bits & ((1 << (size - 1)) - 1)
    return -magnitude if bits >> (size - 1) else magnitude


def value(bits: int, dtype: str) -> float:
    """The number that an element's bits stand for."""
    if "float" not in dtype:
        return float(ordinal(bits, dtype))
    if dtype in _UNPACK:
        shift, form = _UNPACK[dtype]
        return float(struct.unpack(form, (bits << shift).to_bytes(struct.calcsize(form), "little"))[0])
    return _fp8(bits, *_FP8[dtype])


_UNPACK: Final[Mapping[str, tuple[int, str]]] = {
    # dtype → bits to shift by, format of the number whose upper bits it has
    "float64": (0, "<d"),
    "float32": (0, "<f"),
    "float16": (0, "<e"),
    "bfloat16": (16, "<f"),
    "float8_e5m2": (8, "<e"),
}

_FP8: Final[Mapping[str, tuple[int, int, int]]] = {
    # dtype → bits of the mantissa, bias of the exponent, bits that are NaN
    "float8_e4m3fn": (3, 7, 0x7F),
    "float8_e4m3fnuz": (3, 8, 0x80),
    "float8_e5m2fnuz": (2, 16, 0x80),
}


def _fp8(bits: int, mantissa_bits: int, bias: int, nan: int) -> float:
    """OCP 8-bit floating point, and the variants whose only NaN is what would be -0."""
    if bits == nan or (nan == 0x7F and bits == 0xFF):
        return math.nan
    exponent, mantissa = (bits & 0x7F) >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
    whole = mantissa if exponent == 0 else mantissa + (1 << mantissa_bits)
    return (-1.0 if bits & 0x80 else 1.0) * whole * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)


def _one_an_origin(records: Sequence[Record]) -> tuple[Record, ...]:
    order = list(Evidence)
    kept: dict[tuple[str, ...], Record] = {}
    for record in sorted(records, key=lambda r: (order.index(r.evidence), r.cell.target, r.run_id)):
        kept.setdefault(_origin(record), record)
    return tuple(kept.values())


def _origin(record: Record) -> tuple[str, ...]:
    """What ran: a target of a host, or emulated the binaries that several targets share."""
    emulated = record.evidence is Evidence.EMULATED and record.keys.build_key
    return record.host_id, emulated or record.cell.target, record.evidence.value


def between(one: Record, other: Record, paths: Mapping[str, str]) -> Distance:
    """Distance of the outputs of two runs, from the fingerprints beside their reports, or why there is none.

    Args:
        one: a run.
        other: another of the same operation on the same inputs.
        paths: run id → report.
    """
    outputs: tuple[OutputDistance, ...] = ()
    reason = None
    try:
        outputs = distance(*(read_blob(Path(paths[r.run_id]), r.blobs[FINGERPRINT]) for r in (one, other)))
    except (ReportError, *_NO_FINGERPRINT) as error:
        reason = error.message if isinstance(error, ReportError) else f"a fingerprint is no such: {error}"
    cell = one.cell
    first, second = (f"{r.cell.target} {r.evidence.value} (run {r.run_id})" for r in (one, other))
    return Distance(cell.case, cell.direction, cell.shape, cell.dtype, cell.variant, first, second, outputs, reason)


_NO_FINGERPRINT: Final = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)


def _output_distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> OutputDistance:
    dtype = one["dtype"]
    pairs = list(zip(_elements(one), _elements(other), strict=True))
    differing = [(a, b) for a, b in pairs if a != b and not _same_number(a, b, dtype)]
    values = [(value(a, dtype), value(b, dtype)) for a, b in differing]
    known = all(math.isfinite(a) and math.isfinite(b) for a, b in values)
    return OutputDistance(
        output=one["name"],
        dtype=dtype,
        identical=one["hash"] == other["hash"],
        samples=len(pairs),
        differing=len(differing),
        max_ulp=max((abs(ordinal(a, dtype) - ordinal(b, dtype)) for a, b in differing), default=0) if known else None,
        max_abs=max((abs(a - b) for a, b in values), default=0.0) if known else None,
        max_rel=max(_relative(values), default=0.0) if known else None,
    )


def _same_number(a: int, b: int, dtype: str) -> bool:
    """Whether different bits mean the same: NaNs of any payload, and the two zeros."""
    one, other = value(a, dtype), value(b, dtype)
    return one == other or (math.isnan(one) and math.isnan(other))


def _relative(values: Iterable[tuple[float, float]]) -> Iterator[float]:
    return (abs(a - b) / max(abs(a), abs(b)) for a, b in values)


def _elements(output: Mapping[str, Any]) -> list[int]:
    size = DTYPE_BYTES[output["dtype"]]
    raw = base64.b64decode(output["bits"], validate=True)
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def _output_text(output: OutputDistance) -> str:
    name = f"output {output.output}"
    if output.identical:
        return f"{name} equal bit by bit"
    over = f"over {output.samples} sampled elements"
    if output.max_ulp is None:
        return f"{name} differs in NaN or Inf, {over}"
    return f"{name} at most {output.max_ulp} ulp, {output.max_abs:.1e} absolute, {output.max_rel:.1e} relative {over}"
