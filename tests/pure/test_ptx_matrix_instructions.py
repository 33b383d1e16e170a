"""Matrix instructions of PTX and asynchronous copies, each in a kernel of a few lines, against values of one's own."""

import numpy as np
import pytest
from ptx_text import empty, finds, launch, load, passes, store, text, words

from portkit.emulate.ptx.isa.wgmma import Chain
from portkit.emulate.ptx.launch import load as code_of
from portkit.emulate.ptx.matrix.formats import FORMATS
from portkit.emulate.ptx.tensormap import Element, TensorMap


def random_words(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)


def halves(*shape, seed=0):
    """Small whole numbers as float16, two a word."""
    values = np.random.default_rng(seed).integers(-4, 5, (*shape[:-1], shape[-1] * 2)).astype(np.float16)
    return values.view(np.uint32)


# -- mma.sync

LANE = np.arange(32)
GROUP, PLACE = LANE >> 2, LANE & 3


def mma(op, a, b, c, *, target="sm_80"):
    """One warp's product; operands are ``[32, registers]``."""
    counts = [each.shape[1] for each in (a, b, c)]
    lines = load(0, 0, counts[0]) + load(1, 10, counts[1]) + load(2, 20, counts[2])
    lines += f"{op} {words(30, counts[2])}, {words(0, counts[0])}, {words(10, counts[1])}, {words(20, counts[2])};\n"
    result = empty(32, counts[2])
    passes(text(lines + store(3, 30, counts[2]), target=target), a, b, c, result)
    return result


def placed(registers, per, rows):
    """Matrix ``[rows, depth]`` of elements ``[32, registers, per]`` of A or (rows = 8) B, element by element."""
    count, halves_ = registers.shape[1], rows // 8
    matrix = np.zeros((rows, 4 * per * count // halves_), registers.dtype)
    for register in range(count):
        for part in range(per):
            row, at = GROUP + 8 * (register % halves_), 4 * per * (register // halves_) + per * PLACE + part
            matrix[row, at] = registers[:, register, part]
    return matrix


def results(matrix):
    """D ``[16, 8]`` as registers ``[32, 4]``."""
    return np.stack([matrix[GROUP + 8 * (n >> 1), 2 * PLACE + (n & 1)] for n in range(4)], axis=1)


def test_mma_of_float16():
    a, b = halves(32, 4), halves(32, 2, seed=1)
    c = np.random.default_rng(2).integers(-99, 99, (32, 4)).astype(np.float32)
    found = mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c.view(np.uint32)).view(np.float32)
    x = placed(a.view(np.float16).reshape(32, 4, 2).astype(float), 2, 16)
    y = placed(b.view(np.float16).reshape(32, 2, 2).astype(float), 2, 8)
    assert np.array_equal(found, results(x @ y.T).astype(np.float32) + c)


def test_mma_into_float16():
    a, b, c = halves(32, 4), halves(32, 2, seed=1), halves(32, 2, seed=3)
    found = mma("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", a, b, c)
    x = placed(a.view(np.float16).reshape(32, 4, 2).astype(float), 2, 16)
    y = placed(b.view(np.float16).reshape(32, 2, 2).astype(float), 2, 8)
    expected = results(x @ y.T).astype(np.float16) + c.view(np.float16).reshape(32, 4)
    assert np.array_equal(found.view(np.float16).reshape(32, 4), expected)


@pytest.mark.parametrize(("left", "right"), [("s8", "s8"), ("u8", "s8")])
def test_mma_of_integers(left, right):
    a, b, c = random_words(32, 4), random_words(32, 2, seed=1), random_words(32, 4, seed=2)
    kinds = {"s8": np.int8, "u8": np.uint8}
    x = placed(a.view(kinds[left]).reshape(32, 4, 4).astype(np.int64), 4, 16)
    y = placed(b.view(kinds[right]).reshape(32, 2, 4).astype(np.int64), 4, 8)
    exact = results(x @ y.T) + c.view(np.int32)
    op = "mma.sync.aligned.m16n8k32.row.col{}.s32.{}.{}.s32"
    saturated = mma(op.format(".satfinite", left, right), a, b, c).view(np.int32)
    assert np.array_equal(saturated, np.clip(exact, -(2**31), 2**31 - 1))
    wrapped = mma(op.format("", left, right), a, b, c).view(np.int32)
    assert np.array_equal(wrapped, exact.astype(np.int32))


@pytest.mark.parametrize(
    ("kind", "shape", "counts"),
    [
        ("bf16", "m16n8k8", (2, 1)),
        ("tf32", "m16n8k8", (4, 2)),
        ("tf32", "m16n8k4", (2, 1)),
        ("e5m2", "m16n8k32", (4, 2)),
    ],
)
def test_mma_of_other_floats(kind, shape, counts):
    a, b = random_words(32, counts[0]), random_words(32, counts[1], seed=5)
    form = FORMATS[kind]
    keep = {"bf16": 0x3F803F80, "tf32": 0x3F800000, "e5m2": 0x3C3C3C3C}[kind]  # exponents of 1, mantissas as they come
    sign = {"bf16": 0x807F807F, "tf32": 0x807FE000, "e5m2": 0x83838383}[kind]
    a, b = (each & np.uint32(sign) | np.uint32(keep) for each in (a, b))
    target = "sm_89" if kind == "e5m2" else "sm_80"
    found = mma(f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32", a, b, empty(32, 4), target=target)
    x, y = (form.values(form.codes(each.reshape(32, -1, 1))).astype(float) for each in (a, b))
    expected = results(placed(x, form.per_word, 16) @ placed(y, form.per_word, 8).T)
    assert np.allclose(found.view(np.float32), expected, atol=2e-2 if kind == "e5m2" else 1e-5)


@pytest.mark.parametrize(
    ("op", "target", "cause"),
    [
        ("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32", "sm_80", "shape"),
        ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32", "sm_80", "none of .col"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.mystery", "sm_80", "mystery"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80", "not known"),
    ],
)
def test_unknown_forms_of_mma_are_refused(op, target, cause):
    lines = f"{op} {words(30, 4)}, {words(0, 4)}, {words(10, 2)}, {words(20, 4)};"
    done = launch(text(lines, target=target), empty(4))
    assert done.outcome.status == "unsupported"
    assert cause in done.outcome.message


# -- ldmatrix and stmatrix

TO_SHARED = "mov.u32 %r60, tile; shl.b32 %r61, %r90, 4; add.u32 %r62, %r60, %r61;\n"


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded_and_stored(transposed):
    rows = random_words(32, 4)
    name = ".trans" if transposed else ""
    lines = TO_SHARED + load(0, 0, 4) + f"st.shared.v4.b32 [%r62], {words(0, 4)};\nbar.warp.sync -1;\n"
    lines += f"ldmatrix.sync.aligned.m8n8.x4{name}.shared.b16 {words(10, 4)}, [%r62];\n" + store(1, 10, 4)
    lines += f"stmatrix.sync.aligned.m8n8.x4{name}.shared.b16 [%r62+512], {words(10, 4)};\nbar.warp.sync -1;\n"
    lines += f"ld.shared.v4.b32 {words(20, 4)}, [%r62+512];\n" + store(2, 20, 4)
    found, back = empty(32, 4), empty(32, 4)
    passes(text(lines, shared=1024, target="sm_90a"), rows, found, back)
    matrices = rows.view(np.uint16).reshape(4, 8, 8)
    matrices = matrices.swapaxes(1, 2) if transposed else matrices
    for matrix in range(4):
        pairs = found[:, matrix].reshape(32, 1).view(np.uint16)
        assert np.array_equal(pairs[:, 0], matrices[matrix, GROUP, 2 * PLACE])
        assert np.array_equal(pairs[:, 1], matrices[matrix, GROUP, 2 * PLACE + 1])
    assert np.array_equal(back, rows)


# -- cp.async

COPY = TO_SHARED + "mul.wide.u32 %rd30, %r90, 16; add.u64 %rd31, %rd0, %rd30;\n"
READ = f"ld.shared.v4.b32 {words(0, 4)}, [%r62];\n" + store(1, 0, 4)


def test_copies_arrive_at_their_wait():
    source, found = random_words(32, 4), empty(32, 4)
    lines = COPY + "cp.async.cg.shared.global [%r62], [%rd31], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
    passes(text(lines + READ, target="sm_80", shared=512), source, found)
    assert np.array_equal(found, source)


def test_copies_fill_with_zeros():
    source, found = random_words(32, 4), empty(32, 4)
    lines = COPY + "and.b32 %r70, %r90, 1; mul.lo.u32 %r70, %r70, 6;\n"
    lines += "cp.async.ca.shared.global [%r62], [%rd31], 16, %r70;\ncp.async.wait_all;\n"
    passes(text(lines + READ, target="sm_80", shared=512), source, found)
    octets = found.view(np.uint8).reshape(32, 16)
    assert not octets[::2].any()
    assert np.array_equal(octets[1::2, :6], source.view(np.uint8).reshape(32, 16)[1::2, :6])
    assert not octets[1::2, 6:].any()


@pytest.mark.parametrize(
    "lines",
    [
        "cp.async.commit_group;\n",  # no wait
        "cp.async.wait_group 0;\n",  # no commit
        "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 2;\n",  # too short a wait
    ],
)
def test_a_copy_that_is_not_waited_for_is_found(lines):
    kernel = COPY + "cp.async.cg.shared.global [%r62], [%rd31], 16;\n" + lines + READ
    finds(text(kernel, target="sm_80", shared=512), "nothing waits for it", random_words(32, 4), empty(32, 4))


# -- mbarrier and bulk copies

BARRIER = (
    "mov.u32 %r60, tile; add.u32 %r63, %r60, 4096; setp.eq.u32 %p0, %r90, 0;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r63], 1;\nbar.sync 0;\n"
)
WAIT = "$L: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r63], 0;\n@!%p1 bra $L;\n"
LOOK = "shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61; ld.shared.b32 %r0, [%r62];\n" + store(1, 0, 1)
BULK = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r60], [%rd0, {%r70, %r71}], [%r63];"


def tensor_launch(lines, tensor, *buffers, threads=128):
    """The map lies at ``%rd0``, and takes the address of the second buffer from the kernel itself."""
    encoded = np.frombuffer(tensor.encode(), np.uint32).copy()
    patch = "@%p0 st.global.b64 [%rd0], %rd2;\nbar.sync 0;\n"
    kernel = text(BARRIER + patch + lines, threads=threads, shared=8192)
    return kernel, (encoded, *buffers)


def matrix_map(rows, columns, box, swizzle=0, fill=0, element=Element.U32):
    return TensorMap(0, element, (columns, rows), (columns * element.bytes,), box, swizzle, fill)


@pytest.mark.parametrize(
    ("box", "part"),
    [
        ((257, 1), "a box of 257 × 1 elements: 256 at most are possible"),
        ((256, 256), "a box of 262144 bytes, where shared memory has 232448 at most"),
    ],
)
def test_a_box_that_no_tensor_map_can_have_is_refused(box, part):
    """As where a kernel makes a map and leaves its box as it was: nothing is computed of it."""
    lines = f"mov.u32 %r70, 0; mov.u32 %r71, 0;\n@%p0 {BULK}\n"
    kernel, buffers = tensor_launch(lines, matrix_map(20, 32, box), empty(128), random_words(20, 32))
    finds(kernel, part, *buffers)


@pytest.mark.parametrize("swizzle", [0, 1, 3])
def test_a_tensor_copy_brings_a_box(swizzle):
    source, found = random_words(20, 32), empty(128)
    box = (8, 16) if swizzle != 3 else (32, 4)
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 3;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    kernel, buffers = tensor_launch(
        lines + f"@%p0 {BULK}\n" + WAIT + LOOK, matrix_map(20, 32, box, swizzle), found, source
    )
    passes(kernel, *buffers)
    expected = source[3 : 3 + box[1], : box[0]].reshape(-1, 4)
    at = np.arange(32) * 16
    moved = at ^ (at >> 7 & (1 << swizzle) - 1) << 4
    assert np.array_equal(found.reshape(-1, 4)[moved // 16], expected)


@pytest.mark.parametrize("fill", [0, 1])
def test_a_tensor_copy_fills_what_is_outside(fill):
    source, found = random_words(20, 32), empty(128)
    lines = "mov.u32 %r70, 28; mov.u32 %r71, -2;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    tensor = matrix_map(20, 32, (8, 16), 0, fill)
    kernel, buffers = tensor_launch(lines + f"@%p0 {BULK}\n" + WAIT + LOOK, tensor, found, source)
    passes(kernel, *buffers)
    expected = np.full((16, 8), 0x7FFF_FFFF if fill else 0, np.uint32)
    expected[2:, :4] = source[:14, 28:]
    assert np.array_equal(found.reshape(16, 8), expected)


def test_a_tensor_copy_that_is_not_waited_for_is_found():
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    kernel, buffers = tensor_launch(
        lines + f"@%p0 {BULK}\n" + LOOK, matrix_map(20, 32, (8, 16)), empty(128), random_words(20, 32)
    )
    finds(kernel, "nothing waits for it", *buffers)


SECOND = "mbarrier.init.shared::cta.b64 [%r64], 1;"
ONE_WAITS = "setp.lt.u32 %p2, %r90, 32; setp.lt.u32 %p3, %r90, 64;\n@!%p2 bra $next;\n" + WAIT
FIRST_HALF = "@!%p3 bra $end;\nbar.sync 1, 64;\n"
ARRIVES = "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r64];\n"
ASKS = "$M: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r64], 0;\n@!%p1 bra $M;\n"


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("$next:\n", True),
        ("$next:\nbar.sync 0;\n", False),
        (f"$next:\n{FIRST_HALF}", False),
        (f"$next:\n{FIRST_HALF}$end:\n", True),
        (f"{ARRIVES}$next:\n{ASKS}", False),
        (f"{ARRIVES}$next:\n", True),
        (f"$next:\n{ARRIVES}{ASKS}", False),
    ],
)
def test_a_copy_has_landed_for_those_who_know_it(between, found):
    """One warp waits for it; others come behind that by a barrier, which may be of some warps, or by an mbarrier."""
    lines = f"add.u32 %r64, %r63, 8;\n@%p0 {SECOND}\nmov.u32 %r70, 0; mov.u32 %r71, 0;\nbar.sync 0;\n"
    lines += f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n@%p0 {BULK}\n"
    end = "" if "$end:" in between or FIRST_HALF not in between else "$end:\n"
    kernel, buffers = tensor_launch(
        lines + ONE_WAITS + between + LOOK + end, matrix_map(20, 32, (8, 16)), empty(128), random_words(20, 32)
    )
    if found:
        finds(kernel, "this warp has not waited for its mbarrier, nor come behind one that has", *buffers)
    else:
        passes(kernel, *buffers)


def test_too_few_bytes_never_complete_a_phase():
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 1024;\n"
    kernel, buffers = tensor_launch(
        lines + f"@%p0 {BULK}\n" + WAIT, matrix_map(20, 32, (8, 16)), empty(128), random_words(20, 32)
    )
    finds(kernel, "deadlock", *buffers)


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.shared::cta;\n"])
def test_a_copy_over_what_threads_wrote_needs_a_fence(fence):
    lines = "shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61; st.shared.b32 [%r62], %r90;\n" + fence + "bar.sync 0;\n"
    lines += "mov.u32 %r70, 0; mov.u32 %r71, 0;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    source, found = random_words(20, 32), empty(128)
    kernel, buffers = tensor_launch(lines + f"@%p0 {BULK}\n" + WAIT + LOOK, matrix_map(20, 32, (8, 16)), found, source)
    if fence:
        passes(kernel, *buffers)
        assert np.array_equal(found.reshape(16, 8), source[:16, :8])
    else:
        finds(kernel, "the async proxy overwrites shared memory that a thread wrote", *buffers)


def test_a_copy_over_the_word_of_tensor_memory_needs_no_fence():
    """As Triton's kernels do it: nobody says by which proxy that word is written."""
    lines = "setp.lt.u32 %p3, %r90, 32;\n@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r60], 32;\n"
    lines += "bar.sync 0;\nld.shared.b32 %r80, [%r60];\nbar.sync 0;\nmov.u32 %r70, 0; mov.u32 %r71, 0;\n"
    lines += "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    source, found = random_words(20, 32), empty(128)
    free = "bar.sync 0;\n@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r80, 32;\n"
    copied = lines + f"@%p0 {BULK}\n" + WAIT + LOOK + free
    kernel, buffers = tensor_launch(copied, matrix_map(20, 32, (8, 16)), found, source)
    passes(kernel.replace("sm_90a", "sm_100a"), *buffers)
    assert np.array_equal(found.reshape(16, 8), source[:16, :8])


OUT = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd0, {%r70, %r71}], [%r60];\n"
FILL = "shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61;\n" + load(1, 0, 1) + "st.shared.b32 [%r62], %r0;\n"


def store_kernel(
    *, fence="fence.proxy.async.shared::cta;\n", wait="cp.async.bulk.wait_group.read 0;\n", barrier="bar.sync 0;\n"
):
    lines = "mov.u32 %r70, 28; mov.u32 %r71, 10;\n" + FILL + fence + barrier
    return lines + f"@%p0 {OUT}cp.async.bulk.commit_group;\n" + wait


def test_a_tensor_store_writes_what_is_inside():
    values, target = random_words(128), empty(20, 32)
    kernel, buffers = tensor_launch(store_kernel(), matrix_map(20, 32, (8, 16)), values, target)
    passes(kernel, *buffers)
    expected = empty(20, 32)
    expected[10:20, 28:] = values.reshape(16, 8)[:10, :4]
    assert np.array_equal(target, expected)


@pytest.mark.parametrize(
    ("left_out", "part"),
    [
        ({"fence": ""}, "fence.proxy.async"),
        ({"wait": ""}, "nothing waits for its group"),
        ({"barrier": ""}, "no barrier"),
    ],
)
def test_a_tensor_store_needs_its_fence_barrier_and_wait(left_out, part):
    kernel, buffers = tensor_launch(
        store_kernel(**left_out), matrix_map(20, 32, (8, 16)), random_words(128), empty(20, 32)
    )
    finds(kernel, part, *buffers)


@pytest.mark.parametrize(("name", "function"), [("add", np.add), ("max", np.maximum), ("xor", np.bitwise_xor)])
def test_a_tensor_reduction_combines(name, function):
    values, target = random_words(128), random_words(16, 8, seed=9)
    before = target.copy()
    op = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.bulk_group"
    lines = store_kernel().replace("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", op)
    lines = lines.replace("mov.u32 %r70, 28; mov.u32 %r71, 10", "mov.u32 %r70, 0; mov.u32 %r71, 0")
    kernel, buffers = tensor_launch(lines, matrix_map(16, 8, (8, 16)), values, target)
    passes(kernel, *buffers)
    assert np.array_equal(target, function(before, values.reshape(16, 8)))


def test_a_box_of_no_elements_brings_no_bytes():
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n"
    kernel, buffers = tensor_launch(
        lines + f"@%p0 {BULK}\n" + WAIT, matrix_map(20, 32, (0, 16)), empty(128), random_words(20, 32)
    )
    finds(kernel, "deadlock", *buffers)


def test_multicast_is_refused():
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0; mov.u16 %h0, 3;\n"
    op = BULK.replace("bytes [", "bytes.multicast::cluster [").replace("[%r63];", "[%r63], %h0;")
    kernel, buffers = tensor_launch(lines + op, matrix_map(20, 32, (8, 16)), empty(128), random_words(20, 32))
    done = launch(kernel, *buffers)
    assert (done.outcome.status, "several blocks" in done.outcome.message) == ("unsupported", True)


# -- wgmma


FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
PROXY, ENDED = "fence.proxy.async.shared::cta;\n", "wgmma.wait_group.sync.aligned 0;\n"


MMA = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {words(10, 4)}, {words(0, 4)}, "


def product(*, fence=FENCE, again="", commit=COMMIT, wait=ENDED, proxy=PROXY, more=""):
    """m64n8k16 of float16: A in registers, B in shared memory in rows of 32 bytes."""
    lines = load(0, 0, 4) + load(1, 10, 4) + "mov.u32 %r60, tile; shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61;\n"
    lines += "setp.lt.u32 %p1, %r90, 64; mul.wide.u32 %rd30, %r90, 4; add.u64 %rd31, %rd2, %rd30;\n"
    lines += "@%p1 ld.global.b32 %r40, [%rd31];\n@%p1 st.shared.b32 [%r62], %r40;\n" + proxy + "bar.sync 0;\n"
    lines += f"shr.u32 %r64, %r60, 4; cvt.u64.u32 %rd32, %r64; or.b64 %rd32, %rd32, {8 << 16 | 16 << 32};\n" + fence
    lines += MMA + "%rd32, 1, 1, 1, 0;\n" + again
    return text(lines + commit + more + wait + store(3, 10, 4), threads=128, shared=1024)


def wgmma_operands():
    a, b = halves(128, 4), halves(64, seed=1)
    c = np.random.default_rng(2).integers(-9, 9, (128, 4)).astype(np.float32)
    return a, c.view(np.uint32), b, empty(128, 4)


def test_a_product_of_a_warpgroup():
    a, c, b, found = wgmma_operands()
    passes(product(), a, c, b, found)
    y = b.view(np.float16).reshape(2, 8, 8).astype(float)  # core matrices of 8 columns of 8 halves
    y = np.concatenate(y, axis=1)
    for warp in range(4):
        own = slice(32 * warp, 32 * warp + 32)
        x = placed(a[own].view(np.float16).reshape(32, 4, 2).astype(float), 2, 16)
        expected = results(x @ y.T).astype(np.float32) + c[own].view(np.float32)
        assert np.array_equal(found[own].view(np.float32), expected)


@pytest.mark.parametrize(
    ("again", "chained", "times"),
    [
        ("add.u64 %rd33, %rd32, 0;\n" + MMA + "%rd33, 1, 1, 1, 0;\n", 2, 2),  # a descriptor is computed between
        ("setp.lt.u32 %p2, %r90, 32;\n" + MMA + "%rd32, %p2, 1, 1, 0;\n", 2, 2),  # one warp adds, others begin anew
        ("add.u64 %rd32, %rd32, 0;\n" + MMA + "%rd32, 1, 1, 1, 0;\n", 1, 2),  # the first needs what is written
        (MMA + "%rd32, 0, 1, 1, 0;\n", 1, 1),
        (MMA + "%rd32, 1, -1, 1, 0;\n", 1, 0),
        (COMMIT + MMA + "%rd32, 1, 1, 1, 0;\n", 1, 2),
    ],
)
def test_products_behind_each_other_may_run_as_one(again, chained, times):
    a, c, b, found = wgmma_operands()
    once, kernel = empty(128, 4), product(again=again)
    passes(product(), a, np.zeros_like(c), b, once)
    passes(kernel, a, c, b, found)
    adds = MMA + "%rd32, 0" not in again
    expected = times * once.view(np.float32) + adds * c.view(np.float32)
    if "%p2" in again:
        expected[32:] = once.view(np.float32)[32:]
    assert np.array_equal(found.view(np.float32), expected)
    steps = [item.step for item in code_of(kernel).compiled if isinstance(item.step, Chain)]
    assert max(len(step.products) for step in steps) == chained


def test_a_product_in_a_chain_is_named_where_it_lacks_a_fence():
    again = "mov.b32 %r3, 0;\n" + MMA + "%rd32, 1, 1, 1, 0;\n"
    finds(product(again=again), "since the last wgmma.fence", *wgmma_operands())


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"fence": ""}, "since the last wgmma.fence"),
        ({"commit": ""}, "no wgmma.wait_group covers it"),
        ({"wait": ""}, "no wgmma.wait_group covers it"),
        ({"wait": "wgmma.wait_group.sync.aligned 1;\n"}, "no wgmma.wait_group covers it"),
        ({"proxy": ""}, "fence.proxy.async"),
        ({"more": "st.shared.b32 [%r60], %r40;\n"}, "may still read"),
        ({"more": "mov.b32 %r10, 0;\n"}, "overwritten"),
    ],
)
def test_a_product_needs_its_fences_commit_and_wait(change, part):
    finds(product(**change), part, *wgmma_operands())


def test_a_move_of_a_result_is_no_use_of_it():
    passes(product(more="mov.b32 %r50, %r10;\n"), *wgmma_operands())
    finds(product(more="mov.b32 %r50, %r10; add.u32 %r51, %r50, 1;\n"), "no wgmma.wait_group", *wgmma_operands())


def test_a_first_product_needs_a_fence_though_no_register_of_it_was_written():
    lines = "mov.u32 %r60, tile; shl.b32 %r61, %r90, 4; add.u32 %r62, %r60, %r61;\n"
    lines += "st.shared.v4.b32 [%r62], {%r90, %r90, %r90, %r90};\n" + PROXY + "bar.sync 0;\n"
    lines += f"shr.u32 %r64, %r60, 4; cvt.u64.u32 %rd32, %r64; or.b64 %rd32, %rd32, {8 << 16 | 16 << 32};\n"
    multiply = (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, %rd32, %rd32, 0, 1, 1, 0, 0;\n"
    )
    done = COMMIT + "wgmma.wait_group.sync.aligned 0;\n"
    passes(text(lines + FENCE + multiply + done, target="sm_90a", threads=128, shared=8192), empty(4))
    kernel = text(lines + multiply + done, target="sm_90a", threads=128, shared=8192)
    finds(kernel, "has made no wgmma.fence yet", empty(4))


def test_other_architectures_have_no_wgmma():
    done = launch(product().replace("sm_90a", "sm_100a"), *wgmma_operands())
    assert (done.outcome.status, "has no wgmma" in done.outcome.message) == ("unsupported", True)


# -- tensor memory


STORED = "tcgen05.wait::st.sync.aligned;\n"
STORE_AGAIN = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r82], {words(10, 8)};\n" + STORED
TENSOR_MMA = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r80], %rd33, %rd34, %r83, "


def tensor_memory(*, stored=STORED, again="", committed=True, waited=True, freed=True, fence=PROXY, late="", more=""):
    """m128n8k16 of float16 by a block of 128 threads: A and B in shared memory, D starts from registers."""
    lines = BARRIER.replace("4096", "6144") + "setp.lt.u32 %p3, %r90, 32;\n"
    lines += "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r63+8], 32;\nbar.sync 0;\n"
    lines += "ld.shared.b32 %r80, [%r63+8]; bar.sync 0;\nshr.u32 %r81, %r90, 5; shl.b32 %r81, %r81, 21;\n"
    lines += "add.u32 %r82, %r80, %r81;\n"
    lines += load(1, 10, 8) + f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r82], {words(10, 8)};\n" + stored
    lines += load(0, 0, 8) + "shl.b32 %r61, %r90, 4; add.u32 %r62, %r60, %r61;\n"
    lines += f"st.shared.v4.b32 [%r62], {words(0, 4)};\nst.shared.v4.b32 [%r62+2048], {words(4, 4)};\n"
    lines += "setp.lt.u32 %p4, %r90, 16; mul.wide.u32 %rd30, %r90, 16; add.u64 %rd31, %rd2, %rd30;\n"
    lines += f"@%p4 ld.global.v4.b32 {words(0, 4)}, [%rd31];\n@%p4 st.shared.v4.b32 [%r62+4096], {words(0, 4)};\n"
    lines += fence + "bar.sync 0;\n" + late + "shr.u32 %r64, %r60, 4; cvt.u64.u32 %rd32, %r64;\n"
    lines += f"or.b64 %rd33, %rd32, {128 << 16 | 8 << 32 | 1 << 46}; add.u64 %rd34, %rd32, 256;\n"
    lines += f"or.b64 %rd34, %rd34, {8 << 16 | 8 << 32 | 1 << 46};\n"
    lines += f"setp.eq.u32 %p5, %r90, %r90; mov.b32 %r83, {1 << 4 | 1 << 17 | 8 << 24};\n"
    lines += TENSOR_MMA + "%p5;\n" + again
    if committed:
        lines += "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r63];\n"
    lines += WAIT if waited else ""
    lines += f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {words(20, 8)}, [%r82];\ntcgen05.wait::ld.sync.aligned;\n" + store(
        3, 20, 8
    )
    lines += more
    if freed:
        lines += "bar.sync 0;\n@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r80, 32;\n"
    return text(lines, target="sm_100a", threads=128, shared=8192)


def tensor_operands():
    c = np.random.default_rng(3).integers(-9, 9, (128, 8)).astype(np.float32)
    return halves(128, 8), c.view(np.uint32), halves(64, seed=1), empty(128, 8)


def test_a_product_in_tensor_memory():
    a, c, b, found = tensor_operands()
    passes(tensor_memory(), a, c, b, found)
    x = a.view(np.float16).reshape(128, 16).astype(float)
    y = np.concatenate(b.view(np.float16).reshape(2, 8, 8).astype(float), axis=1)
    assert np.array_equal(found.view(np.float32), (x @ y.T).astype(np.float32) + c.view(np.float32))


@pytest.mark.parametrize(("again", "times", "adds"), [("%p5", 2, 1), ("!%p5", 1, 0), ("%p6", 2, 1)])
def test_products_of_several_blocks_run_as_one(again, times, adds):
    """With %p6, the first block's second product adds, and the others' begin anew."""
    b = halves(64, seed=1)
    a = np.concatenate([halves(128, 8, seed=seed) for seed in range(3)])
    c = np.random.default_rng(3).integers(-9, 9, (384, 8)).astype(np.float32)
    found = empty(384, 8)
    kernel = tensor_memory(again="setp.eq.u32 %p6, %r91, 0;\n" + TENSOR_MMA + again + ";\n")
    passes(kernel, a, c.view(np.uint32), b, found, blocks=3)
    x = a.view(np.float16).reshape(384, 16).astype(float)
    y = np.concatenate(b.view(np.float16).reshape(2, 8, 8).astype(float), axis=1)
    expected = times * (x @ y.T) + adds * c
    if again == "%p6":
        expected[128:] = (x @ y.T)[128:]
    assert np.array_equal(found.view(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"stored": ""}, "tcgen05.wait::st"),
        ({"committed": False}, "deadlock"),
        ({"waited": False}, "has yet to write"),
        ({"freed": False}, "without giving back"),
        ({"fence": ""}, "fence.proxy.async"),
        ({"late": STORE_AGAIN}, "another warp stored"),
        ({"more": TENSOR_MMA + "%p5;\n"}, "another warp loaded"),
    ],
)
def test_tensor_memory_needs_its_waits(change, part):
    finds(tensor_memory(**change), part, *tensor_operands())


def test_pairs_of_blocks_are_refused():
    done = launch(tensor_memory().replace("cta_group::1", "cta_group::2"), *tensor_operands())
    assert (done.outcome.status, "cluster" in done.outcome.message) == ("unsupported", True)


# -- rows that few kernels need


def test_a_matrix_is_transposed_between_registers():
    rows, found = random_words(32, 1), empty(32, 1)
    lines = load(0, 0, 1) + "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\n" + store(1, 1, 1)
    passes(text(lines), rows, found)
    expected = rows.view(np.uint16).reshape(8, 8).T
    assert np.array_equal(found.view(np.uint16).reshape(8, 8), expected)


def test_a_plain_bulk_copy_goes_both_ways():
    source, target = random_words(128), empty(128)
    lines = BARRIER + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r63], 512; mov.u32 %r70, 512;\n"
    lines += "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r60], [%rd0], %r70, [%r63];\n"
    lines += "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r63];\n" + WAIT
    lines += "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r60], %r70;\n"
    lines += "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
    passes(text(lines, threads=128, shared=8192), source, target)
    assert np.array_equal(target, source)


def test_phases_are_asked_for_without_waiting():
    found = empty(128, 2)
    lines = (
        BARRIER + "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r63], 0; selp.u32 %r0, 1, 0, %p1;\nbar.sync 0;\n"
    )
    lines += "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r63];\nbar.sync 0;\n"
    lines += "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r63], 0; selp.u32 %r1, 1, 0, %p1;\nbar.sync 0;\n"
    lines += "@%p0 mbarrier.inval.shared::cta.b64 [%r63];\n" + store(0, 0, 2)
    passes(text(lines, threads=128, shared=8192), found)
    assert np.array_equal(found, np.tile(np.array([[0, 1]], np.uint32), (128, 1)))


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r63];\n", "expects 1 more"),
        ("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r63+8];\n", "not initialised"),
        ("@%p0 mbarrier.init.shared::cta.b64 [%r63+8], 0;\n", "expects 0 arrivals"),
    ],
)
def test_misused_barriers_are_found(lines, part):
    finds(text(BARRIER + lines, threads=128, shared=8192), part, empty(4))


INVAL = "bar.sync 0;\n@%p0 mbarrier.inval.shared::cta.b64 [%r63];\n"


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ("@%p0 st.shared.b32 [%r63+4], 0;\n", "writes data where an mbarrier lives"),
        ("@%p0 st.shared.v4.b32 [%r63], {0, 0, 0, 0};\n", "writes data where an mbarrier lives"),
        ("@%p0 mbarrier.init.shared::cta.b64 [%r63], 1;\n", "is made where one lives"),
    ],
)
def test_bytes_of_an_mbarrier_are_its_own_until_it_is_ended(lines, part):
    """In programs that end theirs: others are known to be right on the device."""
    finds(text(BARRIER + lines + INVAL, threads=128, shared=8192), part, empty(4))
    passes(text(BARRIER + lines, threads=128, shared=8192), empty(4))
    passes(text(BARRIER + INVAL + lines, threads=128, shared=8192), empty(4))


EXCHANGE = "shl.b32 %r61, %r90, 2; add.u32 %r61, %r61, %r60; st.shared.b32 [%r61], %r90;\n"
OWN = EXCHANGE + "bar.warp.sync -1;\nld.shared.b32 %r0, [%r61];\n"
NEXT = "xor.b32 %r62, %r61, 4;\n{}ld.shared.b32 %r0, [%r62];\n"
AGAIN = OWN + "{}@%p0 st.shared.b32 [%r61+4], %r90;\n"


def test_lanes_meet_behind_their_barrier():
    """In programs that have one; they run together here, so no bits show it."""
    own, late = EXCHANGE + NEXT, AGAIN
    for lines, verb in ((own, "reads a byte that lane"), (late, "writes a byte that lane 1 of its warp read")):
        for between in ("bar.warp.sync -1;\n", "bar.sync 0;\n"):
            passes(text(BARRIER + lines.format(between), threads=128, shared=8192), empty(4))
        end = "bar.warp.sync -1;\n"
        finds(text(BARRIER + lines.format("") + end, threads=128, shared=8192), verb, empty(4))
    passes(text(BARRIER + own.format(""), threads=128, shared=8192), empty(4))


ENDED = ("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r63];\n" + WAIT, "@%p0 mbarrier.inval.shared::cta.b64 [%r63];\n")
MADE = (
    "@%p0 mbarrier.init.shared::cta.b64 [%r63+8], 1;\n",
    "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r63+8], 0;\n",
)


@pytest.mark.parametrize(
    ("first", "then", "part"),
    [
        (*ENDED, "makes or ends an mbarrier that several warps used, with no barrier between"),
        (*MADE, "uses an mbarrier that warp 0 made or ended, with no barrier between"),
    ],
)
def test_mbarriers_are_made_and_ended_in_order(first, then, part):
    """Without a barrier of the block it is right where all warps run together, and in no other order."""
    finds(text(BARRIER + first + then, threads=128, shared=8192), part, empty(4))
    passes(text(BARRIER + first + "bar.sync 0;\n" + then, threads=128, shared=8192), empty(4))


def test_rows_are_copied_to_all_quarters_of_tensor_memory():
    rows, found = random_words(32, 4), empty(128, 4)
    lines = BARRIER.replace("4096", "6144") + "setp.lt.u32 %p3, %r90, 32;\n"
    lines += "@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r63+8], 32;\nbar.sync 0;\n"
    lines += "ld.shared.b32 %r80, [%r63+8]; bar.sync 0;\nshr.u32 %r81, %r90, 5; shl.b32 %r81, %r81, 21;\n"
    lines += "add.u32 %r82, %r80, %r81;\nmul.wide.u32 %rd30, %r90, 16; add.u64 %rd31, %rd0, %rd30;\n"
    lines += "shl.b32 %r61, %r90, 4; add.u32 %r62, %r60, %r61;\n"
    lines += f"@%p3 ld.global.v4.b32 {words(0, 4)}, [%rd31];\n@%p3 st.shared.v4.b32 [%r62], {words(0, 4)};\n"
    lines += PROXY + "bar.sync 0;\nshr.u32 %r64, %r60, 4; cvt.u64.u32 %rd32, %r64;\n"
    lines += f"or.b64 %rd33, %rd32, {8 << 16 | 8 << 32 | 1 << 46};\n"
    lines += "@%p0 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r80], %rd33;\n"
    lines += "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r63];\n" + WAIT
    lines += f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {words(20, 4)}, [%r82];\ntcgen05.wait::ld.sync.aligned;\n"
    lines += store(1, 20, 4) + "bar.sync 0;\n@%p3 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    lines += "@%p3 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r80, 32;\n"
    passes(text(lines, target="sm_100a", threads=128, shared=8192), rows, found)
    assert np.array_equal(found, np.tile(rows, (4, 1)))


def test_neighbours_of_four_bytes_belong_to_groups_of_their_own():
    source, found = random_words(64), empty(32)
    lines = "mov.u32 %r60, tile; shl.b32 %r61, %r90, 3; add.u32 %r62, %r60, %r61; add.u32 %r63, %r62, 4;\n"
    lines += "mul.wide.u32 %rd30, %r90, 8; add.u64 %rd31, %rd0, %rd30; add.u64 %rd32, %rd31, 4;\n"
    lines += "cp.async.ca.shared.global [%r62], [%rd31], 4;\ncp.async.commit_group;\n"
    lines += "cp.async.ca.shared.global [%r63], [%rd32], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
    lines += "ld.shared.b32 %r0, [%r62];\n"
    kernel = lines + store(1, 0, 1)
    passes(text(kernel, target="sm_80", shared=512), source, found)
    assert np.array_equal(found, source[::2])
    finds(text(kernel.replace("[%r62];", "[%r63];"), target="sm_80", shared=512), "nothing waits for it", source, found)
