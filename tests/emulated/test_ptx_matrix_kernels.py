"""Matrix products, attention and copies that Triton compiles for NVIDIA, run in the emulator, against float64."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build, from_bf16, to_bf16

from portkit.emulate.core.smallfloats import E2M1, E4M3, E5M2, scale_of

VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
EIGHT_BITS = {"fp8e4nv": E4M3, "fp8e5": E5M2}


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.trans(tl.load(b_ptr + n[:, None] * K + k[None, :]))
        total = tl.dot(a, b, total, out_dtype=ACC)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@triton.jit
def promoted(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, BK: tl.constexpr, MOST: tl.constexpr):
    row = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + row[:, None] * K + k[None, :])
        b = tl.trans(tl.load(b_ptr + row[:, None] * K + k[None, :]))
        total = tl.dot(a, b, total, max_num_imprecise_acc=MOST)
    tl.store(c_ptr + row[:, None] * B + row[None, :], total)


@triton.jit
def described(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0), warp_specialize=WS):
        m = tile // across * BM
        n = tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
        c.store([m, n], total.to(c_ptr.dtype.element_ty))


@triton.jit
def beyond(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [B, K], [K, 1], [B, BK])
    b = tl.make_tensor_descriptor(b_ptr, [B, K], [K, 1], [B, BK])
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K + 3 * BK, BK):
        total = tl.dot(a.load([0, k]), b.load([0, k]).T, total)
    row = tl.arange(0, B)
    tl.store(c_ptr + row[:, None] * B + row[None, :], total)


@triton.jit
def scaled(
    a_ptr, p_ptr, b_ptr, q_ptr, c_ptr, N, K, FORMAT: tl.constexpr, PER: tl.constexpr, RUN: tl.constexpr, B: tl.constexpr
):
    row = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, K, B):
        k = start // PER + tl.arange(0, B // PER)
        s = start // RUN + tl.arange(0, B // RUN)
        a = tl.load(a_ptr + row[:, None] * (K // PER) + k[None, :])
        b = tl.trans(tl.load(b_ptr + row[:, None] * (K // PER) + k[None, :]))
        p = tl.load(p_ptr + row[:, None] * (K // RUN) + s[None, :])
        q = tl.load(q_ptr + row[:, None] * (K // RUN) + s[None, :])
        total = tl.dot_scaled(a, p, FORMAT, b, q, FORMAT, total)
    tl.store(c_ptr + row[:, None] * N + row[None, :], total)


@triton.jit
def add_rows(a_ptr, c_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, N], [N, 1], [BM, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    c.atomic_add([tl.program_id(0) * BM, 0], a.load([tl.program_id(0) * BM, 0]))


def operand(rng, kind, shape):
    """Values as a kernel takes them, and as float64."""
    x = rng.standard_normal(shape)
    if kind == "bf16":
        bits = to_bf16(x.astype(np.float32))
        return bits, from_bf16(bits).astype(float)
    if kind in EIGHT_BITS:
        codes = EIGHT_BITS[kind].encode(x, True).astype(np.uint8)
        return codes, EIGHT_BITS[kind].decode(codes).astype(float)
    dtype = {"fp16": "f2", "fp32": "f4", "fp64": "f8", "i8": "i1"}[kind]
    values = (x * 40).astype(dtype) if kind == "i8" else x.astype(dtype)
    return values, values.astype(float)


SUMS = {
    "fp16": (tl.float16, "f2", 3e-3),
    "fp32": (tl.float32, "f4", 3e-6),
    "i32": (tl.int32, "i4", 0),
    "fp64": (tl.float64, "f8", 1e-15),
}
KINDS = (
    ("fp16", "fp32"),
    ("fp16", "fp16"),
    ("bf16", "fp32"),
    ("fp32", "fp32"),
    ("i8", "i32"),
    ("fp8e5", "fp32"),
)


def check_product(architecture, kind, result, size=64, depth=192, waves=4):
    accumulator, dtype, limit = SUMS[result]
    signature = {"a_ptr": f"*{kind}", "b_ptr": f"*{kind}", "c_ptr": f"*{result}", "N": "i32", "K": "i32"}
    constants = {"BM": size, "BN": size, "BK": min(64, depth), "ACC": accumulator}
    built = build(matmul, architecture, signature, constants, waves=waves, num_stages=3)
    rng = np.random.default_rng(0)
    (a, x), (b, y) = operand(rng, kind, (2 * size, depth)), operand(rng, kind, (size, depth))
    found = np.zeros((2 * size, size), dtype)
    built.passes((2, 1), a, b, found, size, depth)
    limit = {"fp32": 2e-3, **dict.fromkeys(EIGHT_BITS, 1e-3)}.get(kind, limit) if result == "fp32" else limit
    sizes = np.abs(x) @ np.abs(y).T
    assert (np.abs(found.astype(float) - x @ y.T) <= limit * sizes).all()
    return built


PRODUCTS = [
    ("sm_80", "fp16", "fp32", "mma.sync"),
    ("sm_80", "fp64", "fp64", "m8n8k4"),
    ("sm_89", "fp8e4nv", "fp32", "m16n8k32"),
    ("sm_90", "fp16", "fp16", "wgmma"),
    ("sm_90", "fp8e5", "fp32", "wgmma"),
    ("sm_90", "fp32", "fp32", "k8.f32.tf32"),
    ("sm_90", "i8", "i32", "wgmma"),
    ("sm_100", "bf16", "fp32", "kind::f16"),
    ("sm_100", "fp8e4nv", "fp32", "kind::f8f6f4"),
    ("sm_100", "fp16", "fp16", "pack::16b"),
    ("sm_120", "fp8e5", "fp16", "m16n8k32"),
]
REST = [
    (architecture, kind, result)
    for architecture in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
    for kind, result in KINDS
]


@pytest.mark.parametrize(("architecture", "kind", "result", "part"), PRODUCTS)
def test_products(architecture, kind, result, part):
    assert part in check_product(architecture, kind, result, depth=64 if kind == "fp64" else 192).text


def skip_unknown(architecture):
    if architecture == "sm_103" and VERSION < (3, 6):
        pytest.skip("the ptxas of Triton 3.5 does not know it")


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "kind", "result"), REST)
def test_more_products(architecture, kind, result):
    skip_unknown(architecture)
    check_product(architecture, kind, result)
    check_product(architecture, kind, result, size=128, waves=8)


def check_descriptors(architecture, kind, specialised):
    signature = {"a_ptr": f"*{kind}", "b_ptr": f"*{kind}", "c_ptr": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 128, "BN": 64, "BK": 64, "WS": specialised}
    built = build(described, architecture, signature, constants, num_stages=3)
    rng, (m, n, k) = np.random.default_rng(1), (240, 80, 176)
    (a, x), (b, y) = operand(rng, kind, (m, k)), operand(rng, kind, (n, k))
    found, scratch = np.zeros((m, n), np.float16), np.zeros(1 << 14, np.uint8)
    built.passes((2,), a, b, found, m, n, k, scratch)
    assert np.allclose(found.astype(float), x @ y.T, rtol=2e-3, atol=2e-2 * np.abs(x).max())
    return built.text


@pytest.mark.parametrize(("architecture", "specialised"), [("sm_90", False), ("sm_90", True), ("sm_100", True)])
def test_products_by_tensor_descriptors(architecture, specialised):
    if architecture == "sm_100" and VERSION == (3, 6):
        pytest.skip("Triton 3.6 fails to compile it")
    text = check_descriptors(architecture, "bf16", specialised)
    assert "cp.async.bulk.tensor.2d" in text
    assert ("setmaxnreg" in text) == (specialised and (architecture == "sm_90" or VERSION >= (3, 7)))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100", "sm_103", "sm_120"])
@pytest.mark.parametrize("kind", ["fp16", "fp8e4nv"])
@pytest.mark.parametrize("specialised", [False, True])
def test_more_products_by_tensor_descriptors(architecture, kind, specialised):
    skip_unknown(architecture)
    check_descriptors(architecture, kind, specialised)


RINGS = [
    ("bf16", True, 3, 4, (128, 64, 64)),
    ("bf16", True, 2, 4, (128, 128, 64)),
    ("fp16", True, 4, 8, (128, 128, 64)),
    ("fp8e5", True, 3, 4, (128, 64, 64)),
    ("bf16", False, 4, 4, (64, 64, 64)),
    ("bf16", False, 2, 8, (128, 64, 32)),
    ("fp32", False, 3, 4, (64, 32, 32)),
    ("fp8e5", False, 3, 4, (64, 64, 128)),
]
"""Element type, whether warps are specialised, stages, warps and tiles of products by tensor descriptors."""


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("kind", "specialised", "stages", "waves", "tile"), RINGS)
def test_rings_of_slots_that_are_used_again(architecture, kind, specialised, stages, waves, tile):
    """Several tiles a block and more steps than slots: what is awaited of other warps is awaited in each."""
    if specialised and architecture != "sm_90" and VERSION == (3, 6):
        pytest.skip("Triton 3.6 fails to compile it")
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{kind}") | dict.fromkeys("MNK", "i32")
    constants = {**dict(zip(("BM", "BN", "BK"), tile, strict=True)), "WS": specialised}
    built = build(described, architecture, signature, constants, waves=waves, num_stages=stages)
    rng, (m, n, k) = np.random.default_rng(1), (4 * tile[0] - 16, tile[1], 5 * tile[2] + 16)
    (a, _), (b, _) = operand(rng, kind, (m, k)), operand(rng, kind, (n, k))
    built.passes((1,), a, b, np.zeros((m, n), a.dtype), m, n, k, np.zeros(1 << 15, np.uint8))


SCALED = [("e4m3", 1, 32, "u8"), ("e2m1", 2, 32, "u8"), ("e2m1", 2, 16, "fp8e4nv")]


@pytest.mark.parametrize("architecture", ["sm_100", "sm_120"])
@pytest.mark.parametrize(("kind", "per", "run", "scale"), SCALED)
def test_block_scaled_products(architecture, kind, per, run, scale):
    """Triton 3.5 multiplies by the scales itself on sm_120, and has no code for those of 8-bit floats."""
    early = architecture == "sm_120" and VERSION < (3, 6)
    if early and scale == "fp8e4nv":
        pytest.skip("Triton 3.5 fails to compile it")
    element = "*u8" if kind == "e2m1" else "*fp8e4nv"
    names = {"a_ptr": element, "b_ptr": element, "p_ptr": f"*{scale}", "q_ptr": f"*{scale}"}
    signature = {**names, "c_ptr": "*fp32", "N": "i32", "K": "i32"}
    constants = {"FORMAT": kind, "PER": per, "RUN": run, "B": 128}
    built = build(scaled, architecture, signature, constants)
    assert ("block_scale" in built.text) is not early
    rng, depth = np.random.default_rng(2), 256
    (a, x), (b, y) = (scaled_operand(rng, kind, depth) for _ in range(2))
    (p, u), (q, v) = (scales(rng, scale, depth // run) for _ in range(2))
    found = np.zeros((128, 128), np.float32)
    built.passes((1,), a, p, b, q, found, 128, depth)
    x, y = x * np.repeat(u, run, axis=1), y * np.repeat(v, run, axis=1)
    assert (np.abs(found - x @ y.T) <= 3e-6 * (np.abs(x) @ np.abs(y).T)).all()


def scaled_operand(rng, kind, depth):
    if kind == "e4m3":
        return operand(rng, "fp8e4nv", (128, depth))
    codes = rng.integers(0, 16, (128, depth)).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, E2M1.decode(codes).astype(float)


def scales(rng, kind, count):
    if kind == "u8":
        codes = rng.integers(122, 133, (128, count)).astype(np.uint8)
        return codes, scale_of(codes)
    codes = E4M3.encode(rng.uniform(0.3, 4, (128, count)), True).astype(np.uint8)
    return codes, E4M3.decode(codes).astype(float)


@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_boxes_outside_their_tensor_are_zeros(architecture):
    signature = dict.fromkeys(("a_ptr", "b_ptr"), "*fp16") | {"c_ptr": "*fp32", "K": "i32"}
    kernel = build(beyond, architecture, signature, {"B": 64, "BK": 64}, num_stages=3)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 128)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    kernel.passes((1,), a, b, c, 128, np.zeros(1 << 12, np.uint8))
    assert np.allclose(c, a.astype(float) @ b.astype(float).T, atol=1e-3)


@pytest.mark.parametrize("most", [32, 64, 128])
def test_partial_sums_of_bytes_are_added_within_their_group(most):
    """The compiler adds results of ``wgmma`` before it commits them; the assembler waits for them (its note C7517)."""
    signature = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*fp32", "K": "i32"}
    kernel = build(promoted, "sm_90", signature, {"B": 64, "BK": 128, "MOST": most})
    rng = np.random.default_rng(most)
    (a, x), (b, y) = (operand(rng, "fp8e4nv", (64, 256)) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    kernel.passes((1,), a, b, c, 256)
    assert np.allclose(c, x @ y.T, rtol=0, atol=2.0**-13 * 256)


def test_rows_are_added_by_tensor_reductions():
    signature = {"a_ptr": "*fp32", "c_ptr": "*fp32", "M": "i32", "N": "i32"}
    built = build(add_rows, "sm_90", signature, {"BM": 32, "BN": 64})
    rng = np.random.default_rng(3)
    a, c = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    expected = a + c
    built.passes((2,), a, c, 64, 64, np.zeros(1 << 12, np.uint8))
    assert np.array_equal(c, expected)
