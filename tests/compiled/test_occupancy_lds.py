"""Occupancy by LDS against LLVM's line, which knows static LDS alone: so the kernels here are IR and not Triton's."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from triton._C.libtriton import llvm

from portkit.model import Platform
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import broken_limits, occupancy

ROCM = [arch for arch in load_catalog().architectures if arch.platform is Platform.ROCM]
CASES = 12

KERNEL = """
target triple = "amdgcn-amd-amdhsa"
@lds = internal addrspace(3) global [{lds} x i8] undef, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %n) #0 {{
  %a = getelementptr [{lds} x i8], ptr addrspace(3) @lds, i32 0, i32 %n
  %v = load volatile i8, ptr addrspace(3) %a
  store volatile i8 1, ptr addrspace(3) %a
  store i8 %v, ptr addrspace(1) %p
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="{threads},{threads}" "uniform-work-group-size"="true" }}
"""


def llvm_waves(arch: str, lds: int, threads: int) -> int:
    """Waves per SIMD as LLVM writes them for a kernel of so much static LDS and few registers."""
    llvm.init_targets()
    text = KERNEL.format(lds=lds, threads=threads)
    assembly = llvm.translate_to_asm(text, "amdgcn-amd-amdhsa", arch, "", [], False, False)
    assert int(re.search(r"; LDSByteSize: (\d+)", assembly)[1]) == lds
    return int(re.search(r"; Occupancy: (\d+)", assembly)[1])


def our_waves(arch, lds: int, threads: int) -> int:
    """Waves per SIMD by portkit's rule; a workgroup of few waves leaves SIMDs empty, and LLVM counts the fullest."""
    found = occupancy(arch, registers=8, shared_bytes=lds, threads=threads)
    return -(-found.waves_per_unit // arch.simds_per_unit)


@pytest.mark.parametrize("arch", ROCM, ids=lambda arch: arch.name)
def test_waves_per_simd_by_lds_are_llvm_s(arch):
    """But for the granule, which LLVM's line leaves out: the rule is compared without it, too."""
    draw = random.Random(arch.name)
    unrounded = replace(arch, shared_granule=1)
    for _ in range(CASES):
        threads = arch.wave_size * 2 ** draw.randint(0, 4)
        if threads > arch.max_threads_per_block:
            continue
        lds = draw.randrange(1024, arch.shared_bytes_per_block_max + 1, 4)
        assert not broken_limits(arch, threads=threads, shared_bytes=lds, registers=8)
        expected = llvm_waves(arch.name, lds, threads)
        assert our_waves(unrounded, lds, threads) == expected, (lds, threads)
        assert our_waves(arch, lds, threads) <= expected


def test_the_granule_of_gfx950_costs_a_workgroup():
    """Five of 32 KiB fill 160 KiB to the byte; allocated in steps of 1280 B, four fit."""
    arch = load_catalog().get("gfx950").architecture
    assert (our_waves(arch, 32_768, 256), llvm_waves("gfx950", 32_768, 256)) == (4, 5)


def test_a_wgp_has_128_kib():
    """LLVM and this rule say so; HIP's occupancy call counts 64."""
    arch = load_catalog().get("gfx1100").architecture
    assert our_waves(arch, 32_768, 256) == llvm_waves("gfx1100", 32_768, 256) == 8
