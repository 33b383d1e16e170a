"""Memory, shared memory, schedules, buffers, the parser, and what a checker can attach itself to."""

import itertools
import subprocess
import sys

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import edge_rows, kernel
from hypothesis import given
from hypothesis import strategies as st

from portkit.emulate import Kind, Options, Order, Pointer
from portkit.emulate.amdgcn.execute import build
from portkit.emulate.amdgcn.launch import Launch, load
from portkit.emulate.amdgcn.parse import parse, parse_instruction
from portkit.emulate.core.findings import STATUS_OF, Fault, Finding, Site, Unsupported, outcome_of
from portkit.emulate.core.launch import Buffers, workgroup_ids
from portkit.emulate.core.memory import BASE, GUARD, Contents, Memory
from portkit.emulate.core.schedule import Schedule
from portkit.emulate.core.shared import SharedMemory


def memory(*sizes, written=True):
    return Memory([Contents(f"b{n}", np.arange(size, dtype=np.uint8), written) for n, size in enumerate(sizes)])


def test_allocations_lie_apart_and_aligned():
    places = memory(100, 1, 5000).allocations
    assert all(place.start % 256 == 0 for place in places)
    assert all(later.start - earlier.end >= GUARD for earlier, later in itertools.pairwise(places))
    assert places[0].address == BASE + places[0].start


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("shift", [0, 1, 2, 3, 4, 8])
def test_memory_gives_back_what_was_stored(size, shift):
    room = memory(4096)
    at = room.allocations[0].start + shift + 16 * np.arange(64)
    words = edge_rows(64)[:, : max(1, size // 4)]
    mask = np.uint32((1 << 8 * min(size, 4)) - 1)
    room.store(at, size, words)
    assert np.array_equal(room.load(at, size), words & mask)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("shift", [0, 1, 2, 3, 4, 8])
def test_shared_memory_gives_back_what_was_stored(size, shift):
    room = SharedMemory(2, 2048, 0xDEAD_BEEF)
    room.follow_writes()
    at = np.concatenate([shift + 16 * np.arange(64), room.stride + shift + 16 * np.arange(64)])
    words = np.concatenate([edge_rows(64), edge_rows(64, 1)])[:, : max(1, size // 4)]
    assert room.first_unwritten(at, size) == 0
    room.store(at, size, words)
    mask = np.uint32((1 << 8 * min(size, 4)) - 1)
    assert np.array_equal(room.load(at, size), words & mask)
    assert room.first_unwritten(at, size) is None
    assert room.first_unwritten(at, size + 1) == 0 or size == 16


@given(st.lists(st.integers(-40, 140), min_size=1, max_size=20), st.sampled_from([1, 2, 4, 16]))
def test_accesses_outside_are_found(offsets, size):
    room = memory(100, 60)
    at = room.allocations[0].start + np.array(offsets, np.int64)
    outside = [number for number, offset in enumerate(offsets) if offset < 0 or offset + size > 100]
    assert room.first_outside(at, size) == (outside[0] if outside else None)
    assert room.nearest(int(at[0])).name == "b0"
    shared = SharedMemory(1, 100, 0)
    assert shared.first_outside(np.array(offsets, np.int64), size) == (outside[0] if outside else None)


def test_bytes_that_nothing_wrote_are_known():
    room = Memory([Contents("x", np.zeros(64, np.uint8)), Contents("y", np.zeros(64, np.uint8), written=False)])
    first, second = (place.start for place in room.allocations)
    assert room.first_unwritten(np.array([first, second]), 4) == 1
    room.store(np.array([second]), 4, np.array([[7]], np.uint32))
    assert room.first_unwritten(np.array([first, second]), 4) is None
    assert room.first_unwritten(np.array([second]), 8) == 0
    assert memory(8).written is None


def test_which_bytes_are_written_goes_in_and_comes_back():
    flags = np.arange(16) < 4
    buffers = Buffers([("x", Pointer(np.zeros(4, np.uint32), written=flags))])
    start = buffers.memory.allocations[0].start
    assert buffers.memory.first_unwritten(start + np.array([0, 4]), 4) == 1
    buffers.memory.store(np.array([start + 8]), 2, np.array([[7]], np.uint32))
    buffers.write_back()
    assert np.flatnonzero(flags).tolist() == [0, 1, 2, 3, 8, 9]


def test_random_turns_are_those_of_half_of_the_waves_and_of_all():
    schedule, pc = Schedule(Order.SEEDED, 1), np.zeros(64, np.int64)
    ready = np.ones(64, np.bool_)
    first = schedule.pick(ready, pc, 8)
    assert 16 < first.sum() < 48
    assert np.array_equal(schedule.pick(ready, pc, 8), first)
    rest = ready & ~first
    assert np.array_equal(schedule.pick(rest, pc, 8), rest)


@pytest.mark.parametrize("order", Order)
def test_schedules_take_every_workgroup_once(order):
    assert sorted(Schedule(order, 3).workgroups(50).tolist()) == list(range(50))


def test_orders_of_waves():
    ready, pc = np.array([True] * 3 + [False] + [True] * 4), np.array([5, 9, 9, 0, 5, 5, 7, 9])
    assert np.flatnonzero(Schedule().pick(ready, pc, 4)).tolist() == [0, 4, 5]
    assert np.flatnonzero(Schedule(Order.FORWARD).pick(ready, pc, 4)).tolist() == [0, 4]
    assert np.flatnonzero(Schedule(Order.REVERSE).pick(ready, pc, 4)).tolist() == [2, 7]
    picks = {tuple(np.flatnonzero(Schedule(Order.SEEDED, seed).pick(ready, pc, 4))) for seed in range(20)}
    assert len(picks) > 3


def test_the_most_advanced_group_runs_now_and_then():
    schedule, ready, pc = Schedule(patience=4), np.array([True, True]), np.array([1, 8])
    assert [int(np.flatnonzero(schedule.pick(ready, pc, 2))[0]) for _ in range(8)] == [0, 0, 0, 1, 0, 0, 0, 1]


def test_workgroups_count_x_first():
    assert workgroup_ids((2, 2)) == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]


def test_buffers_share_an_allocation_only_where_they_overlap():
    store = np.arange(100, dtype=np.uint32)
    buffers = Buffers(
        [("a", store[:40]), ("b", store[30:60]), ("n", 7), ("c", store[60:]), ("d", Pointer(store[60:], 8))]
    )
    assert [place.name for place in buffers.memory.allocations] == ["a", "c"]
    assert buffers.address(1) - buffers.address(0) == 30 * 4
    assert buffers.address(4) - buffers.address(3) == 8
    buffers.memory.view(0)[:] = 0
    buffers.write_back()
    assert store.tolist() == [0] * 60 + list(range(60, 100))


def test_buffers_must_be_contiguous():
    with pytest.raises(ValueError, match="contiguous"):
        Buffers([("a", np.zeros((4, 4))[:, ::2])])


def test_the_worst_finding_decides():
    kinds = [Kind.UNWRITTEN_SHARED, Kind.SHARED_RACE, Kind.OUT_OF_BOUNDS]
    findings = [Finding(kind, "what") for kind in kinds]
    assert outcome_of(findings, None).status == "out_of_bounds"
    assert outcome_of(findings[:2], None).status == "data_race"
    assert outcome_of([], None).status == "passed"
    assert outcome_of([findings[2]], Fault(findings[2])).status == "out_of_bounds"
    assert outcome_of(findings, Unsupported("v_x", Site(3, "v_x"))).status == "unsupported"
    assert set(STATUS_OF) == set(Kind)


INSTRUCTIONS = [
    ("v_add_f32_e32 v1, v2, v3", ("v1", "v2", "v3"), {}),
    ("v_fma_f32 v1, -v2, |v3|, -|v4| clamp mul:2", ("v1", "-v2", "|v3|", "-|v4|"), {"clamp": "", "mul": "2"}),
    ("v_pk_add_f32 v[2:3], v[2:3], 1.0 op_sel_hi:[1,0]", ("v[2:3]", "v[2:3]", "1.0"), {"op_sel_hi": "[1,0]"}),
    ("buffer_load_dword v1, v2, s[4:7], 0 offen sc0", ("v1", "v2", "s[4:7]", "0"), {"offen": "", "sc0": ""}),
    ("ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)", ("v1", "v2"), {"offset": "swizzle(SWAP,16)"}),
    ("v_mov_b32_dpp v1, v2 row_shl:1 row_mask:0xf", ("v1", "v2"), {"row_shl": "1", "row_mask": "0xf"}),
    ("global_load_b128 v[1:4], v[2:3], off scope:SCOPE_DEV", ("v[1:4]", "v[2:3]", "off"), {"scope": "SCOPE_DEV"}),
    ("s_waitcnt vmcnt(0) lgkmcnt(0)", ("vmcnt(0) lgkmcnt(0)",), {}),
    ("s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT)", ("instid0(VALU_DEP_1) | instskip(NEXT)",), {}),
    ("s_endpgm", (), {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "operands", "modifiers"), INSTRUCTIONS)
def test_operands_and_modifiers(text, operands, modifiers):
    parsed = parse_instruction(text, Site(1, text))
    assert parsed.mnemonic == text.split(maxsplit=1)[0]
    assert (parsed.operands, dict(parsed.modifiers)) == (operands, modifiers)


def test_both_halves_of_a_dual_issue_instruction():
    text = "v_dual_mov_b32 v1, v2 :: v_dual_mul_f32 v3, v4, v5"
    parsed = parse_instruction(text, Site(1, text))
    assert (parsed.mnemonic, parsed.second.mnemonic, parsed.second.operands) == (
        "v_dual_mov_b32", "v_dual_mul_f32", ("v3", "v4", "v5"),
    )  # fmt: skip


def test_targets_of_old_and_new_llvm():
    text = kernel("gfx1201", "\tv_nop")
    renamed = text.replace('"amdgcn-amd-amdhsa--gfx1201"', '"amdgpu12.01-amd-amdhsa-unknown-gfx1201"')
    flagged = text.replace("--gfx1201", "--gfx1201:xnack-")
    assert {parse(x).architecture.name for x in (text, renamed, flagged)} == {"gfx1201"}


def test_a_program_knows_its_parts():
    text = kernel("gfx942", ".Lhere:\n\tv_add_f32_e32 v10, 0xbf, v1 ; a comment", shared=512, scratch=16)
    program = parse(text)
    assert (program.name, program.wave_size, program.shared_bytes, program.scratch_bytes) == ("k", 64, 512, 16)
    assert [argument.name for argument in program.explicit] == ["x", "y"]
    here = program.instructions[program.labels[".Lhere"]]
    assert (here.operands, text.splitlines()[here.site.line - 1].strip().startswith("v_add")) == (
        ("v10", "0xbf", "v1"),
        True,
    )


def test_uses_of_registers_are_noted():
    code = build(parse(kernel("gfx942", "\tv_mad_u64_u32 v[10:11], vcc, v1, s8, v[2:3]")))
    item = next(item for item in code.compiled if item.instruction.mnemonic == "v_mad_u64_u32")
    names = {f"{file.value}{index}" for file, index in item.uses.reads}
    assert names == {"v1", "s8", "v2", "v3"}
    assert {f"{file.value}{index}" for file, index in item.uses.writes} == {"v10", "v11", "s106", "s107"}


BODY = """\tv_lshlrev_b32_e32 v20, 2, v0
\tds_write_b32 v20, v1
\ts_barrier
\tds_add_u32 v20, v2
\tv_mov_b32_e32 v12, v3"""


def test_a_checker_sees_every_access_and_instruction():
    code = load(kernel("gfx942", BODY, shared=1024, waves=2))
    launch = Launch(code, (3,), [edge_rows(128), np.zeros((128, 4), np.uint32)], None, 0, Options())
    seen, steps, barriers = [], [], []

    def attach(runner):
        runner.machine.observer = seen.append
        runner.machine.shared_observer = seen.append
        runner.watch = lambda machine, block: True
        runner.before = lambda machine, item: steps.append(item.instruction.mnemonic)
        runner.after = lambda machine, item: steps.append("done")
        runner.at_barrier = lambda machine, groups: barriers.extend(groups.tolist())

    launch.attach.append(attach)
    launch.run()
    assert barriers == [0, 1, 2]
    assert steps.count("ds_write_b32") == 1
    assert steps.count("done") * 2 == len(steps)
    shared = [access for access in seen if access.site.text.startswith("ds_")]
    assert [(access.write, access.atomic, access.size) for access in shared] == [(True, False, 4), (True, True, 4)]
    assert shared[0].waves.tolist() == np.arange(6).repeat(64).tolist()
    assert shared[0].lanes.tolist() == list(range(64)) * 6
    scalar = [access for access in seen if access.active is None]
    assert scalar[0].lanes.tolist() == [-1] * 6
    assert not scalar[0].write


def test_the_emulator_needs_numpy_alone():
    """Of what is installed, and the model of portkit itself."""
    code = (
        "import sys; before = set(sys.modules); import portkit.emulate, portkit.emulate.amdgcn.isa.families\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'portkit'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('portkit.') and 'emulate' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages, own = done.stdout.splitlines()
    assert packages == "['numpy']"
    assert own == "['portkit.errors', 'portkit.model']"
