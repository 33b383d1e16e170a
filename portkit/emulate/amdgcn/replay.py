"""Runs probes in the emulator, within a kernel of this module's own, and holds recorded results against them."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.emulate.amdgcn.architecture import ARCHITECTURES, CDNA, Architecture
from portkit.emulate.amdgcn.isa.lookup import all_entries
from portkit.emulate.amdgcn.launch import run
from portkit.emulate.amdgcn.probes import body
from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.launch import Emulation, Options
from portkit.emulate.core.operands import without_signs
from portkit.emulate.core.replay import need_emulated, results_by, words_of
from portkit.emulate.core.vectors import (
    EXACT,
    Approximation,
    Array,
    Comparison,
    Probe,
    Recording,
    compare,
    elements,
    kind_of,
    values_of,
)

ISA = "amdgcn"


def comparisons(recording: Recording, name: str) -> Iterator[Comparison]:
    """Each recorded probe against the emulator.

    Args:
        recording: of an AMD architecture.
        name: of the file, for errors.

    Raises:
        VectorsError: of another instruction set or architecture, or with lines that the emulator can't run.
    """
    architecture = ARCHITECTURES[need_emulated(recording, ISA, ARCHITECTURES, name)]
    for probe in recording.probes:
        if probe.name not in recording.refused:
            yield _compared(recording, probe, architecture, name)


def _compared(recording: Recording, probe: Probe, architecture: Architecture, name: str) -> Comparison:
    operands, recorded = recording.operands[probe.operands], recording.results[probe.name]
    bound = _approximation(probe)
    sizes = _sizes(probe, operands, architecture, name) if bound.relative else None
    computed = results_of(probe, operands, architecture, name)
    return compare(probe, operands, recorded, computed, bound.bound, sizes)


def _approximation(probe: Probe) -> Approximation:
    entry = all_entries().get(probe.mnemonic)
    return entry.approximation or EXACT if entry else EXACT


def _sizes(probe: Probe, operands: Words, architecture: Architecture, name: str) -> Array:
    """The sum of the sizes of all products and of the addend: the result of positive operands."""
    sums = results_of(probe, without_signs(operands, probe.sources), architecture, name)
    kind = kind_of(probe.results[0])
    return values_of(elements(sums[:, : kind.words], kind), kind)


def results_of(probe: Probe, operands: Words, architecture: Architecture, name: str = "") -> Words:
    """What the emulator computes: ``[rows, words]``.

    Raises:
        VectorsError: it can't run the lines.
    """
    lanes = 64 if architecture.generation in CDNA else 32
    text = _kernel(probe, architecture, lanes, operands.shape[1], words_of(probe))

    def launch(groups: int, given: Words, results: Words) -> Emulation:
        return run(text, architecture.name, (groups,), [given, results], options=Options(check=False))

    return results_by(launch, probe, operands, lanes, name)


_FRAME = """\t.amdgcn_target "amdgcn-amd-amdhsa--{architecture}"
\t.text
\t.globl\tprobe
\t.p2align\t8
probe:
{lines}
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel probe
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_next_free_vgpr 96
\t\t.amdhsa_next_free_sgpr 64
{accumulation}\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .name:           operands
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .name:           results
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: {lanes}
    .name:           probe
    .private_segment_fixed_size: 0
    .wavefront_size: {lanes}
...
\t.end_amdgpu_metadata
"""


def _kernel(probe: Probe, architecture: Architecture, lanes: int, width: int, results: int) -> str:
    """Assembly text: addresses of a lane's rows to v[2:3] and v[4:5], and the probe's lines."""
    lines = [*_addresses(architecture, lanes, 4 * width, 4 * results), *body(probe, architecture, "v[2:3]", "v[4:5]")]
    return _FRAME.format(
        architecture=architecture.name,
        lines="\n".join(f"\t{line}" for line in lines),
        accumulation="\t\t.amdhsa_accum_offset 96\n" if architecture.generation in CDNA else "",
        lanes=lanes,
    )


def _addresses(architecture: Architecture, lanes: int, *widths: int) -> Iterator[str]:
    """Where the rows of a lane begin: base, plus its number times their bytes."""
    old = architecture.generation in CDNA
    load, mask = ("s_load_dwordx4", "vcc") if old else ("s_load_b128", "vcc_lo")
    carry, add = ("v_addc_co_u32", "v_add_u32") if old else ("v_add_co_ci_u32", "v_add_nc_u32")
    yield f"{load} s[4:7], s[0:1], 0x0"
    yield "s_wait_kmcnt 0x0" if architecture.ids_in_ttmp else "s_waitcnt lgkmcnt(0)"
    yield f"s_mul_i32 s8, {'ttmp9' if architecture.ids_in_ttmp else 's2'}, {lanes}"
    yield f"{add} v0, s8, v0"
    for number, width in enumerate(widths):
        base, target = 4 + 2 * number, 2 + 2 * number
        yield f"v_mul_u32_u24 v1, {width}, v0"
        yield f"v_mov_b32 v{target + 1}, s{base + 1}"
        yield f"v_add_co_u32 v{target}, {mask}, s{base}, v1"
        yield f"{carry} v{target + 1}, {mask}, 0, v{target + 1}, {mask}"
