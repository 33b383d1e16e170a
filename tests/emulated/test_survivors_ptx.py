"""Why mutants of PTX are as good as the whole kernel: each class, on texts that have one of it."""

import numpy as np
import pytest
import survivors_ptx
from mutants import Change
from mutants_ptx import changed, weaker
from ptx_text import text

from portkit.emulate import Options
from portkit.emulate.core.findings import Halt
from portkit.emulate.ptx.launch import Launch, load

OTHERS = """
mov.u32 %r1, 7; // dead
mov.u32 %r1, %r90;
mov.u32 %r2, %r1;
mov.u32 %r2, %r1; // equal
mov.u32 %r3, %r91; // masked
setp.lt.u32 %p1, %r90, 32;
@!%p1 mov.u32 %r3, 5;
setp.ge.u32 %p2, %r90, 32;
@!%p2 bra $next; // skips
$next:
mov.u32 %r5, 6; // dead
add.u32 %r4, %r3, %r2;
mul.wide.u32 %rd30, %r90, 4; add.u64 %rd31, %rd0, %rd30;
@%p2 st.global.b32 [%rd31], %r4;
@!%p1 st.global.b32 [%rd31], %r4; // lost
"""


def commented(kernel, code):
    """Instruction → the comment behind it."""
    comments = [line.partition("// ")[2].strip() for line in kernel.splitlines()]
    named = {n: comments[item.instruction.site.line - 1] for n, item in enumerate(code.compiled)}
    return {n: comment for n, comment in named.items() if comment in {*survivors_ptx.CLASSES, "needed"}}


def launch(code):
    return Launch(code, (1,), [np.zeros(64, np.uint32)], 2, 8192, Options())


def test_classes_of_others():
    kernel = text(OTHERS, threads=64, shared=8192)
    code = load(kernel)
    named = commented(kernel, code)
    assert set(named.values()) == {"dead", "equal", "masked", "skips", "lost"}
    assert {n: survivors_ptx.class_of(code, n, lambda: [launch(code)]) for n in named} == named


COPIES = """
mov.u32 %r60, tile; shl.b32 %r61, %r90, 2; add.u32 %r62, %r60, %r61; xor.b32 %r63, %r62, 128;
mul.wide.u32 %rd30, %r90, 4; add.u64 %rd31, %rd0, %rd30;
cp.async.wait_group 0; // idle
cp.async.commit_group; // idle
cp.async.ca.shared.global [%r62], [%rd31], 4;
cp.async.commit_group; // merged
cp.async.ca.shared.global [%r62+1024], [%rd31], 4;
cp.async.commit_group; // needed
cp.async.wait_group 0; // needed
bar.sync 0; // needed
ld.shared.b32 %r0, [%r63];
bar.sync 0; // covered
cp.async.ca.shared.global [%r62+2048], [%rd31], 4;
cp.async.commit_group; // needed
cp.async.wait_group 0; // unused
"""


def reason_of(kind, name, whole, mutant):
    """``needed`` where there is none, or where the mutant does not even run to its end."""
    try:
        return survivors_ptx.reason(kind, name, [whole], [mutant]) or "needed"
    except Halt:
        return "needed"


@pytest.mark.parametrize("kind", ["barrier", "wait", "commit"])
def test_classes_of_what_orders(kind):
    kernel = text(COPIES, threads=64, shared=8192)
    code = load(kernel)
    named = {n: why for n, why in commented(kernel, code).items() if survivors_ptx.mutants_ptx.kind_of(code, n) == kind}
    assert len(named) == {"barrier": 2, "wait": 3, "commit": 4}[kind]
    for number, why in named.items():
        idle = survivors_ptx.is_idle(code, number, [launch(code)])
        mutant = launch(changed(code, Change(number, "deleted")))
        assert idle is (why == "idle")
        assert idle or reason_of(kind, code.compiled[number].instruction.name, launch(code), mutant) == why
    assert {name for n in named for name in weaker(code, n)} == ({"wait 1"} if kind == "wait" else set())


def commits(second=0, waits=64):
    """Threads 0 and ``second`` commit to one mbarrier each; the first ``waits`` ask for the later, all for one."""

    def arrive(at, thread):
        name = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
        return f"setp.eq.u32 %p1, %r90, {thread}; @%p1 {name} [%r6{at}]; bar.sync 0;"

    asks = "mbarrier.try_wait.parity.shared::cta.b64 %p3"
    return f"""
mov.u32 %r60, tile; add.u32 %r61, %r60, 8; setp.eq.u32 %p0, %r90, 0; setp.lt.u32 %p2, %r90, {waits};
@%p0 mbarrier.init.shared::cta.b64 [%r60], 1; @%p0 mbarrier.init.shared::cta.b64 [%r61], 1;
bar.sync 0;
{arrive(0, 0)}
{arrive(1, second)}
@!%p2 bra $other;
$later:
{asks}, [%r61], 0; // needed
@!%p3 bra $later;
$other:
{asks}, [%r60], 0; // {"behind" if (second, waits) == (0, 64) else "needed"}
@!%p3 bra $other;
{arrive(0, 0)}
$last:
{asks}, [%r60], 1; // needed
@!%p3 bra $last;
"""


@pytest.mark.parametrize(("second", "waits"), [(0, 64), (1, 64), (0, 32)])
def test_waits_behind_a_later_commit(second, waits):
    kernel = text(commits(second, waits), target="sm_100a", threads=64, shared=8192)
    code = load(kernel)
    named = commented(kernel, code)
    assert len(named) == 3
    found = {n: "behind" if survivors_ptx.is_behind(code, n, [launch(code)]) else "needed" for n in named}
    assert found == named


MADE = """
mov.u32 %r60, tile; setp.eq.u32 %p0, %r90, 0;
@%p0 mbarrier.init.shared::cta.b64 [%r60], 1; // unnamed
bar.sync 0;
@%p0 mbarrier.init.shared::cta.b64 [%r60], 1; // needed
@%p0 mbarrier.init.shared::cta.b64 [%r60+8], 1; // unnamed
bar.sync 0;
@%p0 mbarrier.arrive.shared::cta.b64 _, [%r60];
bar.sync 0;
@%p0 st.shared.b64 [%r60+8], %rd0;
"""


def test_mbarriers_that_nobody_names():
    kernel = text(MADE, threads=64, shared=8192)
    code = load(kernel)
    named = commented(kernel, code)
    assert len(named) == 3
    assert {n: "unnamed" if survivors_ptx.is_unnamed(code, n, [launch(code)]) else "needed" for n in named} == named


PARTS = """
mov.u32 %r60, tile; add.u32 %r61, %r60, 8; setp.eq.u32 %p0, %r90, 0; setp.eq.u32 %p1, %r90, 32;
@%p0 mbarrier.init.shared::cta.b64 [%r60], 1; @%p0 mbarrier.init.shared::cta.b64 [%r61], 1;
setp.lt.u32 %p2, %r90, 32;
bar.sync 0;
@%p2 bra $waits;
ld.shared.b32 %r0, [%r60+64];
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r60];
{}
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r61];
bra $end;
$waits:
$first: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r60], 0; // first
@!%p3 bra $first;
$second: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r61], 0; // second
@!%p3 bra $second;
@%p0 st.shared.b32 [%r60+64], 1;
@%p0 st.shared.b32 [%r60+68], 1;
$end:
"""


@pytest.mark.parametrize("more", ["", "ld.shared.b32 %r0, [%r60+68];"])
def test_waits_for_what_is_known_by_another(more):
    """One warp reads, tells of it, reads more or not, and tells again: the second wait covers the first."""
    kernel = text(PARTS.format(more), threads=64, shared=8192)
    code = load(kernel)
    comments = [line.partition("// ")[2] for line in kernel.splitlines()]
    asks = {comments[item.instruction.site.line - 1]: n for n, item in enumerate(code.compiled)}
    found = {}
    for which in ("first", "second"):
        mutant = launch(changed(code, Change(asks[which], "deleted")))
        found[which] = survivors_ptx.reason("wait", code.compiled[asks[which]].instruction.name, [], [mutant])
    assert found == {"first": "ordered", "second": "" if more else "ordered"}
