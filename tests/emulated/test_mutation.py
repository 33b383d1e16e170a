"""Deleted instructions are noticed: every barrier and every wait that a result needs, and most of the others.

A small sample; ``scripts/mutate_emulated.py`` deletes 2,000 instructions of ten kernels.
"""

import functools

import numpy as np
import pytest
import survivors_ptx
from assembly import kernel
from mutant_cases import CASES, PTX_CASES
from mutants import (
    DELETED,
    MISSED,
    Change,
    Explained,
    detected,
    execute,
    launch_of,
    load_of,
    mutants,
    ordering,
    prepare,
)
from mutants_ptx import ASKS, changed, name_of
from needed import Record, barrier_is_needed, meetings, wait_is_needed
from survivors import CLASSES, class_of, effects_of

from portkit.emulate import Options
from portkit.emulate.amdgcn.launch import Launch, load


@functools.cache
def deleted(name, architecture):
    """All barriers and waits of a kernel, deleted and weakened one by one."""
    return list(mutants(CASES[name](architecture), 0, ordering))


@pytest.mark.parametrize(("name", "architecture"), [("softmax", "gfx1201"), ("sum_abs", "gfx942")])
def test_every_needed_barrier_and_wait(name, architecture):
    found = deleted(name, architecture)
    assert len(found) >= 8
    assert {item.kind for item in found} == {"barrier", "wait"}
    assert not [item for item in found if item.why == MISSED]
    assert sum(not item.by for item in found) <= 6


@pytest.mark.parametrize(
    ("name", "architecture", "most"),
    [("softmax", "sm_90", 0), ("attention", "sm_75", 2), ("pipelined", "sm_90", 3), ("pipelined", "sm_100", 10)],
)
def test_everything_that_orders_in_ptx(name, architecture, most):
    """``most``: how many mutants may be as good as the whole kernel, each for a reason."""
    found = list(mutants(PTX_CASES[name](architecture), 0, ordering))
    assert len(found) >= 5
    assert not [item for item in found if item.why == MISSED]
    assert sum(not item.by for item in found) <= most


def test_most_deletions_of_ptx():
    found = [item for item in mutants(PTX_CASES["scan_and_sort"]("sm_90"), 12) if item.kind == "other"]
    assert len(found) == 12
    assert sum(bool(item.by) for item in found) >= 9, found


def test_the_replay_agrees_with_the_checker():
    """On deletions that the checker notices, by another algorithm."""
    case = CASES["softmax"]("gfx1201")
    code = load(case.built.text)
    ((record, met), *_) = Explained(case, code).records
    found = [item for item in deleted("softmax", "gfx1201") if item.by and item.change == DELETED]
    lines = {code.compiled[n].instruction.site.line: n for n in range(len(code.compiled))}
    decide = {"barrier": barrier_is_needed, "wait": wait_is_needed}
    needed = [decide[item.kind](record, met, lines[item.line]) for item in found]
    assert len(needed) >= 15
    assert all(needed)


@pytest.mark.parametrize(("name", "architecture"), [("scan_and_sort", "gfx942"), ("swiglu", "gfx1100")])
def test_most_deletions(name, architecture):
    found = [item for item in mutants(CASES[name](architecture), 12) if item.kind == "other"]
    assert len(found) == 12
    assert sum(bool(item.by) for item in found) >= 8, found
    assert all(item.why in CLASSES for item in found if not item.by)
    assert any(item.verdict for item in found)


EXCHANGE = """
v_lshlrev_b32_e32 v20, 2, v0
v_xor_b32_e32 v21, 0x100, v20
ds_write_b32 v20, v1
s_waitcnt lgkmcnt(0) ; needed: the other wave reads it behind the barrier
s_barrier ; needed
ds_read_b32 v10, v21
ds_read_b32 v11, v20
s_waitcnt lgkmcnt(1) ; needed
v_add_u32_e32 v10, 1, v10
s_waitcnt lgkmcnt(0) ; redundant, as the next waits too
s_waitcnt vmcnt(0) lgkmcnt(0) ; redundant, as the one before waited
v_add_u32_e32 v11, 1, v11
s_barrier ; redundant
"""


def launch(code):
    """Two waves."""
    return Launch(code, (1,), [np.arange(1024, dtype=np.uint32), np.zeros(512, np.uint32)], 2, 512, Options())


def test_what_is_needed():
    text = kernel("gfx942", EXCHANGE, waves=2, shared=512)
    code = load(text)
    record, run = Record(code), launch(code)
    run.attach.append(record.attach)
    run.run()
    met, lines = meetings(record), text.splitlines()
    for number, item in enumerate(code.compiled):
        comment = lines[item.instruction.site.line - 1].partition("; ")[2]
        if comment:
            decide = wait_is_needed if item.instruction.mnemonic == "s_waitcnt" else barrier_is_needed
            assert decide(record, met, number) is comment.startswith("needed"), item.instruction.site


SURVIVORS = """
v_mov_b32_e32 v22, 7 ; dead
v_mov_b32_e32 v22, 5
v_mov_b32_e32 v10, v22
v_mov_b32_e32 v10, v22 ; equal
s_mov_b32 s8, s6
s_mov_b32 s9, s7
s_mov_b32 s10, 0x1000
s_mov_b32 s11, 0x27000 ; flags
buffer_store_dword v10, v20, s[8:11], 0 offen
v_rcp_f32_e32 v24, 2.0
v_fma_f32 v24, v24, v24, 1.0 ; refines
v_div_fixup_f32 v12, v24, v2, v1
s_and_saveexec_b64 s[12:13], exec
s_cbranch_execz .Lend ; skips
v_mov_b32_e32 v23, 1.0
v_and_b32_e32 v23, 1, v23 ; lost
v_and_b32_e32 v11, 1, v23
.Lend:
"""


def test_classes_of_survivors():
    text = kernel("gfx942", SURVIVORS)
    code = load(text)
    values = [np.arange(512, dtype=np.uint32), np.zeros(1024, np.uint32)]
    effects = effects_of(code, [Launch(code, (1,), values, 1, 0, Options())])
    comments = [line.partition("; ")[2] for line in text.splitlines()]
    named = {n: comments[item.instruction.site.line - 1] for n, item in enumerate(code.compiled)}
    found = {n: class_of(effects, n) for n, comment in named.items() if comment}
    assert set(found.values()) == set(CLASSES)
    assert found == {n: comment for n, comment in named.items() if comment}


def test_every_wait_of_specialised_warps_for_a_copy():
    """Two partitions multiply by one operand: that one has waited for it does not let the other read it."""
    prepared = prepare(PTX_CASES["specialised"]("sm_90"), 0, ordering)
    changes = [change for change in prepared.changes if change.name == DELETED and _asks(prepared.code, change.index)]
    found = [detected(prepared.case, changed(prepared.code, change), prepared.whole)[0] for change in changes]
    assert len(found) >= 8
    left = [change for change, by in zip(changes, found, strict=True) if not by]
    assert len(left) <= 2  # of those for free slots: who has read one operand of a step has read the other one, too


def test_who_waits_for_a_later_use_of_the_same_warps_need_not_wait_for_an_earlier_one():
    """Of the four waits for free slots, by a graph of who meets whom: the checker finds those that are left."""
    case = PTX_CASES["specialised"]("sm_90")
    code = load_of(case)
    asks = [number for number in range(len(code.compiled)) if _asks(code, number)]
    deleted = {number: changed(code, Change(number, DELETED)) for number in asks}
    kinds = {number: execute(case, mutant, "normal").kinds for number, mutant in deleted.items()}
    for number in (each for each in asks if not kinds[each]):
        launches = [launch_of(case, deleted[number], "normal")]
        assert survivors_ptx.reason("wait", name_of(code.compiled[number]), [], launches) == "ordered"
    raced = [number for number in asks if "shared_race" in kinds[number]]
    assert raced
    for number in raced:
        launches = [launch_of(case, deleted[number], "normal")]
        assert survivors_ptx.reason("wait", name_of(code.compiled[number]), [], launches) == ""


def _asks(code, index):
    return ASKS.match(name_of(code.compiled[index]))
