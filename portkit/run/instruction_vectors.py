"""Records the results of single instructions through a Triton kernel with inline assembly.

The kernel is the same for every probe and every GPU: it hands each lane the addresses of its rows to the probe's lines,
which load operands, run the instruction and store results. On a device it is launched; without one the very
binary is executed by :mod:`portkit.emulate`, and the recording says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.errors import TritonError

from portkit import __version__
from portkit.emulate import run
from portkit.emulate.amdgcn import architecture as amd
from portkit.emulate.amdgcn import probes as amd_probes
from portkit.emulate.amdgcn import replay as amd_replay
from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.operands import ROWS, operands_for
from portkit.emulate.core.replay import words_of
from portkit.emulate.core.vectors import EMULATOR, Origin, Probe, Recording
from portkit.emulate.ptx import architecture as nvidia
from portkit.emulate.ptx import matrix_probes as nvidia_products
from portkit.emulate.ptx import probes as nvidia_probes
from portkit.emulate.ptx import replay as nvidia_replay
from portkit.emulate.ptx.machine import LANES as WARP
from portkit.errors import HostError
from portkit.model import Status
from portkit.run.host import probe_host

Progress: TypeAlias = Callable[[int, int, str], None]


@triton.jit  # type: ignore[untyped-decorator]
def run_probe(  # type: ignore[no-untyped-def]  # noqa: ANN201
    operands,  # noqa: ANN001
    results,  # noqa: ANN001
    WIDTH: tl.constexpr,  # noqa: N803
    COUNT: tl.constexpr,  # noqa: N803
    ASM: tl.constexpr,  # noqa: N803
    CONSTRAINTS: tl.constexpr,  # noqa: N803
    LANES: tl.constexpr,  # noqa: N803
):
    """One probe on one row of operands a lane."""
    row = tl.program_id(0) * LANES + tl.arange(0, LANES)
    source = (operands + row * WIDTH).to(tl.int64)
    target = (results + row * COUNT).to(tl.int64)
    tl.inline_asm_elementwise(ASM, CONSTRAINTS, [source, target], dtype=tl.int32, is_pure=False, pack=1)


class ProbeRefusedError(Exception):
    """A probe that has no results here, with the reason."""


class ProbeDevice(Protocol):
    """What computes results."""

    origin: Origin

    def results(self, probe: Probe, operands: Words) -> Words:
        """``[rows, words]``.

        Raises:
            ProbeRefusedError: the assembler or the device refuses the instruction.
        """


class _Assembly(Protocol):
    """How an instruction set's probes become inline assembly."""

    isa: str
    backend: str  # Triton's name of it
    text: str  # under which Triton's compiled kernels keep the text
    constraints: str  # a result that nothing reads, the addresses of operands and results, what is changed

    def wave(self, architecture: str) -> int:
        """Lanes of one."""

    def lanes(self, probe: Probe, architecture: str) -> int:
        """That compute together: a workgroup of the probe's kernel."""

    def rows(self, probe: Probe) -> int:
        """Of operands."""

    def lines(self, probe: Probe, architecture: str) -> list[str]:
        """The probe's, and one for the result."""

    def probes(self, architecture: str) -> list[Probe]:
        """All of an architecture."""

    def other_form(self, probe: Probe, architecture: str) -> Probe | None:
        """The probe as other versions of the assembler take it."""

    def target(self, architecture: str) -> str | int:
        """The architecture as Triton names it."""


class _Amd:
    isa, backend, text = amd_replay.ISA, "hip", "amdgcn"
    constraints = ",".join(["=v", "v", "v", *(f"~{{{name}}}" for name in amd_probes.CLOBBERED)])

    def wave(self, architecture: str) -> int:
        return 64 if amd.ARCHITECTURES[architecture].generation in amd.CDNA else 32

    def lanes(self, probe: Probe, architecture: str) -> int:
        return self.wave(architecture)

    def rows(self, probe: Probe) -> int:
        return ROWS

    def lines(self, probe: Probe, architecture: str) -> list[str]:
        return [*amd_probes.body(probe, amd.ARCHITECTURES[architecture], "$1", "$2"), "v_mov_b32 $0, 0"]

    def probes(self, architecture: str) -> list[Probe]:
        return amd_probes.probes_of(amd.ARCHITECTURES[architecture])

    def other_form(self, probe: Probe, architecture: str) -> Probe | None:
        """Halves of registers have names or none."""
        return amd_probes.with_named_halves(probe) if self.wave(architecture) == 32 else None

    def target(self, architecture: str) -> str | int:
        return architecture


class _Nvidia:
    isa, backend, text = nvidia_replay.ISA, "cuda", "ptx"
    constraints = "=r,l,l,~{memory}"

    def wave(self, architecture: str) -> int:
        return WARP

    def lanes(self, probe: Probe, architecture: str) -> int:
        return nvidia_products.lanes_of(probe)

    def rows(self, probe: Probe) -> int:
        return nvidia_products.rows_of(probe) or ROWS

    def lines(self, probe: Probe, architecture: str) -> list[str]:
        return [*nvidia_probes.body(probe, "$1", "$2"), "mov.b32 $0, 0;"]

    def probes(self, architecture: str) -> list[Probe]:
        return nvidia_probes.probes_of(nvidia.ARCHITECTURES[architecture])

    def other_form(self, probe: Probe, architecture: str) -> Probe | None:
        return None

    def target(self, architecture: str) -> str | int:
        return int(architecture.removeprefix("sm_"))


ASSEMBLIES: dict[str, _Assembly] = {
    **dict.fromkeys(amd.ARCHITECTURES, _Amd()),
    **dict.fromkeys(nvidia.ARCHITECTURES, _Nvidia()),
}
"""Architecture → how its probes become inline assembly."""


def _constants(probe: Probe, architecture: str, width: int) -> dict[str, Any]:
    assembly = ASSEMBLIES[architecture]
    return {
        "WIDTH": width,
        "COUNT": words_of(probe),
        "ASM": "\n".join(assembly.lines(probe, architecture)),
        "CONSTRAINTS": assembly.constraints,
        "LANES": assembly.lanes(probe, architecture),
    }


def _grid(probe: Probe, architecture: str, rows: int) -> tuple[int, int]:
    """Workgroups, and waves of each."""
    assembly = ASSEMBLIES[architecture]
    lanes = assembly.lanes(probe, architecture)
    return rows // lanes, lanes // assembly.wave(architecture)


class Hardware:
    """The GPU of this host."""

    def __init__(self, device: int = 0) -> None:
        host = probe_host()
        found = {each.index: each for each in host.devices}
        if device not in found:
            raise HostError(
                "no GPU is here that torch can use", remedy="run this on a host with a GPU; see portkit doctor"
            )
        architecture = found[device].architecture
        _need_emulated(architecture)
        driver = " ".join(filter(None, (host.driver, host.toolkit)))
        isa = ASSEMBLIES[architecture].isa
        self.origin = Origin(isa, architecture, found[device].name, False, driver or None, host.triton, __version__)

    def results(self, probe: Probe, operands: Words) -> Words:
        """Launch the probe's kernel."""
        architecture = self.origin.architecture
        given = torch.from_numpy(operands.view(np.int32)).to("cuda")
        results = torch.zeros((len(operands), words_of(probe)), dtype=torch.int32, device="cuda")
        constants = _constants(probe, architecture, operands.shape[1])
        groups, waves = _grid(probe, architecture, len(operands))
        with _refusals(probe):
            run_probe[(groups,)](given, results, **constants, num_warps=waves)
        found: Words = results.cpu().numpy().view(np.uint32)
        return found


class Emulated:
    """The emulator in the place of a device: the binary is the device's, the results are no evidence of hardware."""

    def __init__(self, architecture: str) -> None:
        _need_emulated(architecture)
        isa = ASSEMBLIES[architecture].isa
        self.origin = Origin(isa, architecture, EMULATOR, True, None, triton.__version__, __version__)

    def results(self, probe: Probe, operands: Words) -> Words:
        """Compile the probe's kernel, and execute its assembly text."""
        architecture = self.origin.architecture
        groups, waves = _grid(probe, architecture, len(operands))
        text = _built(probe, architecture, operands.shape[1])
        results: Words = np.zeros((len(operands), words_of(probe)), np.uint32)
        done = run(text, architecture, (groups,), [np.ascontiguousarray(operands), results], waves)
        if done.outcome.status is not Status.PASSED:
            raise ProbeRefusedError(f"{done.outcome.status}: {done.outcome.message}")
        return results


def _need_emulated(architecture: str) -> None:
    if architecture not in ASSEMBLIES:
        known = ", ".join(ASSEMBLIES)
        raise HostError(
            f"{architecture} is not emulated, so nothing could be held against it", remedy=f"one of {known}"
        )


def _built(probe: Probe, architecture: str, width: int) -> str:
    """Text of a probe's kernel."""
    constants = _constants(probe, architecture, width)
    types = {"operands": "*i32", "results": "*i32", **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(run_probe, types, constexprs=constants)
    assembly = ASSEMBLIES[architecture]
    wave = assembly.wave(architecture)
    target, options = (
        GPUTarget(assembly.backend, assembly.target(architecture), wave),
        {"num_warps": constants["LANES"] // wave},
    )
    with _refusals(probe):
        return str(triton.compile(source, target=target, options=options).asm[assembly.text])


_ERROR = re.compile(r"(?<!PTXAS )error *: (.*)")
"""What an assembler says of a line; Triton puts a heading before NVIDIA's."""


@contextlib.contextmanager
def _refusals(probe: Probe) -> Iterator[None]:
    """Turns an error of the assembler, which LLVM prints and NVIDIA's returns, into a refusal."""
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except (RuntimeError, TritonError) as error:
            said.seek(0)
            told = said.read().decode(errors="replace") + str(error)
            why = _ERROR.search(told)
            raise ProbeRefusedError(f"{probe.mnemonic}: {why[1] if why else str(error).splitlines()[0]}") from None
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def record(
    device: ProbeDevice, probes: Sequence[Probe] | None = None, progress: Progress | None = None, seed: int = 0
) -> Recording:
    """Results of all probes of a device's architecture.

    Args:
        device: what computes them.
        probes: those to run; all where None.
        progress: told number, total and name before each.
        seed: of the operands' chance.
    """
    architecture = device.origin.architecture
    assembly = ASSEMBLIES[architecture]
    chosen = assembly.probes(architecture) if probes is None else list(probes)
    operands: dict[str, Words] = {
        probe.operands: operands_for(probe.sources, assembly.rows(probe), seed) for probe in chosen
    }
    results: dict[str, Words] = {}
    refused: dict[str, str] = {}
    taken: list[Probe] = []
    for number, probe in enumerate(chosen):
        if progress:
            progress(number, len(chosen), probe.name)
        try:
            form, results[probe.name] = _results(device, probe, operands[probe.operands])
        except ProbeRefusedError as why:
            form, refused[probe.name] = probe, str(why)
        taken.append(form)
    return Recording(device.origin, tuple(taken), operands, results, refused)


def _results(device: ProbeDevice, probe: Probe, operands: Words) -> tuple[Probe, Words]:
    """Results of a probe, in the form that this Triton's assembler takes."""
    try:
        return probe, device.results(probe, operands)
    except ProbeRefusedError:
        architecture = device.origin.architecture
        named = ASSEMBLIES[architecture].other_form(probe, architecture)
        if named is None:
            raise
        return named, device.results(named, operands)
