"""Tensor maps, mbarriers, wgmma and tcgen05 as no compiler writes them: refused or found by name."""

import dataclasses

import numpy as np
import pytest
from ptx_text import empty, finds, launch, text

from portkit.emulate.ptx.tensormap import Element, TensorMap

BARRIER = (
    "setp.eq.u32 %p0, %r90, 0; mov.u32 %r60, tile; add.u32 %r63, %r60, 4096;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r63], 1;\nbar.sync 0;\n"
)
WAIT = "$L: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r63], 0;\n@!%p1 bra $L;\n"
BOX = TensorMap(0, Element.U32, (32, 20), (128,), (8, 16), 0, 0)


def kernel(lines, target="sm_90a"):
    return text(BARRIER + lines, threads=128, shared=8192, target=target)


def copied(tensor, place=0, row=0):
    """A kernel that copies a box, and its buffers."""
    encoded = np.frombuffer(tensor.encode(), np.uint32).copy()
    lines = f"@%p0 st.global.b64 [%rd0], %rd2;\nbar.sync 0;\nmov.u32 %r70, 0; mov.u32 %r71, {row};\n"
    lines += "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    lines += "@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
    lines += f"[%r60+{place}], [%rd0, {{%r70, %r71}}], [%r63];\n{WAIT}"
    return kernel(lines), encoded, empty(128), np.arange(640, dtype=np.uint32).reshape(20, 32)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"strides": (1 << 63,)}, "strides of 2^40 bytes or more"),
        ({"strides": (1 << 40,)}, "strides of 2^40 bytes or more"),
        ({"box": (3, 16)}, "a box whose rows have 12 bytes, no multiple of 16"),
        ({"fill": 7}, "fill mode 7 of a tensor map"),
    ],
)
def test_tensor_maps_that_no_driver_makes_are_found(change, part):
    text_of, *buffers = copied(dataclasses.replace(BOX, **change), row=5)
    finds(text_of, part, *buffers)


@pytest.mark.parametrize(("place", "found"), [(128, False), (16, True), (64, True)])
def test_a_box_lies_at_multiples_of_128_bytes(place, found):
    text_of, *buffers = copied(BOX, place)
    done = launch(text_of, *buffers)
    assert done.outcome.status == ("device_fault" if found else "passed"), done.outcome
    assert not found or "not a multiple of 128" in done.outcome.message


def test_arrivals_of_nobody_are_found():
    finds(kernel("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r63], 0;"), "0 arrivals at an mbarrier", empty(4))


PRODUCT = (
    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
    "{%r0, %r1, %r2, %r3}, %rd10, %rd11, 1, 1, 1, 0, 0;\nwgmma.wait_group.sync.aligned 0;\n"
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("n8k16", "n12k16", "shape m64n12k16 of f32 f16 f16"),
        ("n8k16", "n264k16", "shape m64n264k16 of f32 f16 f16"),
        ("f16.f16 ", "f16.bf16 ", "shape m64n8k16 of f32 f16 bf16"),
        ("0, 0;", "2, 0;", "a transposition that is neither 0 nor 1"),
        ("aligned 0", "aligned -1", "no constant from 0 on"),
    ],
)
def test_products_of_warpgroups_that_there_are_not(old, new, words):
    found = launch(kernel(PRODUCT.replace(old, new)), empty(4)).outcome
    assert (found.status, words in found.message) == ("unsupported", True), found


# -- tensor memory

ALLOCATED = (
    "setp.lt.u32 %p3, %r90, 32;\n@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r60], 32;\n"
    "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r60+4], 64;\nbar.sync 0;\n"
    "ld.shared.b32 %r80, [%r60]; ld.shared.b32 %r81, [%r60+4];\nbar.sync 0;\n"
)
FREE = "@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};\n"


def test_columns_that_are_given_back_are_given_anew():
    """Of two allocations the first is given back; what needs more room than it had comes behind the second."""
    again = "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r60+{}], {};\n"
    lines = ALLOCATED + FREE.format("%r80", 32) + again.format(8, 64) + again.format(12, 32) + "bar.sync 0;\n"
    lines += "ld.shared.b32 %r82, [%r60+8]; ld.shared.b32 %r83, [%r60+12];\n"
    lines += "@%p0 st.global.v4.b32 [%rd0], {%r80, %r81, %r82, %r83};\n"
    lines += FREE.format("%r81", 64) + FREE.format("%r82", 64) + FREE.format("%r83", 32)
    found = empty(4)
    done = launch(kernel(lines, "sm_100a"), found)
    assert done.outcome.status == "passed", done.outcome
    assert found.tolist() == [0, 32, 96, 0]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r84+95];", "columns 95 to 97 of tensor memory, which"),
        ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r84+200], {%r1, %r2};", "columns 200 to 202 of tensor memory"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r84+31];", "columns 31 to 33 of tensor memory"),
    ],
)
def test_columns_that_are_not_allocated_are_found(line, part):
    place = "mov.b32 %r1, 0; mov.b32 %r2, 0; shr.u32 %r82, %r90, 5; shl.b32 %r82, %r82, 21;\n"
    place += "add.u32 %r84, %r80, %r82;\n"
    finds(kernel(ALLOCATED + place + line, "sm_100a"), part, empty(4))


@pytest.mark.parametrize(
    ("kind", "scales", "words"),
    [
        ("f16.block_scale", "[%r80], [%r80], ", "kind::f16 with no size of vectors of scales"),
        ("mxf4.block_scale.scale_vec::4X", "[%r80], [%r80], ", "kind::mxf4 with scale_vec::4X of scales"),
        ("mxf8f6f4", "", "kind::mxf8f6f4 with no size of vectors of scales"),
        ("tf32.block16", "", "kind::tf32 with block16 of scales"),
    ],
)
def test_scales_that_a_kind_of_product_has_not(kind, scales, words):
    line = f"tcgen05.mma.cta_group::1.kind::{kind} [%r80], %rd10, %rd11, %r1, {scales}%p3;"
    found = launch(kernel(line, "sm_100a"), empty(4)).outcome
    assert (found.status, words in found.message) == ("unsupported", True), found
