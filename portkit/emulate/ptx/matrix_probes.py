"""Which matrix products of PTX are recorded on a device: those of ``mma.sync`` and, of sm_90, of ``wgmma``.

A lane's row of operands is what the lane holds: its registers of A, of B and of the addend. So 32 rows are one product
of ``mma.sync``, and 128 rows one of ``wgmma``, whose A stays in registers while B goes by way of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from portkit.emulate.core.vectors import Probe, kind_of
from portkit.emulate.ptx.architecture import Architecture

_WARP, _WARPGROUP = 32, 128

ROWS = 128
"""Of operands: four products of ``mma.sync``, one of ``wgmma``."""

_KINDS = {
    **{"f16": "F16", "bf16": "B16", "tf32": "F32", "f32": "F32", "f64": "F64", "s32": "I32"},
    **{"s8": "I8", "u8": "U8", "e4m3": "FP8", "e5m2": "FP8", "e2m1": "FP4"},
}
"""Type of elements → kind of operands."""

_EIGHT = tuple((x, y) for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2"))
_SIGNS = tuple((x, y) for x in ("s8", "u8") for y in ("s8", "u8"))
_ALIKE = (("s8", "s8"), ("u8", "u8"))

_MMA: tuple[tuple[int, str, str, tuple[tuple[str, str], ...]], ...] = (
    (75, "m16n8k8", "f32 f16", (("f16", "f16"),)),
    (75, "m8n8k16", "s32", _ALIKE),
    (80, "m16n8k8", "f32", (("bf16", "bf16"), ("tf32", "tf32"))),
    (80, "m16n8k4", "f32", (("tf32", "tf32"),)),
    (80, "m16n8k16", "f32 f16", (("f16", "f16"),)),
    (80, "m16n8k16", "f32", (("bf16", "bf16"),)),
    (80, "m16n8k16", "s32", _ALIKE),
    (80, "m16n8k32", "s32", _SIGNS),
    (80, "m8n8k4", "f64", (("f64", "f64"),)),
    (89, "m16n8k16", "f32 f16", _EIGHT),
    (89, "m16n8k32", "f32 f16", _EIGHT),
    (90, "m16n8k4", "f64", (("f64", "f64"),)),
    (90, "m16n8k8", "f64", (("f64", "f64"),)),
    (90, "m16n8k16", "f64", (("f64", "f64"),)),
)
"""First compute capability, shape, types of results, and of A and B."""

_WGMMA: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("m64n8k16", "f32 f16", (("f16", "f16"),)),
    ("m64n8k16", "f32", (("bf16", "bf16"),)),
    ("m64n8k8", "f32", (("tf32", "tf32"),)),
    ("m64n8k32", "f32 f16", _EIGHT),
    ("m64n8k32", "s32", _SIGNS),
)

_SCALED: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("m16n8k32", "kind::mxf8f6f4.block_scale.scale_vec::1X", _EIGHT),
    ("m16n8k64", "kind::mxf4.block_scale.scale_vec::2X", (("e2m1", "e2m1"),)),
)
"""Of sm_120: with a scale for each 32 elements of a row."""


def lanes_of(probe: Probe) -> int:
    """That compute together."""
    return _WARPGROUP if probe.mnemonic.startswith("wgmma") else _WARP


def rows_of(probe: Probe) -> int | None:
    """Of operands; None: as many as of other instructions."""
    return ROWS if "mma" in probe.mnemonic else None


def products_of(architecture: Architecture) -> Iterator[Probe]:
    """All products of an architecture."""
    for since, shape, results, pairs in _MMA:
        for result in results.split() if architecture.number >= since else ():
            yield from (_warp_product(shape, result, left, right) for left, right in pairs)
    for shape, kind, pairs in _SCALED if architecture.number >= 120 else ():
        yield from (_scaled_product(shape, kind, left, right) for left, right in pairs)
    for shape, results, pairs in _WGMMA if architecture.number == 90 else ():
        for result in results.split():
            yield from (_group_product(shape, result, left, right) for left, right in pairs)


def _kinds(shape: str, result: str, left: str, right: str, lanes: int) -> tuple[str, str, str]:
    """Kinds of what a lane holds of A, B and the addend; of ``wgmma``'s B half the lanes hold a part."""
    rows, columns, depth = (int(part) for part in shape.translate(str.maketrans("mnk", "   ")).split())
    shared = columns * depth // min(lanes, columns * depth * kind_of(_KINDS[right]).bits // 32)
    held = (rows * depth // lanes, shared, rows * columns // lanes)
    a, b, c = (f"{_KINDS[each]}x{count}" for each, count in zip((left, right, result), held, strict=True))
    return a, b, c


def _warp_product(shape: str, result: str, left: str, right: str) -> Probe:
    """mma.sync."""
    kinds = _kinds(shape, result, left, right, _WARP)
    name = f"mma.sync.aligned.{shape}.row.col.{result}.{left}.{right}.{result}"
    if result == "f64":
        return _double_product(name, kinds)
    a, b, c = _registers(kinds)
    line = f"{name} {_vector('q', range(len(c)))}, {_vector('i', a)}, {_vector('i', b)}, {_vector('i', c)};"
    return Probe(name, name, (line,), kinds, kinds[2:])


def _scaled_product(shape: str, kind: str, left: str, right: str) -> Probe:
    """mma.sync with scales: those of A in byte 2 of the second pair of each four lanes, of B in byte 0 of the last."""
    kinds = (*_kinds(shape, "f32", left, right, _WARP), "E8x4", "E8x4")
    a, b, c, (scale_a,), (scale_b,) = _registers(kinds)
    name = f"mma.sync.aligned.{shape}.row.col.{kind}.f32.{left}.{right}.f32.ue8m0"
    operands = ", ".join((_vector("q", range(len(c))), _vector("i", a), _vector("i", b), _vector("i", c)))
    line = f"{name} {operands}, %i{scale_a}, {{2, 1}}, %i{scale_b}, {{0, 3}};"
    return Probe(name, name, (line,), kinds, kinds[2:3])


def _double_product(name: str, kinds: tuple[str, str, str]) -> Probe:
    """Of pairs of registers."""
    numbers = [[each // 2 for each in words[::2]] for words in _registers(kinds)]
    moves = [f"mov.b64 %w{n}, {_vector('i', (2 * n, 2 * n + 1))};" for part in numbers for n in part]
    results = range(len(moves), len(moves) + len(numbers[2]))
    line = f"{name} {', '.join(_vector('w', each) for each in (results, *numbers))};"
    back = [f"mov.b64 {_vector('q', (2 * n, 2 * n + 1))}, %w{each};" for n, each in enumerate(results)]
    return Probe(name, name, (*moves, line, *back), kinds, kinds[2:])


def _group_product(shape: str, result: str, left: str, right: str) -> Probe:
    """wgmma: B is eight rows of 32 bytes, its halves one behind the other as two matrices of eight rows of 16 bytes."""
    kinds = _kinds(shape, result, left, right, _WARPGROUP)
    a, (b,), c = _registers(kinds)
    name = f"wgmma.mma_async.sync.aligned.{shape}.{result}.{left}.{right}"
    modes = ", 1, 1, 0" if left in {"f16", "bf16"} else ", 1, 1" if result != "s32" else ""
    lines = (
        ".shared .align 128 .b8 factor[256];",
        "mov.u32 %s0, %tid.x;",
        "mov.u32 %s1, factor;",
        "mad.lo.u32 %s2, %s0, 4, %s1;",
        "setp.lt.u32 %ok, %s0, 64;",
        f"@%ok st.shared.b32 [%s2], %i{b};",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "shr.u32 %s1, %s1, 4;",
        "cvt.u64.u32 %w0, %s1;",
        f"or.b64 %w0, %w0, {_descriptor(leading=128, stride=256)};",
        *(f"mov.b32 %q{n}, %i{each};" for n, each in enumerate(c)),
        "wgmma.fence.sync.aligned;",
        f"{name} {_vector('q', range(len(c)))}, {_vector('i', a)}, %w0, 1{modes};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    )
    return Probe(name, name, lines, kinds, kinds[2:])


def _descriptor(leading: int, stride: int) -> int:
    """Of a matrix in shared memory without swizzle, but for its address."""
    return leading >> 4 << 16 | stride >> 4 << 32


def _registers(kinds: Sequence[str]) -> list[list[int]]:
    """Words of each operand, which lie one behind the other."""
    places, free = [], 0
    for kind in kinds:
        places.append(list(range(free, free + kind_of(kind).words)))
        free += kind_of(kind).words
    return places


def _vector(letter: str, numbers: Sequence[int]) -> str:
    return f"{{{', '.join(f'%{letter}{n}' for n in numbers)}}}"
