"""Triton kernels whose results ``scripts/held_out.py`` takes from a GPU, with the shapes that it takes them of.

Small ones of every kind that the emulator is held against: rows, products, attention, conversions, scans, functions.
None of their shapes is in the records that ``tests/records`` had before; most have tails, and rows that lie an odd
number of elements apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# ruff: noqa: ANN001, ANN201, D103, N803, PLR0913, PLR0917
# mypy: disable-error-code="no-untyped-def, untyped-decorator"


@triton.jit
def add_rms_norm(x_ptr, residual_ptr, weight_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(residual_ptr + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + eps)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n + at, (x * scale * weight).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n
    apart = tl.where(mask, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / n + eps)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + row * n + at, apart * scale * weight + bias, mask=mask)
    tl.store(mean_ptr + row, mean)


@triton.jit
def softmax(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=-float("inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + at, power / tl.sum(power, axis=0), mask=mask)


@triton.jit
def swiglu(x_ptr, gate_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (gate * tl.sigmoid(gate) * x).to(y_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def functions(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.erf(x) * tl.sigmoid(x) + tl.exp2(x), mask=at < n)
    tl.store(z_ptr + at, tl.log(tl.abs(x) + 1.5) * tl.cos(x) - tl.sin(3 * x), mask=at < n)


@triton.jit
def quotients(x_ptr, y_ptr, q_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n, other=0.0), tl.load(y_ptr + at, mask=at < n, other=1.0)
    tl.store(q_ptr + at, x / y, mask=at < n)


@triton.jit
def quantized(x_ptr, y_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6) / 448
    tl.store(y_ptr + at, (x / scale).to(y_ptr.dtype.element_ty), mask=at < n)
    tl.store(scale_ptr + tl.program_id(0), scale)


@triton.jit
def scanned(x_ptr, sums_ptr, sorted_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(sums_ptr + at, tl.cumsum(x, axis=0))
    tl.store(sorted_ptr + at, tl.sort(x))


@triton.jit
def counted(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.abs(tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)), 1, mask=at < n)


@triton.jit
def product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    a_row,
    b_row,
    BM: tl.constexpr,
    BK: tl.constexpr,
    SUM: tl.constexpr,
    MOST: tl.constexpr,
):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BM), SUM)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * a_row + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + n[:, None] * b_row + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        total = tl.dot(a, tl.trans(b), total, max_num_imprecise_acc=MOST, out_dtype=SUM)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def described(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BM, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BM
    total = tl.zeros((BM, BM), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(c_ptr.dtype.element_ty))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, B: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1) * S * D
    m, d = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, D)
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    most, total, sums = tl.full((B,), -1e30, tl.float32), tl.zeros((B,), tl.float32), tl.zeros((B, D), tl.float32)
    for start in range(0, S, B):
        n = start + tl.arange(0, B)
        k = tl.load(k_ptr + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        seen = (n[None, :] < S) & (n[None, :] <= m[:, None]) if CAUSAL else n[None, :] < S
        score = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -1e30)
        grown = tl.maximum(most, tl.max(score, axis=1))
        power, kept = tl.exp2(score - grown[:, None]), tl.exp2(most - grown)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        sums = sums * kept[:, None] + tl.dot(power.to(v.dtype), v)
        total, most = total * kept + tl.sum(power, axis=1), grown
    o = (sums / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + head + m[:, None] * D + d[None, :], o, mask=m[:, None] < S)


@dataclass(frozen=True)
class Tensor:
    """An argument in memory."""

    kind: str  # as Triton's signatures have it: fp32, bf16, fp8e4nv
    shape: tuple[int, ...]
    size: float = 1.0  # standard deviation of its numbers; 0: any bits
    written: bool = False  # by the kernel; zeros before


@dataclass(frozen=True)
class Launch:
    """One kernel with its arguments, in the order of its signature."""

    kernel: str
    arguments: Mapping[str, Tensor | int | float]
    constants: Mapping[str, Any]
    grid: tuple[int, ...]
    shape: str  # for people
    warps: int = 4
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> str:
        """Of the tensors, each once."""
        return " ".join(dict.fromkeys(each.kind for each in self.arguments.values() if isinstance(each, Tensor)))

    def built(self, architecture: str) -> Any:
        """What Triton compiles for an architecture."""
        function = KERNELS[self.kernel]
        types = {name: _type(value) for name, value in self.arguments.items()}
        signature = {name: types.get(name, "constexpr") for name in function.arg_names}
        even = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(signature) if self._even(name)}
        source = ASTSource(function, signature, constexprs=dict(self.constants), attrs=even)
        target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)
        return triton.compile(source, target=target, options={"num_warps": self.warps, **self.options})

    def _even(self, name: str) -> bool:
        """What the launcher would find to be a multiple of 16."""
        value = self.arguments.get(name)
        return isinstance(value, Tensor) or (isinstance(value, int) and value % 16 == 0)

    def told(self) -> dict[str, Any]:
        """As a record has it."""
        arguments = [asdict(each) if isinstance(each, Tensor) else each for each in self.arguments.values()]
        return {
            "kernel": self.kernel,
            "shape": self.shape,
            "kinds": self.kinds,
            "grid": self.grid,
            "arguments": arguments,
        }


def _type(value: Tensor | int | float) -> str:
    if isinstance(value, Tensor):
        return f"*{value.kind}"
    return "i32" if isinstance(value, int) else "fp32"


KERNELS = {
    each.__name__: each
    for each in (
        *(add_rms_norm, layer_norm, softmax, swiglu, functions, quotients, quantized, scanned, counted, product),
        *(described, attention),
    )
}


def launches(architecture: str) -> Iterator[Launch]:
    """All that are compiled for an architecture."""
    if architecture == "sm_89":  # what sm_80 has no type for
        yield from _of_bytes()
        return
    yield from _of_rows()
    yield from _of_elements()
    yield from _products()
    yield from _attentions()
    if architecture == "sm_90":
        yield from _of_bytes()
        yield from _described()


def _of_rows() -> Iterator[Launch]:
    for kind, rows, n, stride, warps in (
        ("bf16", 11, 3001, 3003, 8),
        ("fp16", 5, 1537, 1537, 4),
        ("bf16", 6, 2064, 2080, 4),
    ):
        block = triton.next_power_of_2(n)
        tensors = {"x_ptr": Tensor(kind, (rows, stride)), "residual_ptr": Tensor(kind, (rows, stride), 3)}
        tensors |= {"weight_ptr": Tensor(kind, (n,)), "y_ptr": Tensor(kind, (rows, n), written=True)}
        yield Launch(
            "add_rms_norm",
            {**tensors, "stride": stride, "n": n, "eps": 1e-6},
            {"BLOCK": block},
            (rows,),
            f"{rows}x{n}",
            warps,
        )
    for rows, n, stride in ((7, 1031, 1037), (4, 3333, 3333)):
        tensors = {
            "x_ptr": Tensor("fp32", (rows, stride), 2),
            "weight_ptr": Tensor("fp32", (n,)),
            "bias_ptr": Tensor("fp32", (n,)),
        }
        tensors |= {"y_ptr": Tensor("fp32", (rows, n), written=True), "mean_ptr": Tensor("fp32", (rows,), written=True)}
        block = triton.next_power_of_2(n)
        yield Launch(
            "layer_norm", {**tensors, "stride": stride, "n": n, "eps": 1e-5}, {"BLOCK": block}, (rows,), f"{rows}x{n}"
        )
    for rows, n, stride, warps in ((6, 1999, 2001, 4), (3, 4100, 4100, 8)):
        tensors = {"x_ptr": Tensor("fp32", (rows, stride), 6), "y_ptr": Tensor("fp32", (rows, n), written=True)}
        block = triton.next_power_of_2(n)
        yield Launch("softmax", {**tensors, "stride": stride, "n": n}, {"BLOCK": block}, (rows,), f"{rows}x{n}", warps)


def _of_elements() -> Iterator[Launch]:
    for kind, n in (("bf16", 7001), ("fp16", 4444)):
        tensors = {
            "x_ptr": Tensor(kind, (n,)),
            "gate_ptr": Tensor(kind, (n,), 4),
            "y_ptr": Tensor(kind, (n,), written=True),
        }
        yield _over("swiglu", tensors, n, 1024)
    for size, n in ((2.0, 6007), (20.0, 2003)):
        tensors = {"x_ptr": Tensor("fp32", (n,), size)}
        tensors |= {name: Tensor("fp32", (n,), written=True) for name in ("y_ptr", "z_ptr")}
        yield _over("functions", tensors, n, 512)
    for size, n in ((0.0, 20011), (1.0, 4099)):
        tensors = {"x_ptr": Tensor("fp32", (n,), size), "y_ptr": Tensor("fp32", (n,), size)}
        yield _over("quotients", {**tensors, "q_ptr": Tensor("fp32", (n,), written=True)}, n, 512)
    for rows, block in ((5, 512), (3, 1024)):
        tensors = {"x_ptr": Tensor("fp32", (rows, block))}
        tensors |= {name: Tensor("fp32", (rows, block), written=True) for name in ("sums_ptr", "sorted_ptr")}
        yield Launch("scanned", tensors, {"BLOCK": block}, (rows,), f"{rows}x{block}")
    yield _over(
        "counted", {"x_ptr": Tensor("i8", (5003,), 9), "counts_ptr": Tensor("i32", (256,), written=True)}, 5003, 1024
    )


def _over(kernel: str, tensors: Mapping[str, Tensor], n: int, block: int) -> Launch:
    return Launch(kernel, {**tensors, "n": n}, {"BLOCK": block}, (math.ceil(n / block),), str(n))


def _products() -> Iterator[Launch]:
    for kind in ("bf16", "fp16", "fp32"):
        yield _product(kind, "fp32", (77, 93, 203), odd=3)
        yield _product(kind, "fp32", (96, 80, 352))
    yield _product("fp16", "fp16", (96, 72, 208))
    yield _product("i8", "i32", (88, 104, 320))


def _product(kind: str, result: str, shape: tuple[int, int, int], *, odd: int = 0, most: int | None = None) -> Launch:
    m, n, k = shape
    byte = kind.startswith("fp8") or kind == "i8"
    tensors = {
        "a_ptr": Tensor(kind, (m, k + odd), 40 if kind == "i8" else 1),
        "b_ptr": Tensor(kind, (n, k + 2 * odd), 40 if kind == "i8" else 1),
    }
    tensors |= {"c_ptr": Tensor(result, (m, n), written=True)}
    numbers = {"M": m, "N": n, "K": k, "a_row": k + odd, "b_row": k + 2 * odd}
    sums = {"fp32": tl.float32, "fp16": tl.float16, "i32": tl.int32}[result]
    constants = {"BM": 64, "BK": 64 if byte else 32, "SUM": sums, "MOST": most}
    name = f"{m}x{n}x{k}" + (f", sums of {most}" if most is not None else "")
    return Launch("product", {**tensors, **numbers}, constants, (-(-m // 64), -(-n // 64)), name)


def _of_bytes() -> Iterator[Launch]:
    yield _product("fp8e4nv", "fp32", (80, 112, 448))
    yield _product("fp8e4nv", "fp32", (66, 70, 233), odd=5)
    yield _product("fp8e4nv", "fp32", (64, 80, 576), most=64)
    yield _product("fp8e5", "fp32", (72, 67, 336))
    for kind, n in (("bf16", 3001), ("fp32", 2500)):
        blocks = -(-n // 1024)
        tensors = {"x_ptr": Tensor(kind, (n,), 5), "y_ptr": Tensor("fp8e4nv", (n,), written=True)}
        yield _over("quantized", {**tensors, "scale_ptr": Tensor("fp32", (blocks,), written=True)}, n, 1024)


def _described() -> Iterator[Launch]:
    for kind, (m, n, k) in (("bf16", (104, 72, 264)), ("fp8e4nv", (72, 96, 400))):
        tensors = {
            "a_ptr": Tensor(kind, (m, k)),
            "b_ptr": Tensor(kind, (n, k)),
            "c_ptr": Tensor("fp16", (m, n), written=True),
        }
        grid = -(-m // 64), -(-n // 64)
        yield Launch("described", {**tensors, "M": m, "N": n, "K": k}, {"BM": 64, "BK": 64}, grid, f"{m}x{n}x{k}")


def _attentions() -> Iterator[Launch]:
    for kind, heads, size, depth, causal in (("bf16", 3, 137, 64, True), ("fp16", 2, 101, 128, False)):
        tensors = {name: Tensor(kind, (heads, size, depth)) for name in ("q_ptr", "k_ptr", "v_ptr")}
        tensors |= {"o_ptr": Tensor(kind, (heads, size, depth), written=True)}
        constants = {"D": depth, "B": 64, "CAUSAL": causal}
        name = f"{heads}x{size}x{depth}" + (", causal" if causal else "")
        yield Launch("attention", {**tensors, "S": size, "scale": 0.17}, constants, (-(-size // 64), heads), name)
