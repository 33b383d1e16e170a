"""What a build says of each AMD architecture: registers of both kinds, spills, LDS, waves, and its matrix path."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from occupancy_kernels import row_softmax
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from portkit.run.binaries.amdgcn_text import (
    ALLOCATED,
    DOT,
    MFMA,
    WAVES,
    WMMA,
    allocated_registers,
    assembly_figures,
)
from portkit.run.binaries.hsaco import undefined_symbols
from portkit.run.capture import kernel_resources
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import waves_per_simd

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201")
NOTES = ("vgpr_count", "sgpr_count", "vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")


@triton.jit
def product(x, y, out, SIDE: tl.constexpr):
    rows = tl.arange(0, SIDE)
    at = rows[:, None] * SIDE + rows[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at)))


def build(kernel, arch, signature, constants, **options):
    target = load_catalog().get(arch)
    source = ASTSource(kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
    limits = target.architecture
    compiled = triton.compile(source, target=GPUTarget("hip", arch, limits.wave_size), options=options)
    return kernel_resources(compiled, target), limits


@pytest.mark.parametrize("arch", [*CDNA, *RDNA])
def test_a_product_takes_the_matrix_path_of_its_architecture(arch):
    pointers = {"x": "*fp16", "y": "*fp16", "out": "*fp32"}
    resources, limits = build(product, arch, pointers, {"SIDE": 32}, num_warps=4)
    raw = resources.raw
    assert (raw[MFMA] > 0, raw[WMMA] > 0) == (arch in CDNA, arch in RDNA)
    assert set(NOTES) <= set(raw)
    assert ("agpr_count" in raw) == (arch in CDNA)
    assert resources.warp_size == raw["wavefront_size"] == limits.wave_size
    assert raw[WAVES] == waves_per_simd(limits, allocated_registers(resources), raw["sgpr_count"])


@pytest.mark.parametrize(("arch", "waves"), [("gfx942", 2), ("gfx1100", 5), ("gfx1150", 4), ("gfx1201", 5)])
def test_an_option_for_few_waves_takes_the_room_of_others(arch, waves):
    """On RDNA no wave can have more than 256 registers, which leave room for more waves than two."""
    pointers = {"x": "*fp16", "y": "*fp16", "out": "*fp32"}
    resources, limits = build(product, arch, pointers, {"SIDE": 32}, num_warps=4, waves_per_eu=2)
    raw = resources.raw
    assert raw[ALLOCATED] > resources.registers_per_thread == raw["vgpr_count"]
    assert raw[WAVES] == waves_per_simd(limits, allocated_registers(resources), raw["sgpr_count"]) == waves


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_rows_take_no_matrix_path_and_their_lds_is_of_the_launch(arch):
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    resources, _ = build(row_softmax, arch, signature, {"BLOCK": 4096}, num_warps=8)
    assert (resources.raw[MFMA], resources.raw[WMMA]) == (0, 0)
    assert resources.shared_bytes_per_block > 0
    assert resources.raw["group_segment_fixed_size"] == 0


def test_a_code_object_defines_all_that_it_uses():
    constants = {"BLOCK": 256}
    source = ASTSource(row_softmax, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constants)
    compiled = triton.compile(source, target=GPUTarget("hip", "gfx942", 64))
    assert undefined_symbols(compiled.asm["hsaco"]) == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("v_mfma_f32_32x32x8_bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]", MFMA),
        ("v_smfmac_f32_16x16x32_f16 a[0:3], v[0:1], v[2:5], v6", MFMA),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", WMMA),
        ("v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[12:19], v20", WMMA),
        ("v_dot2_f32_f16 v0, v1, v2, v0", DOT),
        ("v_fma_f32 v0, v1, v2, v3", None),
        ("; v_mfma in a comment", None),
    ],
)
def test_instructions_are_told_apart(line, name):
    found = assembly_figures(f"k:\n\t{line}\n\ts_endpgm\n; Occupancy: 8\n")
    assert {key for key in (MFMA, WMMA, DOT) if found[key]} == ({name} if name else set())
    assert found[WAVES] == 8


def test_a_text_without_llvm_s_comments_has_no_waves():
    assert WAVES not in assembly_figures("k:\n\ts_endpgm\n")
