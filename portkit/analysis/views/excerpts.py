"""Lines of IR and assembly behind a finding: what a rule counts, as it stands in the texts of a build.

A rule has words to look for in the first stage that has them. The lines are an illustration: what a finding
rests on are the signals of the record, which were counted in the same texts when the kernel was built.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.findings.rule import Finding
from portkit.analysis.lowering import without_debug
from portkit.errors import ReportError
from portkit.store.merge import Dataset, Row
from portkit.store.texts import BLOB, KernelTexts, texts_of

SHOWN: Final = 3
"""Places of a text that an excerpt shows."""

LONGEST: Final = 240
"""Characters of a line; what is longer is cut."""

_MATRIX = r"\bwgmma\.mma_async|\bmma\.sync|\btcgen05\.mma|\bv_(?:mfma|smfmac|wmma|swmmac)_"
_EXP = r"\bex2\.approx|\bv_exp_f32|\bv_ldexp_f32"
_FP8 = r"\bcvt\.\S*(?:e4m3|e5m2)|\bv_cvt_\w*(?:fp8|bf8)"
_ATOMIC = r"\b(?:atom|red)\.|_atomic_"
_LOCAL = r"\b(?:ld|st)\.local|\.local \.align"
_SCRATCH = r"\bscratch_(?:load|store)|_spill_count|private_segment_fixed_size:"

Looks = tuple[tuple[str, str], ...]
"""Stage and what to look for there; the first stage with a match is shown."""


def _machine(pattern: str) -> Looks:
    return (("ptx", pattern), ("amdgcn", pattern))


_SPILLS: Final = (("sass", r"\b(?:STL|LDL)\b"), ("ptx", _LOCAL), ("amdgcn", _SCRATCH))
"""What ptxas spills is in its machine code; arrays of a thread are in PTX, too."""

LOOKS: Final[Mapping[str, Looks]] = {
    "PK101": _SPILLS,
    "PK102": _SPILLS,
    "PK103": (("ttgir", r"\bttg\.local_alloc"),),
    "PK104": (("ttgir", r"\bttg\.local_alloc"),),
    "PK201": (*_machine(_MATRIX), ("ttgir", r"\btt\.dot ")),
    "PK202": (*_machine(_FP8), ("ttir", r"\btt\.(?:dot_scaled|fp_to_fp) "), ("ttir", r"\btt\.dot [^\n]*f8E")),
    "PK203": _machine(r"tf32|xf32|\bv_mfma_f32"),
    "PK204": _machine(_ATOMIC),
    "PK205": (("ttgir", r"\basync_copy|\bttng?\.async_tma|\bttg\.local_store "), *_machine(r"\bcp\.async|_lds\b")),
    "PK206": _machine(r"\b(?:buffer|global)_(?:load|store)"),
    "PK207": (("ttir", r"\barith\.muli [^\n]*i32|\btt\.addptr "),),
    "PK208": (("llir", r"\b(?:sdiv|udiv|srem|urem)(?: exact)? i64 "),),
    "PK209": (("ttir", r"warp_specialize|evict_"),),
    "PK210": (("ttgir", r"threadsPerWarp"),),
    "PK211": (("ttir", r"\btt\.elementwise_inline_asm "),),
    "PK212": (("ttir", r'symbol = "__'),),
    "PK215": (("ttir", r"\btt\.elementwise_inline_asm "),),
    "PK218": _machine(r"\bdiv\.(?:rn|full|approx)\.\S*f32|\bv_div_(?:scale|fmas|fixup)_f32"),
    "PK301": (("ttir", r"\barith\.(?:max|min)(?:num|imum)f "),),
    "PK302": _machine(_EXP),
    "PK303": _machine(_EXP),
    "PK304": _machine(r"\bfma\.rn|\bmul\.rn|\bv_(?:pk_|dual_)?(?:fma|mul)\w*_f32"),
    "PK305": _machine(_FP8),
    "PK306": (("ttir", r"\bf8\w+"),),
}
"""Rules whose cause can be seen in a text."""


@dataclass(frozen=True)
class Line:
    """One line of a text."""

    number: int  # from 1
    text: str
    match: bool  # what was looked for; else it stands beside one


@dataclass(frozen=True)
class Excerpt:
    """Where a target's text shows what a finding says."""

    target: str
    holds: bool  # whether the finding holds there
    kernel: str
    stage: str  # ttir, ttgir, llir, ptx, sass or amdgcn
    lines: tuple[Line, ...]
    matches: int  # in the whole text


TextsOf = Callable[[Row], Mapping[str, KernelTexts]]
"""Texts of a row's kernels; raises ReportError where there are none."""


class Excerpts:
    """Finds excerpts in the texts of a dataset; each blob is read once while its neighbours need it."""

    def __init__(self, dataset: Dataset) -> None:
        self._rows = _rows_with_texts(dataset.rows)
        self._paths = dataset.paths
        self._read = functools.lru_cache(maxsize=64)(self._texts)

    def of(self, finding: Finding) -> tuple[Excerpt, ...]:
        """At most two excerpts: a target where the finding holds, and one where it does not."""
        looks = LOOKS.get(finding.rule, ())
        sides = ((finding.targets, True), (finding.against, False))
        found = (self._first(finding, targets, looks, holds=holds) for targets, holds in sides if looks)
        return tuple(each for each in found if each)

    def _first(self, finding: Finding, targets: Sequence[str], looks: Looks, *, holds: bool) -> Excerpt | None:
        return next(self._excerpts(finding, targets, looks, holds=holds), None)

    def _excerpts(self, finding: Finding, targets: Sequence[str], looks: Looks, *, holds: bool) -> Iterator[Excerpt]:
        operation = (finding.kernel, finding.direction.value, finding.shape, finding.dtype)
        for target in targets:
            for row in self._rows.get((*operation, target), ()):
                if finding.variant in (None, row.record.cell.variant):
                    yield from _in_texts(target, self._read(_address(row)), looks, holds=holds)

    def _texts(self, address: tuple[str, str]) -> tuple[KernelTexts, ...]:
        row = self._by_address[address]
        try:
            return tuple(texts_of(row.record, self._paths).values())
        except ReportError:  # the side folder was not brought along: the finding stands without
            return ()

    @functools.cached_property
    def _by_address(self) -> Mapping[tuple[str, str], Row]:
        return {_address(row): row for rows in self._rows.values() for row in rows}


Place = tuple[str, str, tuple[int, ...], str, str]


def _rows_with_texts(rows: Iterable[Row]) -> Mapping[Place, list[Row]]:
    places: dict[Place, list[Row]] = {}
    for row in rows:
        if BLOB in row.record.blobs:
            cell = row.record.cell
            key = (cell.case, cell.direction.value, cell.shape, cell.dtype, cell.target)
            places.setdefault(key, []).append(row)
    return places


def _address(row: Row) -> tuple[str, str]:
    return row.record.run_id, row.record.blobs[BLOB]


def _in_texts(target: str, texts: Iterable[KernelTexts], looks: Looks, *, holds: bool) -> Iterator[Excerpt]:
    for stage, pattern in looks:
        for each in texts:
            lines, matches = excerpt(each.stages.get(stage, ""), pattern, stage)
            if lines:
                yield Excerpt(target, holds, each.kernel, stage, lines, matches)


def excerpt(text: str, pattern: str, stage: str, most: int = SHOWN) -> tuple[tuple[Line, ...], int]:
    r"""The first lines that match, each with its neighbours, and how many lines match in all.

    What says nothing but where a line came from (``.loc`` and the like) is nobody's neighbour.

    >>> lines, matches = excerpt("a\nb\n.loc 1 2 3\nc\nd", "c", "ptx")
    >>> [(line.number, line.text) for line in lines], matches
    ([(2, 'b'), (4, 'c'), (5, 'd')], 1)
    """
    found = re.compile(pattern)
    lines = text.split("\n")
    likely = (i for i, line in enumerate(lines) if found.search(line))
    matching = [i for i in likely if found.search(without_debug(lines[i], stage))]  # a file's name may match too
    places = {j for i in matching[:most] for j in (i, *_beside(lines, i, stage))}
    shown = ((i, without_debug(lines[i], stage)) for i in sorted(places))
    return tuple(Line(i + 1, told[:LONGEST], i in matching) for i, told in shown), len(matching)


def _beside(lines: Sequence[str], place: int, stage: str) -> Iterator[int]:
    """Places of the nearest lines before and after that say something."""
    for others in (range(place - 1, -1, -1), range(place + 1, len(lines))):
        near = (i for i in others if without_debug(lines[i], stage).strip())
        yield from itertools.islice(near, 1)
