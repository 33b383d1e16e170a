"""Kernels that instructions are deleted of, and texts made other texts: ten of both vendors, and more of PTX alone.

Each is built for an architecture, with arguments of a launch from a kind of inputs.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import row_kernels
import test_attention
import test_kernel_kinds
import test_matmul
import test_ptx_matrix_kernels
from compiled import Built, build, to_bf16

from portkit.emulate.core.smallfloats import E5M2

ROOT = Path(__file__).parents[2]
INPUTS = ("normal", "extreme", "wide", "short", "shorter", "tiny")
"""Kinds of inputs: normal values, extreme and large ones, and other sizes, at which other masks bite."""

Make = Callable[[np.random.Generator, str], list]
"""Arguments of a launch from a kind of inputs."""


@dataclass(frozen=True)
class Case:
    """A kernel with what it is launched on."""

    name: str
    built: Built
    grid: tuple[int, ...]
    make: Make


def suite(name: str):
    """A kernel file by path, as a run loads it; its neighbours are importable."""
    if str(ROOT / "kernels") not in sys.path:
        sys.path.append(str(ROOT / "kernels"))
    spec = importlib.util.spec_from_file_location(f"mutated_{name}", ROOT / "kernels" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def floats(random: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """Normal ones, large ones, or the largest, smallest and special ones among normal ones."""
    x = random.standard_normal(shape).astype(np.float32)
    if kind == "extreme":
        edges = np.array([0.0, -0.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e20, -70000.0, 88.0, -104.0])
        x = np.where(random.random(shape) < 0.1, random.choice(edges, shape), x).astype(np.float32)
    return x * np.float32(40) if kind == "wide" else x


def halves(random: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """The same in float16, where the largest are infinite."""
    with np.errstate(over="ignore"):
        return floats(random, kind, *shape).astype(np.float16)


def size_of(kind: str, most: int) -> int:
    """A size for a kind of inputs: near the most, all of it, just above half or a quarter of it, or a few."""
    return {"wide": most, "short": most // 2 + 3, "shorter": most // 4 + 1, "tiny": 5}.get(kind, most - 3)


def swiglu(architecture: str) -> Case:
    signature = {"gate_ptr": "*fp32", "up_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    kernel = build(suite("swiglu")._swiglu, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 2048)
        return [*floats(random, kind, 2, size), np.zeros(size, np.float32), size]

    return Case("swiglu", kernel, (2,), make)


def softmax(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_short, architecture, signature, {"BLOCK": 1024}, aligned=False)
    return Case("softmax", kernel, (2,), lambda random, kind: rows(random, kind, 1024))


def rows(random: np.random.Generator, kind: str, most: int) -> list:
    """Two rows, room for the result, their stride and their length."""
    size = size_of(kind, most)
    return [floats(random, kind, 2, size), np.zeros((2, size), np.float32), size, size]


def long_softmax(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_long, architecture, signature, {"CHUNK": 1024}, aligned=False)
    return Case("long_softmax", kernel, (2,), lambda random, kind: rows(random, kind, 3072))


def add_rms_norm(architecture: str) -> Case:
    function = row_kernels._add_rms_norm
    pointers = {name: "*fp32" for name in function.arg_names if name.endswith("_ptr")}
    numbers = {
        name: "fp32" if name == "eps" else "i32"
        for name in function.arg_names
        if name not in pointers and name != "BLOCK"
    }
    kernel = build(function, architecture, {**pointers, **numbers}, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 1024)
        x, residual = floats(random, kind, 2, 2, size)
        return [x, residual, floats(random, kind, size), np.zeros_like(x), np.zeros_like(x), size, size, size, 1e-6]

    return Case("add_rms_norm", kernel, (2,), make)


def sum_abs(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "partial_ptr": "*fp32", "n": "i32"}
    kernel = build(suite("sum_abs")._partial_sums, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 12 * 1024)
        return [floats(random, kind, size), np.zeros(3, np.float32), size]

    return Case("sum_abs", kernel, (3,), make)


def matmul(architecture: str) -> Case:
    signature = dict.fromkeys(("a_ptr", "b_ptr"), "*bf16") | {"c_ptr": "*fp32"} | dict.fromkeys("MNK", "i32")
    constants = {"BM": 32, "BN": 32, "BK": 32, "PRECISION": "ieee", "SUM": test_matmul.tl.float32, "ZERO": 0.0}
    kernel = build(test_matmul.matmul, architecture, signature, constants, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        rows, depth, columns = size_of(kind, 64), size_of(kind, 96), size_of(kind, 64)
        a, b = floats(random, kind, rows, depth), floats(random, kind, depth, columns)
        return [to_bf16(a), to_bf16(b), np.zeros((rows, columns), np.float32), rows, columns, depth]

    return Case("matmul", kernel, (2, 2), make)


def attention(architecture: str) -> Case:
    signature = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16") | {"lse_ptr": "*fp32"}
    signature |= {"S": "i32", "scale": "fp32"}
    constants = {"D": 32, "BM": 32, "BN": 32, "CAUSAL": True}
    kernel = build(test_attention.forward, architecture, signature, constants, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 64)
        with np.errstate(over="ignore"):
            q, k, v = floats(random, kind, 3, 1, size, 32).astype(np.float16)
        return [q, k, v, np.zeros_like(q), np.zeros((1, size), np.float32), size, 0.2]

    return Case("attention", kernel, (2, 1), make)


def histogram(architecture: str) -> Case:
    signature = {"x_ptr": "*i32", "counts_ptr": "*i32", "n": "i32"}
    kernel = build(test_kernel_kinds._histogram, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 2048)
        return [random.integers(1, 10, size).astype(np.int32), np.zeros(10, np.int32), size]

    return Case("histogram", kernel, (2,), make)


def scan_and_sort(architecture: str) -> Case:
    pointers = dict.fromkeys(("x_ptr", "sums_ptr", "sorted_ptr"), "*fp32")
    kernel = build(test_kernel_kinds._scan_and_sort, architecture, pointers, {"BLOCK": 256})
    return Case("scan_and_sort", kernel, (2,), lambda r, k: [floats(r, k, 2, 256), *np.zeros((2, 2, 256), np.float32)])


def quotients(architecture: str) -> Case:
    pointers = ("x_ptr", "y_ptr", "q_ptr")
    signature = dict.fromkeys(pointers, "*fp32") | {"n": "i32"} | dict.fromkeys(("r_ptr", "i_ptr", "j_ptr"), "*i32")
    kernel = build(test_kernel_kinds._quotients, architecture, signature, {"BLOCK": 256}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size, extreme = size_of(kind, 256), kind == "extreme"
        x, y = floats(random, kind, 2, size)
        i = random.integers(-(2**31) if extreme else 0, 2**31 if extreme else 2**20, size).astype(np.int32)
        j = random.integers(1, 3000, size).astype(np.int32)
        return [x, y, np.zeros(size, np.float32), np.zeros(size, np.int32), i, j, size]

    return Case("quotients", kernel, (1,), make)


def _in_stages(name: str, architecture: str, element: str, step: int, operand: Callable[..., np.ndarray]) -> Case:
    """Five steps of products of tiles of an element type, copied in three stages; ``operand`` makes a matrix."""
    signature = dict.fromkeys(("a_ptr", "b_ptr"), f"*{element}") | {"c_ptr": "*fp32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 64, "BK": step, "ACC": test_matmul.tl.float32}
    kernel = build(test_ptx_matrix_kernels.matmul, architecture, signature, constants, num_stages=3)

    def make(random: np.random.Generator, kind: str) -> list:
        depth = {"tiny": 1, "shorter": 2, "short": 3}.get(kind, 5) * step
        a, b = (operand(random, kind, 64, depth) for _ in range(2))
        return [a, b, np.zeros((64, 64), np.float32), 64, depth]

    return Case(name, kernel, (1,), make)


def pipelined(architecture: str) -> Case:
    """Tiles in stages: copied asynchronously, multiplied by the matrix unit that the architecture has."""
    return _in_stages("pipelined", architecture, "fp16", 32, halves)


def _bytes(random: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    return E5M2.encode(floats(random, kind, *shape).astype(float), True).astype(np.uint8)


def described(architecture: str) -> Case:
    """Tiles that are copied by tensor descriptors."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = {"BM": 64, "BN": 32, "BK": 64, "WS": False}
    kernel = build(test_ptx_matrix_kernels.described, architecture, signature, constants, num_stages=3)

    def make(random: np.random.Generator, kind: str) -> list:
        rows, depth = {"tiny": (8, 8), "short": (72, 136)}.get(kind, (232, 264))  # two tiles a block, five steps each
        a, b = halves(random, kind, rows, depth), halves(random, kind, 32, depth)
        scratch = np.zeros(1 << 12, np.uint8)
        return [a, b, np.zeros((rows, 32), np.float16), rows, 32, depth, scratch]

    return Case("described", kernel, (2,), make)


def bytes_pipelined(architecture: str) -> Case:
    """The same of 8-bit floats, e5m2, which every architecture has."""
    return _in_stages("bytes_pipelined", architecture, "fp8e5", 64, _bytes)


def specialised(architecture: str) -> Case:
    """Tiles that one warp copies by descriptors while others multiply."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = {"BM": 128, "BN": 64, "BK": 64, "WS": True}
    kernel = build(test_ptx_matrix_kernels.described, architecture, signature, constants, num_stages=3)

    def make(random: np.random.Generator, kind: str) -> list:
        rows, depth = {"tiny": (8, 8), "short": (136, 136), "shorter": (120, 72)}.get(kind, (240, 264))
        a, b = halves(random, kind, rows, depth), halves(random, kind, 64, depth)
        scratch = np.zeros(1 << 14, np.uint8)
        return [a, b, np.zeros((rows, 64), np.float16), rows, 64, depth, scratch]

    return Case("specialised", kernel, (1,), make)


def wide_attention(architecture: str) -> Case:
    """Attention whose tiles are as large as the asynchronous matrix unit asks for."""
    signature = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16") | {"lse_ptr": "*fp32"}
    signature |= {"S": "i32", "scale": "fp32"}
    rows = 128 if architecture.startswith("sm_10") else 64
    constants = {"D": 64, "BM": rows, "BN": 64, "CAUSAL": True}
    kernel = build(test_attention.forward, architecture, signature, constants, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 2 * rows)
        q, k, v = halves(random, kind, 3, 1, size, 64)
        return [q, k, v, np.zeros_like(q), np.zeros((1, size), np.float32), size, 0.125]

    return Case("wide_attention", kernel, (2, 1), make)


def block_scaled(architecture: str) -> Case:
    """Products of 4-bit floats with a scale for every 32 of them."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "p_ptr", "q_ptr"), "*u8") | {"c_ptr": "*fp32", "N": "i32", "K": "i32"}
    constants = {"FORMAT": "e2m1", "PER": 2, "RUN": 32, "B": 128}
    kernel = build(test_ptx_matrix_kernels.scaled, architecture, signature, constants)

    def make(random: np.random.Generator, kind: str) -> list:
        depth = {"tiny": 128, "shorter": 128}.get(kind, 256)
        lowest, highest = {"extreme": (1, 250), "wide": (110, 140)}.get(kind, (122, 133))
        a, b = random.integers(0, 256, (2, 128, depth // 2)).astype(np.uint8)
        p, q = random.integers(lowest, highest, (2, 128, depth // 32)).astype(np.uint8)
        return [a, p, b, q, np.zeros((128, 128), np.float32), 128, depth]

    return Case("block_scaled", kernel, (1,), make)


def added_rows(architecture: str) -> Case:
    """Rows that are added to others by tensor reductions."""
    signature = {"a_ptr": "*fp32", "c_ptr": "*fp32", "M": "i32", "N": "i32"}
    kernel = build(test_ptx_matrix_kernels.add_rows, architecture, signature, {"BM": 32, "BN": 64})

    def make(random: np.random.Generator, kind: str) -> list:
        rows = {"tiny": 8, "short": 40, "shorter": 24}.get(kind, 64)
        a, c = floats(random, kind, 2, rows, 64)
        return [a, c, rows, 64, np.zeros(1 << 12, np.uint8)]

    return Case("added_rows", kernel, (2,), make)


CASES: dict[str, Callable[[str], Case]] = {
    case.__name__: case
    for case in (
        swiglu,
        softmax,
        long_softmax,
        add_rms_norm,
        sum_abs,
        matmul,
        attention,
        histogram,
        scan_and_sort,
        quotients,
    )
}
"""Kernels of both vendors."""

PTX_CASES: dict[str, Callable[[str], Case]] = {
    **CASES,
    **{
        case.__name__: case
        for case in (
            pipelined,
            described,
            bytes_pipelined,
            specialised,
            wide_attention,
            block_scaled,
            added_rows,
        )
    },
}
"""The same kernels, and those whose copies and products are asynchronous."""

AMD_ARCHITECTURES = {
    "swiglu": ("gfx942",),
    "softmax": ("gfx1201",),
    "long_softmax": ("gfx950",),
    "add_rms_norm": ("gfx1100",),
    "sum_abs": ("gfx942",),
    "matmul": ("gfx1201",),
    "attention": ("gfx950",),
    "histogram": ("gfx1100",),
    "scan_and_sort": ("gfx942",),
    "quotients": ("gfx1201",),
}
"""Kernel → architectures that its instructions are deleted on."""

PTX_ARCHITECTURES = {
    "swiglu": ("sm_80",),
    "softmax": ("sm_90",),
    "long_softmax": ("sm_100",),
    "add_rms_norm": ("sm_120",),
    "sum_abs": ("sm_80",),
    "matmul": ("sm_90", "sm_75"),
    "attention": ("sm_100", "sm_75", "sm_80", "sm_120"),
    "histogram": ("sm_120",),
    "scan_and_sort": ("sm_80", "sm_75"),
    "quotients": ("sm_90",),
    "pipelined": ("sm_100", "sm_75", "sm_80", "sm_90", "sm_120"),
    "described": ("sm_90", "sm_100", "sm_120"),
    "bytes_pipelined": ("sm_89", "sm_90", "sm_100"),
    "specialised": ("sm_90",),
    "wide_attention": ("sm_90", "sm_100"),
    "block_scaled": ("sm_100", "sm_120"),
    "added_rows": ("sm_90",),
}
"""The same of NVIDIA's: ``mma.sync``, ``wgmma`` and ``tcgen05``, copies of threads and of tensors."""
