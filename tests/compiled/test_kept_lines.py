"""Which machine code asks a cache to keep a line: NVIDIA's, and none of AMD's: nothing to let go of there."""

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ASKS = "L2::evict_last"


@triton.jit
def _copy(source, out, POLICY: tl.constexpr):
    place = tl.arange(0, 1024)
    tl.store(out + place, tl.load(source + place, eviction_policy=POLICY))


def code(backend, architecture, wave, policy):
    source = ASTSource(_copy, {"source": "*fp32", "out": "*fp32", "POLICY": "constexpr"}, {"POLICY": policy})
    built = triton.compile(source, target=GPUTarget(backend, architecture, wave))
    return built.asm["ptx" if backend == "cuda" else "amdgcn"]


def test_nvidias_loads_ask_the_l2_cache_to_keep_a_line():
    kept, plain = (code("cuda", 90, 32, policy) for policy in ("evict_last", ""))
    assert ASKS in kept
    assert ASKS not in plain


@pytest.mark.parametrize(("architecture", "wave"), [("gfx90a", 64), ("gfx942", 64), ("gfx1100", 32), ("gfx1201", 32)])
def test_amds_loads_are_the_same_whatever_policy_is_named(architecture, wave):
    kept, plain = (code("hip", architecture, wave, policy) for policy in ("evict_last", ""))
    loads = [[line.split(";")[0].strip() for line in text.splitlines() if "_load_" in line] for text in (kept, plain)]
    assert loads[0] == loads[1] != []
