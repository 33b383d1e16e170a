"""Shared memory is known, and a build refused for it, before the compiler's long passes."""

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.errors import OutOfResources

from portkit.run.allocation import SharedMemoryExceededError, refused_over, refused_unrolled

TARGETS = (
    GPUTarget("cuda", 75, 32),
    GPUTarget("cuda", 90, 32),
    GPUTarget("cuda", 100, 32),
    GPUTarget("hip", "gfx942", 64),
    GPUTarget("hip", "gfx1201", 32),
)


@triton.jit
def _products(x_ptr, y_ptr, n, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, n, SIDE * SIDE):
        total = tl.dot(tl.load(x_ptr + start + at), tl.load(y_ptr + start + at), total)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty))


@pytest.fixture
def built(monkeypatch):
    """Builds for a target, nothing taken from a cache."""
    monkeypatch.setattr(triton.knobs.compilation, "always_compile", True)
    aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    signature = {"x_ptr": "*fp16", "y_ptr": "*fp16", "n": "i32", "SIDE": "constexpr"}
    source = ASTSource(_products, signature, {"SIDE": 32}, aligned)
    return lambda target: triton.compile(source, target=target, options={"num_warps": 4, "num_stages": 4})


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_kernel_that_fits_is_built_as_without_the_question(built, target):
    plain = built(target)
    with refused_over(plain.metadata.shared, target.backend):
        asked = built(target)
    assert (asked.kernel, asked.metadata.shared) == (plain.kernel, plain.metadata.shared)
    assert asked.metadata.shared > 0


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_one_byte_too_much_ends_a_build_in_a_way_that_autotuners_pass_over(built, target):
    shared = built(target).metadata.shared
    with pytest.raises(OutOfResources) as refused, refused_over(shared - 1, target.backend):
        built(target)
    assert isinstance(refused.value, SharedMemoryExceededError)
    assert refused.value.told == f"shared memory {shared} B > {shared - 1} B"


def test_what_is_refused_goes_no_further_than_tritons_dialect(built, monkeypatch):
    seen = []
    optimize = triton._C.libtriton.llvm.optimize_module
    monkeypatch.setattr(triton._C.libtriton.llvm, "optimize_module", lambda *of: seen.append(optimize(*of)))
    with pytest.raises(SharedMemoryExceededError), refused_over(0, "cuda"):
        built(TARGETS[0])
    assert not seen
    built(TARGETS[0])  # and nothing stays behind
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("target", "unrolled"), [(TARGETS[0], True), (TARGETS[1], False), (TARGETS[3], False)], ids=str
)
def test_products_that_are_unrolled_are_asked_alone(built, target, unrolled):
    shared = built(target).metadata.shared
    with refused_unrolled(lambda: shared, 100, target.backend):
        built(target)
    with refused_unrolled(lambda: shared - 1, 100, target.backend):
        if unrolled:
            with pytest.raises(SharedMemoryExceededError) as refused:
                built(target)
            assert refused.value.told == f"shared memory {shared} B > 100 B"
        else:
            built(target)
