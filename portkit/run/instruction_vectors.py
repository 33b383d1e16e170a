"""Records the results of single instructions through a Triton kernel with inline assembly.

The kernel is the same for every probe and every AMD GPU: it hands each lane the addresses of its rows to the probe's
lines, which load operands, run the instruction and store results. On a device it is launched; without one the very
binary is executed by :mod:`portkit.emulate`, and the recording says so.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from portkit import __version__
from portkit.emulate import run
from portkit.emulate.amdgcn.architecture import ARCHITECTURES, CDNA
from portkit.emulate.amdgcn.probes import CLOBBERED, body, operands_for, probes_of, with_named_halves
from portkit.emulate.amdgcn.replay import ISA
from portkit.emulate.core.bytestore import Words
from portkit.emulate.core.vectors import EMULATOR, Origin, Probe, Recording, kind_of
from portkit.errors import HostError
from portkit.model import Status
from portkit.run.host import probe_host

CONSTRAINTS = tl.constexpr(",".join(["=v", "v", "v", *(f"~{{{name}}}" for name in CLOBBERED)]))
"""Of the inline assembly: a result that nothing reads, the addresses of operands and results, what is changed."""

Progress: TypeAlias = Callable[[int, int, str], None]


@triton.jit  # type: ignore[untyped-decorator]
def run_probe(operands, results, WIDTH: tl.constexpr, COUNT: tl.constexpr, ASM: tl.constexpr, LANES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
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


def _lanes(architecture: str) -> int:
    return 64 if ARCHITECTURES[architecture].generation in CDNA else 32


def _constants(probe: Probe, architecture: str, width: int) -> dict[str, Any]:
    lines = body(probe, ARCHITECTURES[architecture], "$1", "$2")
    return {
        "WIDTH": width,
        "COUNT": _words(probe),
        "ASM": "\n".join([*lines, "v_mov_b32 $0, 0"]),
        "LANES": _lanes(architecture),
    }


def _words(probe: Probe) -> int:
    return sum(kind_of(kind).words for kind in probe.results)


class Hardware:
    """The AMD GPU of this host."""

    def __init__(self, device: int = 0) -> None:
        host = probe_host()
        found = {each.index: each for each in host.devices}
        if device not in found:
            raise HostError(
                "no GPU is here that torch can use", remedy="run this on a host with an AMD GPU; see portkit doctor"
            )
        if torch.version.hip is None:
            message = f"{found[device].name} is NVIDIA's; only AMD's instructions can be recorded so far"
            raise HostError(message, remedy="run this on a host with an AMD GPU")
        architecture = found[device].architecture
        _need_emulated(architecture)
        driver = " ".join(filter(None, (host.driver, host.toolkit)))
        self.origin = Origin(ISA, architecture, found[device].name, False, driver or None, host.triton, __version__)

    def results(self, probe: Probe, operands: Words) -> Words:
        """Launch the probe's kernel."""
        architecture = self.origin.architecture
        given = torch.from_numpy(operands.view(np.int32)).to("cuda")
        results = torch.zeros((len(operands), _words(probe)), dtype=torch.int32, device="cuda")
        constants = _constants(probe, architecture, operands.shape[1])
        with _refusals(probe):
            run_probe[(len(operands) // constants["LANES"],)](given, results, **constants, num_warps=1)
        found: Words = results.cpu().numpy().view(np.uint32)
        return found


class Emulated:
    """The emulator in the place of a device: the binary is the device's, the results are no evidence of hardware."""

    def __init__(self, architecture: str) -> None:
        _need_emulated(architecture)
        self.origin = Origin(ISA, architecture, EMULATOR, True, None, triton.__version__, __version__)

    def results(self, probe: Probe, operands: Words) -> Words:
        """Compile the probe's kernel, and execute its assembly text."""
        architecture, lanes = self.origin.architecture, _lanes(self.origin.architecture)
        text = _built(probe, architecture, operands.shape[1])
        results: Words = np.zeros((len(operands), _words(probe)), np.uint32)
        done = run(text, architecture, (len(operands) // lanes,), [np.ascontiguousarray(operands), results])
        if done.outcome.status is not Status.PASSED:
            raise ProbeRefusedError(f"{done.outcome.status}: {done.outcome.message}")
        return results


def _need_emulated(architecture: str) -> None:
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise HostError(
            f"{architecture} is not emulated, so nothing could be held against it", remedy=f"one of {known}"
        )


def _built(probe: Probe, architecture: str, width: int) -> str:
    """Assembly text of a probe's kernel."""
    constants = _constants(probe, architecture, width)
    types = {"operands": "*i32", "results": "*i32", **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(run_probe, types, constexprs=constants)
    target = GPUTarget("hip", architecture, constants["LANES"])
    with _refusals(probe):
        return str(triton.compile(source, target=target, options={"num_warps": 1}).asm["amdgcn"])


@contextlib.contextmanager
def _refusals(probe: Probe) -> Iterator[None]:
    """Turns an error of the assembler, which LLVM prints, into a refusal."""
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except RuntimeError as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            why = next((line.partition("error: ")[2] for line in lines if "error: " in line), str(error))
            raise ProbeRefusedError(f"{probe.mnemonic}: {why.splitlines()[0]}") from None
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def record(device: ProbeDevice, probes: Sequence[Probe] | None = None, progress: Progress | None = None) -> Recording:
    """Results of all probes of a device's architecture.

    Args:
        device: what computes them.
        probes: those to run; all where None.
        progress: told number, total and name before each.
    """
    chosen = probes_of(ARCHITECTURES[device.origin.architecture]) if probes is None else list(probes)
    operands: dict[str, Words] = {probe.operands: operands_for(probe.sources) for probe in chosen}
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
    """Results of a probe, in the form that this Triton's assembler takes: halves of registers have names or none."""
    try:
        return probe, device.results(probe, operands)
    except ProbeRefusedError:
        named = with_named_halves(probe) if _lanes(device.origin.architecture) == 32 else None
        if named is None:
            raise
        return named, device.results(named, operands)
