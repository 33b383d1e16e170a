"""Compiles a Triton kernel for an architecture, and launches it in the emulator."""

from dataclasses import dataclass

import numpy as np
import triton
from packaging.version import Version
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from portkit.emulate import Emulation, Options, run

OPTIONS = Options(fenced_copies=Version(triton.__version__) >= Version("3.7"))
"""Of launches, as a run has them: Triton fences what ``cp.async`` wrote from 3.7 on."""

WAVE_SIZE = {"gfx9": 64, "gfx1": 32}


@dataclass(frozen=True)
class Built:
    """Assembly of one kernel."""

    text: str
    architecture: str
    waves: int
    shared_bytes: int

    def launch(self, grid, *values, options: Options | None = None, waves: int | None = None) -> Emulation:
        """Run it; buffers are written in place."""
        return run(
            self.text, self.architecture, grid, values, waves or self.waves, self.shared_bytes, options or OPTIONS
        )

    def passes(self, grid, *values, options: Options | None = None) -> Emulation:
        """Run it, and assert that nothing was found."""
        done = self.launch(grid, *values, options=options)
        assert done.outcome.status == "passed", done.outcome
        return done


def build(kernel, architecture, signature, constants, *, waves=4, aligned=True, ranged=True, **options) -> Built:
    """Compile for an architecture.

    Args:
        kernel: a ``triton.jit`` function.
        architecture: such as ``gfx942``.
        signature: argument → type, such as ``{"x_ptr": "*fp32", "n": "i32"}``.
        constants: constexpr arguments.
        waves: Triton's num_warps.
        aligned: whether integers are multiples of 16, as the launcher would find them.
        ranged: whether pointers are known to span less than 2 GiB, which makes buffer instructions of accesses.
        options: more of Triton's, such as num_stages.
    """
    types = {name: signature.get(name, "constexpr") for name in kernel.arg_names}
    attributes = {
        (place,): _attributes(kind, architecture, aligned, ranged) for place, kind in enumerate(types.values())
    }
    source = ASTSource(kernel, types, constexprs=constants, attrs={k: v for k, v in attributes.items() if v})
    target = target_of(architecture)
    built = triton.compile(source, target=target, options={"num_warps": waves, **options})
    text = built.asm["ptx" if target.backend == "cuda" else "amdgcn"]
    return Built(text, architecture, built.metadata.num_warps, built.metadata.shared)


def target_of(architecture) -> GPUTarget:
    """Triton's target of an architecture of either vendor."""
    if architecture.startswith("sm_"):
        return GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)
    return GPUTarget("hip", architecture, WAVE_SIZE[architecture[:4]])


def _attributes(kind, architecture, aligned, ranged):
    """What the launch path would find out about an argument."""
    if kind.startswith("*"):
        range_ = [["tt.pointer_range", 32]] if ranged and architecture.startswith("gfx9") else []
        return [["tt.divisibility", 16], *range_]
    return [["tt.divisibility", 16]] if aligned and kind == "i32" else []


def to_bf16(x) -> np.ndarray:
    """Bits of bfloat16, to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits) -> np.ndarray:
    """Float64 of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
