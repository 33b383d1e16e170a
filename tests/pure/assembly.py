"""Kernels in assembly, written around a few instructions, and their run in the emulator.

A kernel of one wave reads eight words a lane into v1 to v8, runs the instructions, and writes v10 to v13.
Scalar registers s8 to s15 are the instructions' own.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from portkit.emulate import Emulation, Options, run
from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.isa.lookup import all_entries

EDGES = np.array(
    [
        *(0x0000_0000, 0x8000_0000, 0x3F80_0000, 0xBF80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7FC1_2345),
        *(0x0000_0001, 0x8000_0001, 0x007F_FFFF, 0x0080_0000, 0x7F7F_FFFF, 0xFF7F_FFFF, 0x4B00_0001, 0xCF00_0000),
        *(0x4F00_0000, 0x4F7F_FFFF, 0x3EFF_FFFF, 0x3F00_0000, 0x3FC0_0000, 0x4020_0000, 0xFFFF_FFFF, 0x7FFF_FFFF),
        *(31, 32, 33, 0x0C0B_0A09, 0x0302_0100, 0x0706_0504, 0x3F7F_FFFF, 0x3380_0000, 0x5F00_0000, 0x1F00_0000),
    ],
    np.uint32,
)
"""Words that are edges of some type: zeros, units, infinities, NaNs, denormals, extremes, shift counts."""


@dataclass(frozen=True)
class Names:
    """Mnemonics that a kernel around the instructions needs, by generation."""

    load: str
    store: str
    scalar_load: str
    wait: str
    lanes: int


def names_of(architecture: str) -> Names:
    """By the first digits of the architecture."""
    if architecture.startswith("gfx9"):
        return Names(
            "global_load_dwordx4", "global_store_dwordx4", "s_load_dwordx4", "s_waitcnt vmcnt(0) lgkmcnt(0)", 64
        )
    wait = (
        "s_wait_loadcnt 0x0\n\ts_wait_kmcnt 0x0"
        if architecture.startswith("gfx12")
        else "s_waitcnt vmcnt(0) lgkmcnt(0)"
    )
    return Names("global_load_b128", "global_store_b128", "s_load_b128", wait, 32)


def kernel(
    architecture: str, body: str, *, directives: str = "", shared: int = 0, scratch: int = 0, waves: int = 1
) -> str:
    """Text of a kernel around some instructions; lanes of later waves use later rows."""
    names = names_of(architecture)
    accumulation = "\t\t.amdhsa_accum_offset 128\n" if architecture.startswith("gfx9") else ""
    return f"""\t.amdgcn_target "amdgcn-amd-amdhsa--{architecture}"
\t.text
\t.globl\tk
\t.p2align\t8
k:
\t{names.scalar_load} s[4:7], s[0:1], 0x0
\t{names.wait}
\tv_lshlrev_b32_e32 v20, 5, v0
\t{names.load} v[1:4], v20, s[4:5]
\t{names.load} v[5:8], v20, s[4:5] offset:16
\t{names.wait}
\tv_mov_b32_e32 v10, v7
\tv_mov_b32_e32 v11, v8
\tv_mov_b32_e32 v12, 0
\tv_mov_b32_e32 v13, 0
{body}
\tv_lshlrev_b32_e32 v20, 4, v0
\t{names.store} v20, v[10:13], s[6:7]
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel k
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_next_free_vgpr 256
\t\t.amdhsa_next_free_sgpr 32
{accumulation}{directives}\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .name:           x
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .name:           y
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: {shared}
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: {names.lanes * waves}
    .name:           k
    .private_segment_fixed_size: {scratch}
    .wavefront_size: {names.lanes}
...
\t.end_amdgpu_metadata
"""


@dataclass(frozen=True)
class Ran:
    """What a run left."""

    emulation: Emulation
    inputs: np.ndarray = field(repr=False)  # [lanes, 8] words, v1 to v8
    outputs: np.ndarray = field(repr=False)  # [lanes, 4] words, v10 to v13


def execute(architecture: str, body: str, inputs: np.ndarray | None = None, *, waves: int = 1, **parts) -> Ran:
    """Run a kernel around some instructions; asserts nothing.

    Without the checker, unless ``check`` is true: the instructions are under test, and wait for nothing.
    """
    lanes = names_of(architecture).lanes * waves
    inputs = edge_rows(lanes) if inputs is None else np.ascontiguousarray(inputs, np.uint32)
    outputs = np.zeros((lanes, 4), np.uint32)
    options = replace(parts.pop("options", Options()), check=parts.pop("check", False))
    text = kernel(architecture, "\n".join(f"\t{line}" for line in body.strip().splitlines()), waves=waves, **parts)
    return Ran(run(text, architecture, (1,), [inputs, outputs], options=options), inputs, outputs)


def computed(architecture: str, body: str, inputs: np.ndarray | None = None, **parts) -> Ran:
    """The same, for instructions that must run without a finding."""
    ran = execute(architecture, body, inputs, **parts)
    assert ran.emulation.outcome.status == "passed", ran.emulation.outcome
    return ran


def edge_rows(lanes: int, seed: int = 0) -> np.ndarray:
    """Eight words a lane: half of them edges, half of them any bits."""
    random = np.random.default_rng(seed)
    words = random.integers(0, 2**32, (lanes, 8), dtype=np.uint64).astype(np.uint32)
    return np.where(random.random((lanes, 8)) < 0.5, random.choice(EDGES, (lanes, 8)), words).astype(np.uint32)


REPRESENTATIVES = ("gfx942", "gfx1100", "gfx1201", "gfx950", "gfx90a")
"""One architecture a generation, in the order of preference."""


def architectures_of(name: str) -> list[str]:
    """Where an entry is tested: gfx942, gfx1100 and gfx1201 as far as they have it, else the first that has."""
    having = [item for item in REPRESENTATIVES if ARCHITECTURES[item].generation in all_entries()[name].generations]
    return [item for item in having if item in REPRESENTATIVES[:3]] or having[:1]


def everywhere(names) -> list:
    """Parameters (architecture, name) of entries, with ids that name both."""
    return [pytest.param(a, name, id=f"{a}-{name}") for name in names for a in architectures_of(name)]
