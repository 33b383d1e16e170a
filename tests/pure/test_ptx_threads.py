"""What PTX threads do beside arithmetic: lanes, barriers, branches, memory, atomics, calls, and what is found there."""

import numpy as np
import ptx_text
import pytest
from ptx_probe import execute, kernel, pairs, results_of

from portkit.emulate import Options, Order, run
from portkit.emulate.ptx.isa.families import FAMILIES
from portkit.emulate.ptx.isa.lookup import all_entries

LANES = np.arange(32)
SHARED = ".shared .align 16 .b8 tile[1024];"


def rows(threads=32):
    """A row a thread: its number, and a word of bits."""
    numbers = np.arange(threads, dtype=np.uint32)
    return np.stack([numbers, numbers * np.uint32(0x9E37_79B9)], axis=1)


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("shfl.sync.bfly.b32 %o0|%p0, %a0, 5, 31, -1;", lambda lane: (lane ^ 5, True)),
        ("shfl.sync.up.b32 %o0|%p0, %a0, 3, 0, -1;", lambda lane: (lane - 3, True) if lane >= 3 else (lane, False)),
        ("shfl.sync.down.b32 %o0|%p0, %a0, 4, 31, -1;", lambda lane: (lane + 4, True) if lane < 28 else (lane, False)),
        ("shfl.sync.idx.b32 %o0|%p0, %a0, 9, 31, -1;", lambda lane: (9, True)),
        ("shfl.sync.idx.b32 %o0|%p0, %a0, 1, 0x181f, -1;", lambda lane: (lane & ~7 | 1, True)),
    ],
)
def test_shuffles(line, source):
    got = results_of(line + "\nselp.b32 %o1, 1, 0, %p0;", rows())
    assert got[:, :2].tolist() == [[source(int(lane))[0], int(source(int(lane))[1])] for lane in LANES]


def test_votes():
    body = """setp.lt.u32 %p0, %a0, 5;
    vote.sync.ballot.b32 %o0, %p0, 0xffffffff;
    vote.sync.any.pred %p1, %p0, -1;
    vote.sync.all.pred %p2, !%p0, -1;
    vote.sync.uni.pred %p3, %p0, -1;
    selp.b32 %o1, 1, 0, %p1;
    selp.b32 %o2, 1, 0, %p2;
    selp.b32 %o3, 1, 0, %p3;"""
    assert (results_of(body, rows()) == [31, 1, 0, 0]).all()


def test_matches_and_reductions():
    body = """and.b32 %r2, %a0, 3;
    match.any.sync.b32 %o0, %r2, -1;
    redux.sync.add.s32 %o1, %a0, -1;
    redux.sync.max.u32 %o2, %a0, -1;
    redux.sync.xor.b32 %o3, %a1, -1;"""
    got = results_of(body, rows())
    assert got[:4, 0].tolist() == [0x1111_1111, 0x2222_2222, 0x4444_4444, 0x8888_8888]
    assert (got[:, 1:] == [496, 31, np.bitwise_xor.reduce(rows()[:, 1])]).all()


@pytest.mark.parametrize("first", [0x7F80_0001, 0x7FC0_0000, 0xC080_0000])
@pytest.mark.parametrize("lane", [0, 5, 31])
def test_extremes_of_floats_in_a_warp(first, lane):
    """A NaN in any lane is left out, whether it signals or not; with .NaN it is the result."""
    values = np.linspace(-3, 7, 32, dtype=np.float32).view(np.uint32)
    values[lane] = first
    body = """redux.sync.min.f32 %o0, %a0, -1;
    redux.sync.max.f32 %o1, %a0, -1;
    redux.sync.max.NaN.f32 %o2, %a0, -1;
    redux.sync.max.abs.f32 %o3, %a0, -1;"""
    got = results_of(body, values[:, None], target="sm_100a", version="8.8")
    floats = values.view(np.float32)
    numbers = floats[~np.isnan(floats)]
    assert (got[:, [0, 1, 3]].view(np.float32) == [numbers.min(), numbers.max(), np.abs(numbers).max()]).all()
    wanted = 0x7FFF_FFFF if np.isnan(floats).any() else numbers.max().view(np.uint32)
    assert (got[:, 2] == wanted).all()


def test_zeros_and_nans_alone_in_a_warp():
    body = "redux.sync.min.f32 %o0, %a0, -1;\nredux.sync.max.f32 %o1, %a0, -1;\nredux.sync.min.f32 %o2, %a1, -1;"
    row = np.stack([np.where(LANES == 7, 1 << 31, 0), np.full(32, 0xFFA5_5A5A)], axis=1)
    assert (results_of(body, row, target="sm_100a", version="8.8")[:, :3] == [1 << 31, 0, 0x7FFF_FFFF]).all()


def test_some_lanes_alone():
    """Twelve lanes vote and elect while the others are elsewhere."""
    body = """setp.lt.u32 %p0, %a0, 12;
    @!%p0 bra DONE;
    activemask.b32 %o0;
    vote.sync.ballot.b32 %o1, %p0, 0xfff;
    elect.sync %o2|%p1, 0xfff;
    selp.b32 %o3, 1, 0, %p1;
    DONE:"""
    got = results_of(body, rows())
    assert (got[:12, :3] == [0xFFF, 0xFFF, 0]).all()
    assert got[:, 3].tolist() == [1] + [0] * 31
    assert not got[12:].any()


@pytest.mark.parametrize("order", Order)
def test_loops_of_different_lengths(order):
    """Lanes go round by their number, and meet again behind."""
    body = """mov.b32 %r2, 0;
    LOOP:
    setp.ge.u32 %p0, %r2, %a0;
    @%p0 bra DONE;
    add.u32 %o0, %o0, %r2;
    add.u32 %r2, %r2, 1;
    bra LOOP;
    DONE:
    shfl.sync.idx.b32 %o1, %o0, 31, 31, -1;"""
    got = results_of(body, rows(64), threads=64, options=Options(order=order))
    assert got[:, 0].tolist() == [n * (n - 1) // 2 for n in range(64)]
    assert got[:, 1].tolist() == [465] * 32 + [63 * 62 // 2] * 32


def test_branches_by_a_table():
    body = """and.b32 %r2, %a0, 3;
    TABLE: .branchtargets A, B, C, A;
    brx.idx %r2, TABLE;
    A: mov.b32 %o0, 10; bra DONE;
    B: mov.b32 %o0, 20; bra DONE;
    C: mov.b32 %o0, 30;
    DONE:"""
    assert results_of(body, rows())[:4, 0].tolist() == [10, 20, 30, 10]


EXCHANGE = """mov.b32 %r2, tile;
    shl.b32 %r3, %a0, 2;
    add.s32 %r4, %r2, %r3;
    st.shared.b32 [%r4], %a1;
    {barrier}
    xor.b32 %r5, %r3, 128;
    add.s32 %r5, %r2, %r5;
    ld.shared.b32 %o0, [%r5];"""


@pytest.mark.parametrize("barrier", ["bar.sync 0;", "barrier.cta.sync 3, 64;", "bar.red.popc.u32 %o1, 0, 64, %p0;"])
def test_warps_exchange_through_shared_memory(barrier):
    body = "setp.lt.u32 %p0, %a0, 40;\n" + EXCHANGE.format(barrier=barrier)
    got = results_of(body, rows(64), threads=64, module=SHARED)
    assert (got[:, 0] == np.roll(rows(64)[:, 1], 32)).all()
    if "popc" in barrier:
        assert (got[:, 1] == 40).all()


def test_arrivals_without_waiting():
    body = """setp.lt.u32 %p0, %a0, 32;
    mov.b32 %r2, tile;
    @%p0 st.shared.b32 [%r2], %a1;
    @%p0 bar.arrive 1, 64;
    @%p0 bra DONE;
    bar.sync 1, 64;
    ld.shared.b32 %o0, [%r2];
    DONE:"""
    done, got = execute(body.replace("%a1;", "7;"), rows(64), threads=64, module=SHARED)
    assert (got[32:, 0] == 7).all()
    assert done.outcome.status in {"passed", "data_race"}  # all lanes store one value


@pytest.mark.parametrize(
    ("body", "threads", "status", "words"),
    [
        (EXCHANGE.format(barrier=""), 64, "data_race", "no barrier between"),
        ("mov.b32 %r2, tile;\nld.shared.b32 %o0, [%r2+16];", 32, "nondeterministic", "nothing wrote"),
        ("mov.b32 %r2, tile;\nst.shared.b32 [%r2+1024], %a0;", 32, "out_of_bounds", "1024 bytes of shared memory"),
        ("st.global.b32 [%rd3+65536], %a0;", 32, "out_of_bounds", "outside every buffer"),
        ("ld.global.b32 %o0, [%rd2+2];", 32, "device_fault", "not a multiple of 4"),
        ("add.s32 %o0, %a0, %r9;\nst.global.b32 [%rd3], %r9;", 32, "nondeterministic", "%r9 is read"),
        ("trap;", 32, "device_fault", "gives up"),
        ("setp.lt.u32 %p0, %a0, 32;\n@%p0 bar.sync 0;\n@!%p0 bar.sync 1;", 64, "timeout", "never reach"),
        ("bar.sync 1, 96;", 64, "wrong_result", "96 threads of 64"),
        ("L: bra L;", 32, "timeout", "has not ended"),
        ("st.global.b32 [%rd1], %a0;", 64, "data_race", "in no order"),
    ],
)
def test_faults_are_found_and_named(body, threads, status, words):
    done, _ = execute(body, rows(threads), threads=threads, module=SHARED, options=Options(budget=3_000_000))
    assert done.outcome.status == status, done.outcome
    assert words in done.outcome.message
    assert "line" in done.outcome.message


def test_lanes_that_never_come_are_a_deadlock():
    body = """setp.lt.u32 %p0, %a0, 4;
    @%p0 bra ELSEWHERE;
    shfl.sync.bfly.b32 %o0, %a0, 1, 31, -1;
    bra DONE;
    ELSEWHERE:
    vote.sync.ballot.b32 %o1, %p0, -1;
    DONE:"""
    done, _ = execute(body, rows())
    assert done.outcome.status == "timeout"
    assert "lanes of its warp that never come" in done.outcome.message


ATOMICS = {
    "add.u32": sum,
    "min.s32": min,
    "max.u32": max,
    "or.b32": np.bitwise_or.reduce,
    "and.b32": lambda values: 0,
    "xor.b32": np.bitwise_xor.reduce,
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name):
    """In shared memory, of all lanes on one word; what each found before is that of the lane before."""
    body = f"""mov.b32 %r2, tile;
    setp.eq.u32 %p0, %a0, 0;
    @%p0 st.shared.b32 [%r2], 0;
    bar.sync 0;
    atom.shared.{name} %o0, [%r2], %a0;
    bar.sync 0;
    ld.shared.b32 %o1, [%r2];"""
    got = results_of(body, rows(), module=SHARED)
    assert (got[:, 1] == ATOMICS[name]([0, *map(int, LANES)])).all()
    if name == "add.u32":
        assert got[:, 0].tolist() == [n * (n - 1) // 2 for n in range(32)]


def test_swaps_counts_and_exchanges():
    body = """mov.b32 %r2, tile;
    setp.eq.u32 %p0, %a0, 0;
    @%p0 st.shared.v4.b32 [%r2], {0, 0, 0, 0};
    bar.sync 0;
    atom.shared.cas.b32 %o0, [%r2], %a0, 99;
    atom.shared.inc.u32 %o1, [%r2+4], 6;
    atom.shared.exch.b32 %o2, [%r2+8], %a0;
    atom.shared.dec.u32 %o3, [%r2+12], 2;"""
    got = results_of(body, rows(), module=SHARED)
    assert got[:, 0].tolist() == [0] + [99] * 31
    assert got[:, 1].tolist() == [n % 7 for n in range(32)]
    assert got[:, 2].tolist() == [0, *range(31)]
    assert got[:, 3].tolist() == [(0, 2, 1)[n % 3] for n in range(32)]


@pytest.mark.parametrize(
    ("kind", "one", "wanted"),
    [
        ("f32", "0f3F800000", 0x4200_0000),
        ("noftz.f16x2", "0x3c003c00", 0x5000_5000),
        ("noftz.bf16x2", "0x3f803f80", 0x4200_4200),
    ],
)
def test_sums_of_floats(kind, one, wanted):
    body = f"""setp.eq.u32 %p0, %a0, 0;
    @%p0 st.global.b32 [%rd1], 0;
    bar.sync 0;
    mov.b32 %r3, {one};
    red.global.add.{kind} [%rd1], %r3;
    bar.sync 0;
    ld.global.b32 %o0, [%rd1];
    bar.sync 0;"""
    assert (results_of(body, rows())[:, 0] == wanted).all()


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_sums_of_halves_that_are_no_numbers(kind):
    body = f"""red.global.add.noftz.{kind} [%rd3], %a0;
    ld.global.b32 %o0, [%rd3];"""
    assert (results_of(body, np.full((32, 1), 0xFFC1_FF82))[:, 0] == 0x7FFF_7FFF).all()


def test_vectors_narrow_values_and_local_memory():
    module = ".const .align 4 .b8 table[8] = {1, 2, 3, 4, 255, 254, 253, 252};"
    body = """.local .align 16 .b8 own[64];
    mov.b64 %l3, own;
    cvta.local.u64 %l4, %l3;
    st.local.v2.b32 [%l3+8], {%a0, %a1};
    ld.b32 %o0, [%l4+12];
    st.local.u8 [%l3], %a1;
    ld.local.s8 %o1, [%l3];
    mov.b64 %l5, table;
    cvta.const.u64 %l5, %l5;
    ld.s8 %o2, [%l5+4];
    ld.const.u16 %o3, [table+2];"""
    got = results_of(body, rows(), module=module)
    given = rows()[:, 1]
    assert (got[:, 0] == given).all()
    assert (got[:, 1].view(np.int32) == given.astype(np.uint8).view(np.int8)).all()
    assert (got[:, 2:] == [0xFFFF_FFFF, 0x0403]).all()


FUNCTION = """.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [twice_param_0];
    add.s32 %r2, %r1, %r1;
    st.param.b32 [func_retval0], %r2;
    ret;
}"""


def test_calls():
    body = """setp.lt.u32 %p0, %a0, 7;
    @%p0 bra DONE;
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %a0;
    call.uni (retval0), twice, (param0);
    ld.param.b32 %o0, [retval0];
    }
    DONE:"""
    got = results_of(body, rows(), module=FUNCTION)
    assert got[:, 0].tolist() == [0] * 7 + [2 * n for n in range(7, 32)]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda text: text.replace("8.7", "9.9"), "unsupported", "PTX version 9.9 is newer"),
        (lambda text: text.replace("sm_90", "sm_60"), "launch_error", "sm_60 is not emulated"),
        (lambda text: text[: len(text) // 2], "launch_error", "cut off"),
        (lambda text: "", "launch_error", "is it PTX?"),
        (lambda text: text.replace("mov.b32 %o0, 0", "frob.b32 %o0, 0"), "unsupported", "frob.b32 is not known"),
        (lambda text: text.replace("mov.b32 %o0, 0", "add.f8 %o0, %a0, %a1"), "unsupported", "add"),
        (lambda text: text.replace("mov.b32 %o0, 0", "mov.b32 %o0, %nothere"), "unsupported", "nothere"),
        (lambda text: text.replace(".reqntid 32", ".reqntid 32 .reqnctapercluster 2"), "unsupported", "clusters"),
        (lambda text: text.replace("mov.b32 %o0, 0", "ld.global.frob.b32 %o0, [%rd2]"), "unsupported", ".frob of ld"),
    ],
)
def test_bad_text_is_refused_by_name(change, status, words):
    buffers = [np.zeros((32, 8), np.uint32), np.zeros((32, 4), np.uint32)]
    done = run(change(kernel("")), "sm_90", (1,), buffers, 1)
    assert done.outcome.status == status, done.outcome
    assert words in done.outcome.message


def test_a_text_for_another_architecture_is_refused():
    done = run(kernel(""), "sm_80", (1,), [np.zeros(256, np.uint32), np.zeros(128, np.uint32)], 1)
    assert (done.outcome.status, "for sm_90, not for sm_80" in done.outcome.message) == ("launch_error", True)


def test_every_entry_names_its_section():
    assert len(all_entries()) > 100
    for table in FAMILIES.values():
        for name, entries in table.items():
            assert all(": " in entry.section for entry in entries), name


def test_results_do_not_depend_on_the_order_of_warps():
    given = pairs()[:256]
    body = "fma.rn.f32 %o0, %a0, %a1, %a2;\nbar.sync 0;\nex2.approx.f32 %o1, %a0;"
    wanted = results_of(body, given, threads=128)
    for order in Order:
        assert (results_of(body, given, threads=128, options=Options(order=order, seed=3)) == wanted).all()


def test_what_changes_nothing():
    """Hints and fences, of memory that has no caches."""
    body = """membar.gl;
    fence.acq_rel.gpu;
    prefetch.global.L2 [%rd2];
    prefetchu.L1 [%rd2];
    applypriority.global.L2::evict_normal [%rd2], 128;
    discard.global.L2 [%rd2], 128;
    nanosleep.u32 20;
    pmevent 3;
    griddepcontrol.wait;
    createpolicy.fractional.L2::evict_last.b64 %l5, 1.0;
    ld.global.L2::cache_hint.b32 %o0, [%rd2], %l5;
    ldu.global.b32 %o1, [%rd2+4];
    bar.warp.sync -1;"""
    assert (results_of(body, rows())[:, :2] == rows()).all()


def test_where_addresses_lie():
    body = """mov.b64 %l3, tile;
    cvta.shared.u64 %l4, %l3;
    isspacep.shared %p0, %l4;
    isspacep.global %p1, %l4;
    isspacep.global %p2, %rd2;
    selp.b32 %o0, 1, 0, %p0;
    selp.b32 %o1, 1, 0, %p1;
    selp.b32 %o2, 1, 0, %p2;
    mapa.shared::cluster.u64 %l5, %l3, 0;
    st.shared::cluster.b32 [%l5], 77;
    ld.b32 %o3, [%l4];"""
    assert (results_of(body, rows(), module=SHARED) == [1, 0, 1, 77]).all()


@pytest.mark.parametrize("end", ["exit", "ret"])
def test_threads_that_end_early(end):
    body = f"setp.ge.u32 %p0, %a0, 16;\n@%p0 {end};\nvote.sync.ballot.b32 %o0, %p0, 0xffff;\nmov.b32 %o1, 5;"
    got = results_of(body, rows(64), threads=64)
    assert (got[:16, :2] == [0, 5]).all()
    assert not got[16:].any()


def test_a_breakpoint_ends_the_kernel():
    done, _ = execute("brkpt;", rows())
    assert done.outcome.status == "device_fault"


@pytest.mark.parametrize("name", ["bar.cta.sync", "barrier.sync", "barrier.cta.sync"])
def test_names_of_the_block_s_barrier(name):
    got = results_of(EXCHANGE.format(barrier=f"{name} 2;"), rows(64), threads=64, module=SHARED)
    assert (got[:, 0] == np.roll(rows(64)[:, 1], 32)).all()


@pytest.mark.parametrize("name", ["bar.cta.red", "barrier.red", "barrier.cta.red"])
@pytest.mark.parametrize(("operation", "wanted"), [("and", 0), ("or", 1)])
def test_predicates_of_the_whole_block(name, operation, wanted):
    body = f"setp.eq.u32 %p0, %a0, 50;\n{name}.{operation}.pred %p1, 0, %p0;\nselp.b32 %o0, 1, 0, %p1;"
    assert (results_of(body, rows(64), threads=64)[:, 0] == wanted).all()


@pytest.mark.parametrize("name", ["bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive"])
def test_names_of_arrivals(name):
    body = f"setp.lt.u32 %p0, %a0, 32;\n@%p0 {name} 1, 64;\n@!%p0 bar.sync 1, 64;\nmov.b32 %o0, 3;"
    assert (results_of(body, rows(64), threads=64)[:, 0] == 3).all()


def test_packed_integers():
    given = rows()
    given[:4] = [[300, 5], [0xFFFF_FF00, 127], [0x8000_0000, 0x7FFF_FFFF], [1, 0xFFFF_FFFF]]
    got = results_of("cvt.pack.sat.s8.s32.b32 %o0, %a0, %a1, %r0;\ncvt.pack.sat.u16.s32 %o1, %a0, %a1;", given)
    assert got[:4, 0].tolist() == [0x7F05, 0x1_807F, 0x2_807F, 0x3_01FF]
    assert got[:4, 1].tolist() == [300 << 16 | 5, 127, 0xFFFF, 1 << 16]


def test_dot_products_of_shorts_and_bytes():
    given = rows()
    given[0] = [0x0002_FFFF, 0x0403_0201]
    got = results_of("dp2a.lo.s32.u32 %o0, %a0, %a1, 10;\ndp2a.hi.u32.u32 %o1, %a0, %a1, 0;", given)
    assert got[0, :2].tolist() == [-1 * 1 + 2 * 2 + 10, 0xFFFF * 3 + 2 * 4]


@pytest.mark.parametrize(
    "lines",
    [
        "mov.b64 %rd6, p1; cvta.param.u64 %rd7, %rd6; ld.u64 %rd8, [%rd7];",
        "mov.b32 %r5, p1; cvt.u64.u32 %rd6, %r5; cvta.param.u64 %rd7, %rd6; ld.u64 %rd8, [%rd7];",  # as from Triton 3.9
        "mov.b32 %r5, p0; ld.param.u64 %rd8, [%r5+8];",
    ],
)
def test_addresses_of_parameters(lines):
    """By registers of either width the second parameter is read, which is the address of the result."""
    found = np.zeros(32, np.uint32)
    store_there = "mul.wide.u32 %rd20, %r92, 4; add.u64 %rd21, %rd8, %rd20; st.global.b32 [%rd21], %r92;"
    ptx_text.passes(ptx_text.text(f"{lines}\n{store_there}"), np.zeros(4, np.uint32), found)
    assert np.array_equal(found, np.arange(32))


def test_addresses_of_global_memory_take_64_bits():
    damaged = ptx_text.text("mov.b32 %r5, table;").replace(".visible", ".global .b32 table[4];\n.visible", 1)
    assert "32 bits for the address of table" in ptx_text.launch(damaged, np.zeros(4, np.uint32)).outcome.message
