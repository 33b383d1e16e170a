"""Which forms of products there are: formats that go together, results, shapes, and the first architecture of each.

Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma" and "Asynchronous Multiply-and-Accumulate Instruction:
wgmma.mma_async": "Syntax" and "Target ISA Notes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portkit.emulate.ptx.architecture import Architecture


@dataclass(frozen=True)
class Form:
    """Formats of which any two are multiplied.

    Attributes:
        formats: of A and of B.
        results: of C and D, which are alike.
        shapes: shape → compute capability × 10 of the first architecture that has it.
        kind: the modifier ``kind`` that names the form; empty: it has none.
        scales: of a block-scaled form: ``scale_vec``, or empty where it is left out → format of the scales.
    """

    formats: str
    results: str
    shapes: Mapping[str, int]
    kind: str = ""
    scales: Mapping[str, str] | None = None


_SMALL = "e4m3 e5m2 e2m3 e3m2 e2m1"

FORMS = (
    Form("f16", "f32 f16", {"m16n8k8": 75, "m16n8k16": 80}),
    Form("bf16", "f32", {"m16n8k8": 80, "m16n8k16": 80}),
    Form("tf32", "f32", {"m16n8k4": 80, "m16n8k8": 80}),
    Form("f64", "f64", {"m8n8k4": 80, "m16n8k4": 90, "m16n8k8": 90, "m16n8k16": 90}),
    Form("s8 u8", "s32", {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80}),
    Form("s4 u4", "s32", {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80}),
    Form("e4m3 e5m2", "f32 f16", {"m16n8k16": 89, "m16n8k32": 89}),
    Form(_SMALL, "f32 f16", {"m16n8k32": 120}, "f8f6f4"),
    Form(_SMALL, "f32", {"m16n8k32": 120}, "mxf8f6f4", {"": "ue8m0", "1X": "ue8m0"}),
    Form("e2m1", "f32", {"m16n8k64": 120}, "mxf4", {"": "ue8m0", "2X": "ue8m0"}),
    Form("e2m1", "f32", {"m16n8k64": 120}, "mxf4nvf4", {"2X": "ue8m0", "4X": "ue4m3"}),
)


def form_of(architecture: Architecture, shape: str, kind: str, types: Sequence[str]) -> Form | str:
    """The form of an instruction, or what of it there is not.

    Args:
        architecture: that the text is for.
        shape: as instructions write it.
        kind: of the modifier of that name; empty: there is none.
        types: of D, A, B and C.
    """
    what = f"shape {shape} of {' '.join(types)}" + (f" with kind::{kind}" if kind else "")
    if len(types) != 4:
        return what
    result, left, right, addend = types
    if result != addend:
        return f"{addend} added to {result}"
    for form in FORMS:
        fits = {left, right} <= set(form.formats.split()) and result in form.results.split()
        if fits and form.kind == kind and shape in form.shapes:
            missing = architecture.number < form.shapes[shape]
            return f"{architecture.name} has no {what}" if missing else form
    return what


_EVERY_EIGHTH = frozenset(range(8, 257, 8))

_GROUPS: tuple[tuple[str, str, int, frozenset[int]], ...] = (
    ("f16", "f32 f16", 16, _EVERY_EIGHTH),
    ("bf16", "f32", 16, _EVERY_EIGHTH),
    ("tf32", "f32", 8, _EVERY_EIGHTH),
    ("e4m3 e5m2", "f32 f16", 32, _EVERY_EIGHTH),
    ("s8 u8", "s32", 32, frozenset({8, 24, *range(16, 257, 16)})),
)
"""Of ``wgmma``: formats that go together, results, depth, and columns."""


def group_form_error(shape: str, types: Sequence[str]) -> str | None:
    """What of a ``wgmma`` there is not; None: it is one.

    Args:
        shape: as instructions write it.
        types: of D, A and B.
    """
    for formats, results, depth, columns in _GROUPS:
        fits = set(types[1:]) <= set(formats.split()) and types[0] in results.split()
        if fits and shape in {f"m64n{each}k{depth}" for each in columns}:
            return None
    return f"shape {shape} of {' '.join(types)}"
