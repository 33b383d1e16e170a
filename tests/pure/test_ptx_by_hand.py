"""PTX as people and other compilers write it: what has one meaning runs, what has none is refused or found by name."""

import numpy as np
import pytest
from ptx_probe import execute, kernel, results_of

from portkit.emulate import Options, run

LANES = np.arange(32, dtype=np.uint32)
ROWS = np.stack([LANES, LANES * 1001 + 7, LANES * 77], axis=1)
SHARED = ".shared .align 128 .b8 tile[1024];"
FIRST = "setp.eq.u32 %p7, %a0, 0;\nmov.b32 %r9, tile;\n"


def outcome(body, *, threads=32, **more):
    rows = np.stack([np.arange(threads)] * 2, axis=1).astype(np.uint32)
    return execute(body, rows, threads=threads, options=Options(budget=3_000_000), **more)[0].outcome


# -- text


def test_comments_over_several_lines():
    got = results_of('/* one; two\n.file 1 "a/*b" */ add.u32 %o0, %a0 /* %a1 */, 1; // /* no beginning\n', ROWS)
    assert got[:, 0].tolist() == (LANES + 1).tolist()


def test_what_stands_behind_a_pragma_runs():
    assert results_of('.pragma "nounroll"; add.u32 %o0, %a0, 1;', ROWS)[:, 0].tolist() == (LANES + 1).tolist()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("bra X;\nX: mov.b32 %o0, 1;\nX: mov.b32 %o1, 2;", "label X is there twice"),
        (".reg .b32 %z;\n.reg .b64 %z;", "register %z is there twice"),
        (".shared .b32 here;\n.shared .b64 here;", "variable here is there twice"),
    ],
)
def test_names_that_stand_for_two_things_are_refused(body, words):
    found = outcome(body)
    assert (found.status, words in found.message) == ("launch_error", True), found


def test_blocks_of_several_dimensions_are_refused():
    text = kernel("").replace(".reqntid 32", ".reqntid 8, 4")
    done = run(text, "sm_90", (1,), [np.zeros((32, 8), np.uint32), np.zeros((32, 4), np.uint32)], 1)
    assert (done.outcome.status, "several dimensions" in done.outcome.message) == ("unsupported", True)


# -- names


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("add.q32 %o0, %a0, %a1;", ".q32 of add is not known"),
        ("ld.global.f32.u32 %o0, [%rd2];", "type .f32 of ld"),
        ("st.global.b16.b32 [%rd3], %a0;", "type .b16 of st"),
        ("atom.global.add.u32.f32 %o0, [%rd3], %a0;", "type .u32 of atom"),
        ("shl.b32.b32 %o0, %a0, %a1;", "type .b32 of shl"),
        ("bar.sync.f32 0;", "type .f32 of bar"),
        ("bar.red.popc.f32 %o0, 0, %p0;", "type .f32 of bar"),
        ("ld.global.L1::frob.b32 %o0, [%rd2];", "modifier .L1::frob of ld"),
        ("fence.frob;", "modifier .frob of fence"),
        ("prefetch.global.L3 [%rd2];", "modifier .L3 of prefetch"),
        ("createpolicy.frob.b64 %rd4, 1.0;", "modifier .frob of createpolicy"),
        ("min.ftz.f64 %rd4, %l0, %l1;", "modifier .ftz of min"),
        ("rsqrt.rn.f32 %o0, %a0;", "none of .approx"),
        ("mov.b32 {%h0, %h1, %h2}, %a0;", "3 parts of a .b32"),
        (".reg .b128 %q;\nmov.b128 %q, {%l0, %l1};", "2 parts of a .b128"),
        ("ld.param.u64 %rd4, [probe_param_0-8];", "8 bytes at -8 of parameter probe_param_0"),
        ("ld.param.u32 %o0, [probe_param_0+2];", "no multiple of 4"),
        ("cp.async.cg.shared.global [0], [%rd2], 4;", "a size other than 16 bytes"),
        ("cp.async.wait_group -1;", "no constant from 0 on"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(line, words):
    found = outcome(line)
    assert (found.status, words in found.message, "line " in found.message) == ("unsupported", True, True), found


def test_what_only_hints_runs():
    body = """prefetch.global.L2 [%rd2]; prefetchu.L1 [%rd2]; discard.global.L2 [%rd2], 128;
    applypriority.global.L2::evict_normal [%rd2], 128; fence.acq_rel.gpu; fence.sc.cta; membar.gl;
    griddepcontrol.wait; griddepcontrol.launch_dependents; fence.proxy.alias; fence.mbarrier_init.release.cluster;
    createpolicy.fractional.L2::evict_last.b64 %rd4, 1.0; nanosleep.u32 100; setmaxnreg.inc.sync.aligned.u32 64;
    ld.global.L1::evict_last.L2::cache_hint.L2::128B.b32 %o0, [%rd2], %rd4;"""
    assert results_of(body, ROWS)[:, 0].tolist() == LANES.tolist()


# -- functions

COUNTS_DOWN = """.func (.param .b32 r) f(.param .b32 a)
{
    .reg .b32 %n;
    .param .b32 given;
    .param .b32 got;
    ld.param.b32 %n, [a];
    st.param.b32 [given], %n;
    call.uni (got), f, (given);
    ret;
}"""
ONE = ".func (.param .b32 r) f(.param .b32 a)\n{ st.param.b32 [r], 1; ret; }"


@pytest.mark.parametrize(
    ("call", "module", "words"),
    [
        ("(y), f, (x)", COUNTS_DOWN, "function f may call itself"),
        ("(y), f, (x, x)", ONE, "2 arguments of f, which has 1"),
        ("f, (x)", ONE, "0 results of f, which has 1"),
        ("(y), vprintf, (x)", "", "1 arguments of vprintf, which has 2"),
    ],
)
def test_calls_that_can_not_be_are_refused(call, module, words):
    found = outcome(f"{{ .param .b32 x; .param .b32 y; st.param.b32 [x], 3; call.uni {call}; }}", module=module)
    assert (found.status, words in found.message) == ("unsupported", True), found


# -- lanes by masks


def test_lanes_of_several_masks_keep_to_their_own():
    body = """mov.pred %p1, 1;
    shfl.sync.idx.b32 %r2, %a0, 0, 31, -1;
    and.b32 %r3, %a0, 3;
    match.any.sync.b32 %r4, %r3, -1;
    redux.sync.add.u32 %o0, %a0, %r4;
    vote.sync.ballot.b32 %o1, %p1, %r4;
    shfl.sync.bfly.b32 %o2, %a0, 4, 31, %r4;
    shfl.sync.bfly.b32 %o3, %a0, 1, 31, -1;"""
    got = results_of(body, ROWS)
    assert got[:, 0].tolist() == [sum(range(lane % 4, 32, 4)) for lane in range(32)]
    assert got[:, 1].tolist() == [0x1111_1111 << lane % 4 for lane in range(32)]
    assert got[:, 2].tolist() == [lane ^ 4 for lane in range(32)]
    assert got[:, 3].tolist() == [lane ^ 1 for lane in range(32)]


def test_all_match_where_all_hold_one_value():
    body = """shr.u32 %r2, %a0, 5;
    match.all.sync.b32 %o0|%p1, %r2, -1;
    selp.b32 %o1, 1, 0, %p1;
    match.all.sync.b64 %o2|%p1, %l0, -1;
    selp.b32 %o3, 1, 0, %p1;"""
    assert (results_of(body, ROWS) == [0xFFFF_FFFF, 1, 0, 0]).all()


def test_lanes_whose_guard_is_false_need_no_mask():
    body = """setp.lt.u32 %p0, %a0, 4;
    setp.lt.u32 %p1, %a0, 2;
    @%p0 vote.sync.ballot.b32 %o0, %p1, 15;
    vote.sync.ballot.b32 %o1, %p1, -1;"""
    got = results_of(body, ROWS)
    assert got[:, 0].tolist() == [3] * 4 + [0] * 28
    assert (got[:, 1] == 3).all()


@pytest.mark.parametrize("order", ["converged", "forward", "reverse", "seeded"])
def test_parts_of_a_mask_that_come_one_after_the_other(order):
    body = """setp.lt.u32 %p0, %a0, 2;
    @%p0 bra A;
    setp.gt.u32 %p1, %a0, 3;
    @%p1 bra C;
    bra B;
    A: add.u32 %o1, %o1, 1;
    B: mov.pred %p2, 1;
    vote.sync.ballot.b32 %o0, %p2, 15;
    C: shfl.sync.bfly.b32 %o2, %a0, 1, 31, -1;"""
    got = results_of(body, ROWS, options=Options(order=order))
    assert got[:, 0].tolist() == [15] * 4 + [0] * 28
    assert got[:, 2].tolist() == [lane ^ 1 for lane in range(32)]


def test_a_lane_that_is_not_in_its_own_mask_is_found():
    found = outcome("shfl.sync.idx.b32 %o0, %a1, 0, 31, 1;")
    assert (found.status, "not in its own mask of members, 0x1" in found.message) == ("wrong_result", True), found


def test_what_a_lane_outside_of_the_mask_gives_is_not_known():
    body = """setp.lt.u32 %p0, %a0, 16;
    @!%p0 bra X;
    shfl.sync.idx.b32 %o0, %a1, 20, 31, 0xffff;
    X:"""
    assert (results_of(body, ROWS, options=Options(poison=0xABCD))[:16, 0] == 0xABCD).all()


# -- barriers

HALVES = "and.b32 %r3, %a0, 31;\nsetp.lt.u32 %p0, %r3, 16;\n"
WARPS = "setp.lt.u32 %p0, %a0, 32;\n@%p0 bra X;\n{}\nbra Y;\nX: {}\nY:"


@pytest.mark.parametrize(
    ("body", "threads", "words"),
    [
        (HALVES + "@%p0 bar.sync 1, 32;\nbar.sync 0;", 64, "lanes of one warp do not come to together"),
        (HALVES + "@%p0 bra X;\nbar.sync 0;\nbra Y;\nX: bar.sync 0;\nY:", 32, "do not come to together"),
        (WARPS.format("bar.arrive 1, 96;", "bar.sync 1, 64;"), 96, "a barrier for 64 threads, and by others for"),
        (WARPS.format("bar.sync 1, 64;", "bar.sync 1, 32;"), 64, "and by others for another number"),
    ],
)
def test_barriers_that_have_no_meaning_are_found(body, threads, words):
    found = outcome(body, threads=threads)
    assert (found.status, words in found.message) == ("wrong_result", True), found


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        (HALVES + "@%p0 barrier.sync 1, 32;\nbar.sync 0;", 64),
        ("setp.lt.u32 %p0, %a0, 40;\n@!%p0 exit;\nbar.sync 0;", 64),
        (WARPS.format("bar.arrive 1, 96;", "bar.sync 1, 96;"), 96),
        (WARPS.format("bar.sync 1, 32;\nbar.sync 0;", "bar.sync 2, 32;\nbar.sync 0, 64;"), 64),
    ],
)
def test_barriers_of_some_threads(body, threads):
    assert outcome(body, threads=threads).status == "passed"


# -- memory and copies


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("cp.async.ca.shared.global [%r9], [%rd2], 4, 8;", "wrong_result", "a copy of 4 bytes from 8 of its source"),
        (
            "@%p7 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9+128], [%rd0], 8, [%r9];",
            "wrong_result",
            "a bulk copy of 8 bytes: a multiple of 16",
        ),
        (
            "@%p7 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9+128], [%rd0], 0, [%r9];",
            "wrong_result",
            "a bulk copy of 0 bytes",
        ),
        ("@%p7 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9], 0x100000;", "wrong_result", "counts up to 1048575"),
        ("ld.global.v8.b32 {%o0, %o1, %o2, %o3, %r2, %r3, %r4, %r5}, [%rd0+16];", "device_fault", "multiple of 32"),
        ("red.global.add.v2.f32 [%rd3+4], {%a0, %a1};", "device_fault", "multiple of 8"),
    ],
)
def test_copies_and_accesses_that_have_no_meaning_are_found(body, status, words):
    made = FIRST + "@%p7 mbarrier.init.shared.b64 [%r9], 1;\nbar.sync 0;\n"
    found = outcome(made + body, module=SHARED, target="sm_100a")
    assert (found.status, words in found.message) == (status, True), found


# -- quotients


def test_quotients_by_infinity_are_zeros_in_every_mode():
    body = "div.rp.f32 %o0, %a0, %a1;\ndiv.rm.f32 %o1, %a2, %a1;\ndiv.rz.f32 %o2, %a0, %a1;\ndiv.rn.f32 %o3, %a2, %a1;"
    rows = np.full((32, 3), [0x3F80_0000, 0x7F80_0000, 0xBF80_0000])
    assert (results_of(body, rows) == [0, 0x8000_0000, 0, 0x8000_0000]).all()


# -- products of matrices

SIX = "{%o0, %o1, %o2, %o3}, {%a0, %a1, %a2, %a3}, {%a4, %a5}, {%o0, %o1, %o2, %o3}"
SCALED = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"


@pytest.mark.parametrize(
    ("name", "more", "target", "words"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", "", "sm_75", "sm_75 has no shape m16n8k16 of f32 f16 f16 f32"),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", "", "sm_75", "sm_75 has no shape"),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", "", "sm_80", "sm_80 has no shape m16n8k32 of f32 e4m3 e4m3 f32"),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "", "sm_90", "sm_90 has no shape"),
        ("m16n8k16.row.col.f32.f16.bf16.f32", "", "sm_90", "shape m16n8k16 of f32 f16 bf16 f32"),
        ("m16n8k32.row.col.f32.e2m3.e2m3.f32", "", "sm_120a", "shape m16n8k32 of f32 e2m3 e2m3 f32"),
    ],
)
def test_products_that_an_architecture_lacks_are_refused(name, more, target, words):
    found = outcome(f"mma.sync.aligned.{name} {SIX}{more};", target=target)
    assert (found.status, words in found.message) == ("unsupported", True), found


@pytest.mark.parametrize(
    ("name", "scales", "status", "words"),
    [
        (SCALED, "{%a0}, {%h0, %h1}, {%a1}, {%h0, %h1}", "unsupported", "sm_90 has no shape"),
        (SCALED.replace("ue8m0", "ue4m3"), "%a0, {0, 0}, %a1, {0, 0}", "unsupported", "no scale_vec of .ue4m3"),
        (SCALED, "%a0, {0, 2}, %a1, {0, 0}", "wrong_result", "byte 0 and lanes 2 of a register with scales"),
    ],
)
def test_scales_that_there_are_not(name, scales, status, words):
    found = outcome(f"{name} {SIX}, {scales};", target="sm_90" if "sm_90" in words else "sm_120a")
    assert (found.status, words in found.message) == (status, True), found


def test_addresses_of_shared_memory_wrap():
    """As an H200's do."""
    body = FIRST + "mad.lo.u32 %r3, %a0, 4, %r9;\nsub.u32 %r3, %r3, 256;\nst.shared.b32 [%r3+272], %a1;\n"
    got = results_of(body + "ld.shared.b32 %o0, [%r3+272];", ROWS, module=SHARED)
    assert got[:, 0].tolist() == ROWS[:, 1].tolist()
