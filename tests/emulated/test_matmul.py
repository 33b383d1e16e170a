"""Matrix products in every type that the matrix units take, on every architecture, against float64."""

import numpy as np
import pytest
import triton
import triton.language as tl
from compiled import build, from_bf16, to_bf16

from portkit.emulate.core.smallfloats import E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    SUM: tl.constexpr,
    ZERO: tl.constexpr,
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), SUM)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + row[:, None] * K + depth[None, :], mask=(row[:, None] < M) & (depth[None, :] < K), other=ZERO
        )
        b = tl.load(
            b_ptr + depth[:, None] * N + column[None, :], mask=(depth[:, None] < K) & (column[None, :] < N), other=ZERO
        )
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUM)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total.to(c_ptr.dtype.element_ty), mask=inside)


VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
EIGHT_BITS = {"fp8e4nv": E4M3, "fp8e5": E5M2, "fp8e4b8": E4M3_FNUZ, "fp8e5b16": E5M2_FNUZ}


def operand(rng, name, shape):
    """Values as the kernel takes them, and as float64."""
    x = rng.standard_normal(shape)
    if name == "bf16":
        return to_bf16(x), from_bf16(to_bf16(x))
    if name in EIGHT_BITS:
        codes = EIGHT_BITS[name].encode(x, saturate=True).astype(np.uint8)
        return codes, EIGHT_BITS[name].decode(codes).astype(np.float64)
    raw = (
        rng.integers(-128, 128, shape).astype(np.int8) if name == "i8" else x.astype({"fp16": "f2", "fp32": "f4"}[name])
    )
    return raw, raw.astype(np.float64)


def product(architecture, kinds, shape, blocks, *, precision="ieee", result="fp32", waves=4, **options):
    """Result and reference of one product; the reference is float64."""
    rows, columns, depth = shape
    rng = np.random.default_rng(11)
    a, exact_a = operand(rng, kinds[0], (rows, depth))
    b, exact_b = operand(rng, kinds[1], (depth, columns))
    c = np.zeros((rows, columns), {"fp32": np.float32, "i32": np.int32, "fp16": np.float16, "bf16": np.uint16}[result])
    signature = {
        "a_ptr": f"*{kinds[0]}",
        "b_ptr": f"*{kinds[1]}",
        "c_ptr": f"*{result}",
        "M": "i32",
        "N": "i32",
        "K": "i32",
    }
    constants = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    sums = {"i32": tl.int32, "fp16": tl.float16}.get(result, tl.float32)
    constants |= {"PRECISION": precision, "SUM": sums, "ZERO": 0 if result == "i32" else 0.0}
    aligned = not any(side % 16 for side in shape)
    built = build(matmul, architecture, signature, constants, waves=waves, aligned=aligned, **options)
    grid = (-(-rows // blocks[0]), -(-columns // blocks[1]))
    built.passes(grid, a, b, c, rows, columns, depth)
    return built, from_bf16(c) if result == "bf16" else c.astype(np.float64), exact_a @ exact_b


def error(got, reference):
    return np.abs(got - reference).max() / np.abs(reference).max()


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("shape", "blocks"), [((64, 64, 64), (32, 32, 32)), ((50, 40, 72), (32, 32, 32)), ((16, 16, 64), (16, 16, 32))]
)
def test_sixteen_bits(architecture, kind, shape, blocks):
    built, got, reference = product(architecture, (kind, kind), shape, blocks)
    assert ("v_mfma" if architecture.startswith("gfx9") else "v_wmma") in built.text
    assert error(got, reference) < 3e-7


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize("cdna", ["gfx942", "gfx950"])
def test_both_mfma_shapes(cdna, nonkdim):
    built, got, reference = product(cdna, ("bf16", "bf16"), (64, 64, 64), (64, 64, 32), matrix_instr_nonkdim=nonkdim)
    assert f"v_mfma_f32_{nonkdim}x{nonkdim}x" in built.text
    assert error(got, reference) < 3e-7


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_narrow_results(architecture, kind):
    _, got, reference = product(architecture, (kind, kind), (32, 32, 64), (32, 32, 32), result=kind)
    assert error(got, reference) < {"bf16": 2**-8, "fp16": 2**-8}[kind]


def test_float32_ieee(architecture):
    _, got, reference = product(architecture, ("fp32", "fp32"), (64, 32, 40), (32, 32, 32))
    assert error(got, reference) < 1e-6


def test_float32_at_reduced_precision():
    """gfx942 multiplies float32 as xf32 where the kernel lets it."""
    built, got, reference = product("gfx942", ("fp32", "fp32"), (64, 64, 64), (64, 64, 32), precision="tf32")
    assert "xf32" in built.text
    assert 1e-5 < error(got, reference) < 2e-3


def test_int8_is_exact(architecture):
    _, got, reference = product(architecture, ("i8", "i8"), (64, 64, 64), (32, 32, 32), result="i32")
    assert np.array_equal(got, reference)


NATIVE = {
    "gfx942": ("fp8e4b8", "fp8e5b16"),
    "gfx950": ("fp8e4nv", "fp8e5"),
    "gfx1100": ("fp8e4nv", "fp8e5"),
    "gfx1201": ("fp8e4nv", "fp8e5"),
}


def tile_of(architecture):
    """RDNA 3 converts each operand, in code that is long."""
    return (32, 32, 32) if architecture == "gfx1100" else (64, 64, 64)


@pytest.mark.parametrize("which", [0, 1])
def test_eight_bit_floats(architecture, which):
    kind, tile = NATIVE[architecture][which], tile_of(architecture)
    _, got, reference = product(architecture, (kind, kind), tile, tile)
    assert error(got, reference) < 1e-6


def test_two_kinds_of_eight_bit_floats(architecture):
    if VERSION < (3, 7) and architecture == "gfx1201":
        pytest.skip("Triton before 3.7 does not build it")
    tile = tile_of(architecture)
    built, got, reference = product(architecture, NATIVE[architecture], tile, tile)
    if VERSION < (3, 7) and architecture == "gfx942":
        # A and B change places for a transposed result, and the instruction's name keeps their first order.
        assert "v_mfma_f32_32x32x16_fp8_bf8" in built.text
        assert error(got, reference) > 0.1
    else:
        assert error(got, reference) < 1e-6


@pytest.mark.parametrize("stages", [1, 3])
def test_pipelined(architecture, stages):
    _, got, reference = product(architecture, ("bf16", "bf16"), (64, 64, 256), (64, 64, 64), num_stages=stages)
    assert error(got, reference) < 3e-7


@pytest.mark.skipif(VERSION < (3, 6), reason="Triton 3.5 makes no asynchronous copies of this kernel")
@pytest.mark.parametrize("stages", [2, 3])
def test_loads_that_go_to_lds(stages, monkeypatch):
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    built, got, reference = product("gfx950", ("bf16", "bf16"), (64, 64, 256), (64, 64, 64), num_stages=stages)
    assert " lds\n" in built.text
    assert error(got, reference) < 3e-7


@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 64), (64, 4)])
def test_products_with_blocks_that_share_an_operand(architecture, rows, columns):
    """Four rows or columns: 4x4 blocks side by side, one of whose operands is broadcast to all."""
    depth, rng = 128, np.random.default_rng(5)
    (a, x), (b, y) = operand(rng, "fp16", (rows, depth)), operand(rng, "fp16", (depth, columns))
    c = np.zeros((rows, columns), np.float32)
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32"} | dict.fromkeys("MNK", "i32")
    constants = {"BM": rows, "BN": columns, "BK": 64, "PRECISION": "ieee", "SUM": tl.float32, "ZERO": 0.0}
    kernel = build(matmul, architecture, signature, constants, waves=1, aligned=False)
    assert "cbsz:4 abid:15" in kernel.text
    kernel.passes((1, 1), a, b, c, rows, columns, depth)
    assert np.abs(c - x @ y).max() <= 2.0**-20 * depth
