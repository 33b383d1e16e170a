"""Who comes behind whom: parts of a block by barriers, copies by mbarriers, products by commits, blocks by atomics.

Each order is taken away in turn, in texts that give the right bits all the same.
"""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from ptx_text import empty, finds, passes, store, text
from test_ptx_matrix_instructions import (
    BULK,
    COPY,
    FILL,
    LOOK,
    OUT,
    READ,
    TENSOR_MMA,
    WAIT,
    matrix_map,
    random_words,
    tensor_launch,
    tensor_memory,
    tensor_operands,
)

from portkit.emulate import Options, Order
from portkit.emulate.ptx.launch import run

# -- parts of a block

PARTS = "mov.u32 %r60, tile; shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61; shr.u32 %r5, %r90, 5;\n" + "".join(
    f"setp.eq.u32 %p{warp}, %r5, {warp};\n" for warp in range(4)
)
WRITES = "@%p0 st.shared.b32 [%r62], %r90;\n"


def reads(warp):
    """A warp's threads read what those of warp 0 wrote."""
    return f"@%p{warp} sub.u32 %r62, %r62, {128 * warp};\n@%p{warp} ld.shared.b32 %r0, [%r62];\n"


def met(warps, number=1):
    """The first warps meet at a barrier of their own."""
    return f"setp.lt.u32 %p4, %r5, {warps};\n@%p4 bar.sync {number}, {32 * warps};\n"


ARRIVE = "@%p0 bar.arrive 1, 64;\n@%p1 bar.sync 1, 64;\n"


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (WRITES + met(2) + reads(1), None),
        (WRITES + met(2) + reads(2), "reads a byte that wave 0 wrote"),
        (WRITES + met(2) + met(3, 2) + reads(2), None),
        (WRITES + met(3, 2) + met(2) + reads(2), None),
        (met(2) + WRITES + reads(1), "reads a byte that wave 0 wrote"),
        (WRITES + ARRIVE + reads(1), None),
        (WRITES + ARRIVE + reads(2), "reads a byte that wave 0 wrote"),
        (met(2) + reads(1).replace("ld.shared.b32 %r0, [%r62]", "st.shared.b32 [%r62], 1") + ARRIVE + WRITES, "wave 1"),
        (WRITES + ARRIVE + "bar.sync 0;\n" + reads(2), None),
    ],
)
def test_a_barrier_of_some_warps_orders_those(lines, part):
    kernel = text(PARTS + lines, threads=128, shared=1024)
    passes(kernel, empty(4)) if part is None else finds(kernel, part, empty(4))


# -- slots of a ring


def ring(*, waits=True, arrives_late=True, announced=True):
    """Warp 0 copies into a slot twice, the second time when warp 1 has read the first and says so."""
    copy = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], 512;\n" + f"@%p0 {BULK}\n"
    full = "${0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r63], {1};\n@!%p1 bra ${0};\n"
    free = "$free: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r64], 0;\n@!%p1 bra $free;\n" if waits else ""
    told = "setp.eq.u32 %p3, %r90, 32;\n" + ("@%p3 mbarrier.arrive.shared::cta.b64 _, [%r64];\n" if announced else "")
    look = "shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61; ld.shared.b32 %r{}, [%r62];\n"
    read = look.format(0) + told if arrives_late else told + look.format(0)
    return (
        "add.u32 %r64, %r63, 8;\n@%p0 mbarrier.init.shared::cta.b64 [%r64], 1;\nmov.u32 %r70, 0; mov.u32 %r71, 0;\n"
        "bar.sync 0;\nsetp.lt.u32 %p2, %r90, 32;\n@!%p2 bra $consumer;\n"
        f"{copy}{free}mov.u32 %r71, 2;\n{copy}bra $end;\n"
        f"$consumer:\n{full.format('first', 0)}bar.warp.sync -1;\n{read}"
        f"{full.format('second', 1)}{look.format(1)}add.u32 %r0, %r0, %r1;\n{store(1, 0, 1)}$end:\n"
    )


ORDERS = [Order.CONVERGED, Order.FORWARD, Order.REVERSE, Order.SEEDED]


def found_in(order, kernel, buffers):
    options = Options(check=True, order=order)
    return [str(each) for each in run(kernel, "sm_90", (1,), list(buffers), None, 0, options).findings]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({}, ()),
        ({"waits": False}, ("a byte that wave 1 read", "still writes", "has brought", "expects 0 more")),
        ({"arrives_late": False}, ("a byte that wave 1 read", "still writes", "has brought")),
    ],
)
def test_a_slot_is_written_again_behind_its_reads(order, change, parts):
    kernel, buffers = tensor_launch(
        ring(**change), matrix_map(20, 32, (8, 16)), empty(64), random_words(20, 32), threads=64
    )
    found = found_in(order, kernel, buffers)
    assert bool(found) == bool(parts)
    assert all(any(part in each for part in parts) for each in found)


def test_a_wait_by_which_nothing_is_told_frees_no_slot():
    """The phase ends by the arrival of the copying warp itself."""
    lines = ring(announced=False).replace("$free:", "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r64];\n$free:")
    kernel, buffers = tensor_launch(lines, matrix_map(20, 32, (8, 16)), empty(64), random_words(20, 32), threads=64)
    assert found_in(Order.CONVERGED, kernel, buffers)


# -- copies to one place

ASYNC = "cp.async.cg.shared.global [%r62], [%rd31], 16;\n"
COMMIT = "cp.async.commit_group;\n"
ENDED = COMMIT + "cp.async.wait_group 0;\n"
NEIGHBOUR = "xor.b32 %r62, %r62, 16;\n"


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (ASYNC + ENDED + ASYNC + ENDED, False),
        (ASYNC + ASYNC + ENDED, True),
        (ASYNC + COMMIT + ASYNC + ENDED, True),
        (ASYNC + "cp.async.ca.shared.global [%r62+4], [%rd31], 4;\n" + ENDED, True),
        (ASYNC + COMMIT + "cp.async.cg.shared.global [%r62+1024], [%rd31], 16;\n" + ENDED, False),
        (ASYNC + COMMIT + "bar.sync 0;\n" + NEIGHBOUR + ASYNC + ENDED, True),
        (ASYNC + ENDED + "bar.sync 0;\n" + NEIGHBOUR + ASYNC + ENDED, False),
    ],
)
def test_two_copies_of_threads_to_one_place_are_in_order(lines, refused):
    kernel = text(COPY + lines + READ, target="sm_80", shared=2048)
    buffers = random_words(32, 4), empty(32, 4)
    finds(kernel, "written that cp.async of line", *buffers) if refused else passes(kernel, *buffers)


ANNOUNCED = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r63], {};\n"
SECOND = f"$N: {WAIT.replace('$L', '$M').partition(': ')[2].replace(', 0;', ', 1;')}".replace("$M", "$N")


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (ANNOUNCED.format(512) + f"@%p0 {BULK}\n" + WAIT + ANNOUNCED.format(512) + f"@%p0 {BULK}\n" + SECOND, None),
        (ANNOUNCED.format(1024) + f"@%p0 {BULK}\n@%p0 {BULK}\n" + WAIT, "written that cp.async.bulk of line"),
        (
            ANNOUNCED.format(512) + f"@%p0 {BULK}\n" + "@%p0 cp.async.ca.shared.global [%r60+16], [%rd0], 4;\n",
            "written",
        ),
    ],
)
def test_two_bulk_copies_to_one_place_are_in_order(lines, part):
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n" + lines + "bar.sync 0;\n" + LOOK
    kernel, buffers = tensor_launch(lines, matrix_map(20, 32, (8, 16)), empty(128), random_words(20, 32))
    passes(kernel, *buffers) if part is None else finds(kernel, part, *buffers)


@pytest.mark.parametrize(
    ("between", "second", "refused"),
    [
        ("cp.async.bulk.commit_group;\n", OUT, True),
        ("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n", OUT, False),
        ("cp.async.bulk.commit_group;\n", "mov.u32 %r71, 2;\n@%p0 " + OUT, True),
        ("cp.async.bulk.commit_group;\n", "mov.u32 %r70, 8;\n@%p0 " + OUT, False),
    ],
)
def test_two_bulk_copies_out_to_one_place_are_in_order(between, second, refused):
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n" + FILL + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
    second = second if second.startswith("mov") else f"@%p0 {second}"
    lines += f"@%p0 {OUT}{between}{second}cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    kernel, buffers = tensor_launch(lines, matrix_map(20, 32, (8, 16)), random_words(128), empty(20, 32))
    part = "global memory written that cp.async.bulk of line"
    finds(kernel, part, *buffers) if refused else passes(kernel, *buffers)


def test_two_reductions_to_one_place_need_no_order():
    op = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd0, {%r70, %r71}], [%r60];\n"
    lines = "mov.u32 %r70, 0; mov.u32 %r71, 0;\n" + FILL + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
    lines += f"@%p0 {op}@%p0 {op}cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    values, target = random_words(128), empty(20, 32)
    kernel, buffers = tensor_launch(lines, matrix_map(20, 32, (8, 16)), values, target)
    passes(kernel, *buffers)
    assert np.array_equal(target[:16, :8], values.reshape(16, 8) * np.uint32(2))


# -- commits


def test_a_commit_is_for_the_products_of_its_thread():
    kernel = tensor_memory()
    other = "setp.eq.u32 %p7, %r90, 1;\n@%p7 tcgen05.commit"
    finds(kernel.replace("@%p0 tcgen05.commit", other), "a product of line", *tensor_operands())
    both = kernel.replace("@%p0 tcgen05.commit", "@%p0 tcgen05.commit", 1)
    passes(both, *tensor_operands())


def test_products_of_two_threads_in_one_place_are_in_no_order():
    again = "setp.eq.u32 %p7, %r90, 1;\n" + TENSOR_MMA.replace("@%p0", "@%p7") + "%p5;\n"
    finds(tensor_memory(again=again), "no mbarrier of a commit of its thread", *tensor_operands())


PART = "setp.lt.u32 %p7, %r90, 64;\n@%p7 bar.sync 2, 64;\n"
WAITS = "setp.lt.u32 %p6, %r90, 32;\n@!%p6 bra $behind;\n" + WAIT + "$behind:\n"


@pytest.mark.parametrize(
    ("waits", "part"),
    [
        (PART + WAIT, None),
        (PART + WAITS + "bar.sync 0;\n", None),
        (PART + WAITS, "has written: this warp has not waited"),
        (WAITS + PART, "has written: this warp has not waited"),  # two of four warps
    ],
)
def test_a_product_has_ended_for_those_who_know_it(waits, part):
    kernel = tensor_memory().replace(WAIT, waits)
    passes(kernel, *tensor_operands()) if part is None else finds(kernel, part, *tensor_operands())


# -- blocks

LAST = 3


def counted(arrive, *, look="ld.global.b32", before="", behind=""):
    """Each block leaves a word and counts itself; who is the last adds all up."""
    return (
        f"mov.u32 %r60, 1; mul.wide.u32 %rd30, %r91, 4; add.u64 %rd31, %rd0, %rd30;\n"
        "setp.eq.u32 %p0, %r90, 0;\n@%p0 st.global.b32 [%rd31], %r60;\nbar.sync 0;\n"
        f"{before}@%p0 {arrive};\n{behind}mov.u32 %r70, 0;\n@!%p0 bra $end;\nsetp.ne.u32 %p1, %r5, {LAST};\n"
        f"@%p1 bra $end;\n{look} %r1, [%rd0];\n{look} %r2, [%rd0+4];\n{look} %r3, [%rd0+8];\n"
        "add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.b32 [%rd2], %r1;\n$end:\n"
    )


ADD = "atom.global{}.add.u32 %r5, [%rd1], 1"
FENCE = "fence.acq_rel.gpu;\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (counted(ADD.format(".acq_rel.gpu")), False),
        (counted(ADD.format(".gpu.acq_rel")), False),
        (counted(ADD.format(".acq_rel.sys")), False),
        (counted(ADD.format(".relaxed.gpu")), True),
        (counted(ADD.format("")), True),
        (counted(ADD.format(".acquire.gpu")), True),
        (counted(ADD.format(".release.gpu")), True),
        (counted(ADD.format(".acq_rel.cta")), True),
        (counted(ADD.format(".relaxed.gpu"), before=FENCE, behind=FENCE), False),
        (counted(ADD.format(".relaxed.gpu"), before="membar.gl;\n", behind="membar.sys;\n"), False),
        (counted(ADD.format(".relaxed.gpu"), before=FENCE), True),
        (counted(ADD.format(".relaxed.gpu"), behind=FENCE), True),
        (counted(ADD.format(".relaxed.gpu"), before="membar.cta;\n", behind="membar.cta;\n"), True),
    ],
)
def test_atomics_order_blocks_by_what_they_release_and_acquire(lines, found):
    words, count, total = empty(4), empty(1), empty(1)
    kernel = text(lines)
    if found:
        finds(kernel, "global_race", words, count, total, blocks=LAST + 1)
    else:
        passes(kernel, words, count, total, blocks=LAST + 1)
        assert total[0] == LAST


SWAPS = (
    "setp.ne.u32 %p0, %r90, 0;\n@%p0 bra $end;\n{}$again:\nadd.u32 %r2, %r1, 1;\n"
    "atom.relaxed.gpu.global.cas.b32 %r3, [%rd0+4], %r1, %r2;\nsetp.ne.u32 %p1, %r3, %r1;\nmov.u32 %r1, %r3;\n"
    "@%p1 bra $again;\n$end:\n"
)
"""A thread of each block adds one to a word."""


@pytest.mark.parametrize(
    ("load", "found"),
    [
        ("ld.global.b32 %r1, [%rd0+4];\n", False),
        ("mov.u32 %r1, 0;\n", False),
        ("ld.global.b32 %r4, [%rd0+8];\nld.global.b32 %r1, [%rd0+4];\n", False),
        ("add.u64 %rd30, %rd0, 4;\nld.global.b32 %r4, [%rd30];\nmov.u32 %r1, 0;\n", True),
    ],
)
def test_a_load_that_a_compare_and_swap_checks_is_no_race(load, found):
    """LLVM's form of an atomic that the architecture lacks, as of 16 bits before sm_90."""
    words, kernel = np.zeros(4, np.uint32), text(SWAPS.format(load))
    if found:
        finds(kernel, "global_race", words, empty(1), empty(1), blocks=3)
    else:
        passes(kernel, words, empty(1), empty(1), blocks=3)
        assert words.tolist() == [0, 3, 0, 0]


def flagged(write, read):
    """Block 0 leaves a word and raises a flag, for which the others wait."""
    return (
        "setp.ne.u32 %p0, %r90, 0; setp.ne.u32 %p1, %r91, 0;\n@%p0 bra $end;\n@%p1 bra $wait;\n"
        f"st.global.b32 [%rd0], 7;\n{write} [%rd1], 1;\nbra $end;\n"
        f"$wait:\n{read} %r1, [%rd1];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra $wait;\n"
        "ld.global.b32 %r2, [%rd0];\nmul.wide.u32 %rd30, %r91, 4; add.u64 %rd31, %rd2, %rd30;\n"
        "st.global.b32 [%rd31], %r2;\n$end:\n"
    )


@pytest.mark.parametrize(
    ("write", "read", "found"),
    [
        ("st.release.gpu.global.b32", "ld.acquire.gpu.global.b32", False),
        ("red.release.gpu.global.add.u32", "ld.acquire.sys.global.b32", False),
        ("st.relaxed.gpu.global.b32", "ld.acquire.gpu.global.b32", True),
        ("st.release.gpu.global.b32", "ld.relaxed.gpu.global.b32", True),
        ("st.volatile.global.b32", "ld.volatile.global.b32", True),
        ("st.release.cta.global.b32", "ld.acquire.cta.global.b32", True),
        ("st.global.b32", "ld.acquire.gpu.global.b32", True),
    ],
)
def test_flags_order_blocks(write, read, found):
    word, flag, target = empty(1), empty(1), empty(3)
    kernel = text(flagged(write, read))
    if found:
        finds(kernel, "global_race", word, flag, target, blocks=3)
    else:
        passes(kernel, word, flag, target, blocks=3)
        assert target.tolist() == [0, 7, 7]
