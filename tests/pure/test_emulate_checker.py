"""The checker: missing waits, races, and reads of what nothing wrote."""

import functools

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import edge_rows, execute, kernel, names_of

from portkit.emulate import Options, in_every_order, run
from portkit.emulate.core.checker import MANY, Ledger, Use, Values, agent_of, global_tags, group_of
from portkit.emulate.core.memory import Allocation
from portkit.emulate.core.races import GlobalRaces
from portkit.emulate.core.releases import Releases

LOAD = {"gfx942": "global_load_dword", "gfx1100": "global_load_b32", "gfx1201": "global_load_b32"}
SCALAR_LOAD = {"gfx942": "s_load_dword", "gfx1100": "s_load_b32", "gfx1201": "s_load_b32"}
READ = {"gfx942": "ds_read_b32", "gfx1100": "ds_load_b32", "gfx1201": "ds_load_b32"}
WRITE = {"gfx942": "ds_write_b32", "gfx1100": "ds_store_b32", "gfx1201": "ds_store_b32"}
SHARED_WAIT = {"gfx942": "s_waitcnt lgkmcnt(0)", "gfx1100": "s_waitcnt lgkmcnt(0)", "gfx1201": "s_wait_dscnt 0x0"}
SCALAR_WAIT = {**SHARED_WAIT, "gfx1201": "s_wait_kmcnt 0x0"}
LAST_BUT_ONE = {"gfx942": "s_waitcnt vmcnt(1)", "gfx1100": "s_waitcnt vmcnt(1)", "gfx1201": "s_wait_loadcnt 0x1"}
BARRIER = {"gfx942": "s_barrier", "gfx1100": "s_barrier", "gfx1201": "s_barrier_signal -1\ns_barrier_wait -1"}


@pytest.fixture(params=LOAD)
def architecture(request):
    return request.param


def found(architecture, body, **parts):
    """Kinds of findings."""
    done = execute(architecture, body, check=True, **parts).emulation
    return [str(item.kind) for item in done.findings]


def test_a_load_is_used_before_its_wait(architecture):
    load = f"{LOAD[architecture]} v10, v20, s[4:5]"
    assert found(architecture, load) == ["missing_wait"]
    assert found(architecture, f"{load}\n{names_of(architecture).wait}") == []


def test_a_wait_for_all_but_one(architecture):
    """It makes sure of the first of two loads, not of the second."""
    loads = "\n".join(f"{LOAD[architecture]} v2{n}, v20, s[4:5]" for n in (1, 2))
    wait = LAST_BUT_ONE[architecture]
    assert found(architecture, f"{loads}\n{wait}\nv_mov_b32_e32 v10, v21") == []
    assert found(architecture, f"{loads}\n{wait}\nv_mov_b32_e32 v10, v22") == ["missing_wait"]


@pytest.mark.parametrize(("register", "kinds"), [(30, []), (31, ["missing_wait"])])
def test_a_counter_that_is_full_makes_sure_of_the_oldest(architecture, register, kinds):
    """64 loads: the last of them can't be issued before the first has ended."""
    loads = "\n".join(f"{LOAD[architecture]} v{30 + n}, v20, s[4:5]" for n in range(64))
    assert found(architecture, f"{loads}\nv_mov_b32_e32 v10, v{register}") == kinds


def test_the_target_of_a_load_is_overwritten_before_its_wait(architecture):
    assert found(architecture, f"{LOAD[architecture]} v21, v20, s[4:5]\nv_mov_b32_e32 v21, 0") == ["missing_wait"]


@pytest.mark.parametrize(("address", "early"), [("v20", False), ("v21", True)])
def test_halves_of_a_register_that_two_loads_fill(address, early):
    """The second keeps the first one's half, and both end in order; its address must be there."""
    loads = f"global_load_d16_b16 v21, v20, s[4:5]\nglobal_load_d16_hi_b16 v21, {address}, s[4:5]"
    kinds = found("gfx1100", f"{loads}\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v10, v21")
    assert ("missing_wait" in kinds) is early


@pytest.mark.parametrize(
    ("use", "early"),
    [
        ("ds_store_b16_d16_hi v20, v21", False),
        ("ds_store_b16 v20, v21", True),
        ("ds_store_b32 v20, v21", True),
        ("ds_store_b16_d16_hi v21, v22", True),
        ("global_store_d16_hi_b16 v20, v21, s[6:7] offset:8", False),
        ("global_store_b16 v20, v21, s[6:7] offset:8", True),
        ("v_mov_b16_e32 v10.l, v21.h", False),
        ("v_mov_b16_e32 v10.l, v21.l", True),
        ("v_mov_b16_e32 v21.h, v22.l", False),
        ("v_mov_b16_e32 v21.l, v22.l", True),
        ("v_add_nc_u32_e32 v10, v21, v22", True),
        ("global_load_d16_hi_b16 v21, v22, s[4:5]", False),
    ],
)
@pytest.mark.parametrize("architecture", ["gfx1100", "gfx1201"])
def test_a_half_that_no_load_fills_is_there(architecture, use, early):
    """Of a register whose low half is still out; code of LLVM since 16-bit registers are its own on RDNA."""
    before = "v_mov_b32_e32 v20, 0\nv_mov_b32_e32 v21, 0\nv_mov_b32_e32 v22, 0\nv_mov_b32_e32 v10, 0"
    load, wait = "global_load_d16_b16 v21, v20, s[4:5]", names_of(architecture).wait
    kinds = found(architecture, f"{before}\n{load}\n{use}\n{wait}", shared=64)
    assert ("missing_wait" in kinds) is early


def test_a_scalar_load_needs_a_wait_for_all(architecture):
    """Scalar loads may end in any order."""
    load = "\n".join(f"{SCALAR_LOAD[architecture]} s{n}, s[4:5], 0x0" for n in (8, 9))
    use, wait = "v_mov_b32_e32 v10, s8", SCALAR_WAIT[architecture]
    assert found(architecture, f"{load}\n{wait}\n{use}") == []
    for other in ("", wait.replace("0)", "1)").replace("0x0", "0x1")):
        assert found(architecture, f"{load}\n{other}\n{use}") == ["missing_wait"]


def test_flat_accesses_end_in_order_but_on_cdna(architecture):
    """There they may reach memory or LDS, whichever is quicker."""
    load, wait = LOAD[architecture], f"{LAST_BUT_ONE[architecture]}\n{SHARED_WAIT[architecture]}"
    flat = f"v_mov_b32_e32 v24, s4\nv_mov_b32_e32 v25, s5\n{load.replace('global', 'flat')} v21, v[24:25]"
    kinds = found(architecture, f"{flat}\n{load} v22, v20, s[4:5]\n{wait}\nv_mov_b32_e32 v10, v21")
    assert kinds == (["missing_wait"] if architecture == "gfx942" else [])


def test_a_wait_that_one_of_two_ways_misses(architecture):
    load, wait = f"{LOAD[architecture]} v21, v20, s[4:5]", names_of(architecture).wait
    body = f"{load}\ns_cmp_eq_u32 s4, s4\ns_cbranch_scc0 .Lon\n{wait}\n.Lon:\nv_mov_b32_e32 v10, v21"
    assert found(architecture, body) == ["missing_wait"]


def far_branch(architecture, number, label):
    """To a label further than 16 bits reach, as LLVM writes it."""
    add, carry = ("s_add_co_u32", "s_add_co_ci_u32") if architecture == "gfx1201" else ("s_add_u32", "s_addc_u32")
    distance = f"({label}-.Lpost_getpc{number})"
    return (
        f"s_getpc_b64 s[10:11]\n.Lpost_getpc{number}:\n{add} s10, s10, {distance}&4294967295\n"
        f"{carry} s11, s11, {distance}>>32\ns_setpc_b64 s[10:11]"
    )


@pytest.mark.parametrize("waits", [True, False])
def test_a_far_branch_has_one_target(architecture, waits):
    """Two of them: the first goes to the wait, and only the second to what needs it."""
    there, back = (far_branch(architecture, *to) for to in enumerate((".Lwait", ".Luse")))
    body = f"""{LOAD[architecture]} v21, v20, s[4:5]
{there}
.Luse:
v_mov_b32_e32 v10, v21
s_branch .Lend
.Lwait:
{names_of(architecture).wait if waits else "s_nop 0"}
{back}
.Lend:"""
    assert found(architecture, body) == ([] if waits else ["missing_wait"])


def exchange(architecture, *, wait=True, barrier=True, written=True):
    """Each wave of two writes its lanes' words, and reads those of the other."""
    lanes, size = names_of(architecture).lanes, 4 * names_of(architecture).lanes
    lines = [
        f"v_lshlrev_b32_e32 v20, 2, v0\nv_xor_b32_e32 v21, {size:#x}, v20",
        f"{WRITE[architecture]} v20, v1" if written else "",
        SHARED_WAIT[architecture] if wait else "",
        BARRIER[architecture] if barrier else "",
        f"{READ[architecture]} v10, v21\n{SHARED_WAIT[architecture]}",
    ]
    return found(architecture, "\n".join(lines), waves=2, shared=8 * lanes)


def test_shared_memory_between_waves(architecture):
    assert exchange(architecture) == []
    assert exchange(architecture, barrier=False) == ["shared_race"]
    assert exchange(architecture, wait=False) == ["missing_wait"]
    assert exchange(architecture, written=False) == ["unwritten_shared"]


@pytest.mark.parametrize(("early", "kinds"), [(False, []), (True, ["missing_wait"])])
def test_a_barrier_that_only_keeps_waves_in_step(architecture, early, kinds):
    """A store may outlast it, if what it writes is read behind another one."""
    lanes = names_of(architecture).lanes
    read = f"{READ[architecture]} v10, v21\n{SHARED_WAIT[architecture]}"
    lines = [
        f"v_lshlrev_b32_e32 v20, 2, v0\nv_xor_b32_e32 v21, {4 * lanes:#x}, v20\n{WRITE[architecture]} v20, v1",
        BARRIER[architecture],
        read if early else "",
        f"{SHARED_WAIT[architecture]}\n{BARRIER[architecture]}\n{read}",
    ]
    assert found(architecture, "\n".join(lines), waves=2, shared=8 * lanes) == kinds


def test_a_race_names_both_waves_and_the_byte():
    body = "v_lshlrev_b32 v20, 2, v0\nds_write_b32 v20, v1\nv_xor_b32 v21, 0x100, v20\ns_waitcnt lgkmcnt(0)\n"
    body += "ds_read_b32 v10, v21\ns_waitcnt lgkmcnt(0)"
    (finding,) = execute("gfx942", body, check=True, waves=2, shared=512).emulation.findings
    assert (finding.place.wave, finding.place.lane, finding.offset, finding.buffer) == (0, 0, 0x100, "shared")
    assert "wave 1 wrote" in finding.message


def test_a_register_that_nothing_wrote(architecture):
    (finding,) = execute(architecture, "v_add_f32_e32 v10, v99, v1", check=True).emulation.findings
    assert (str(finding.kind), finding.place.workgroup) == ("unwritten_register", (0, 0, 0))
    assert "v99" in finding.message


def test_a_register_that_one_way_wrote_is_left_unjudged():
    body = "s_cmp_eq_u32 s4, s4\ns_cbranch_scc1 .Lon\nv_mov_b32_e32 v99, 0\n.Lon:\nv_mov_b32_e32 v10, v99"
    assert found("gfx942", body) == []


# -- ledgers


def at(*offsets):
    return np.array(offsets, np.int64)


def by(*agents):
    """Tags of agents counted from 0."""
    return np.array(agents, np.int32) + 1


def of(*waves, epoch=0):
    """Tags of waves of workgroups, ``(group, wave)``."""
    groups, agents = np.array(waves, np.int64).T
    return global_tags(groups, np.full_like(groups, epoch), agents)


def values(before, after):
    """Of four bytes each."""
    return Values(
        lambda: np.array(before, "<u4")[:, None].view(np.uint8), lambda: np.array(after, "<u4")[:, None].view(np.uint8)
    )


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        *((Use.READ, use, use not in {Use.READ, Use.LOOK}) for use in Use),
        *((Use.WRITE, use, True) for use in Use),
        *((Use.ATOMIC, use, use not in {Use.ATOMIC, Use.LOOK}) for use in Use),
        *((Use.LOOK, use, use is Use.WRITE) for use in Use),
    ],
)
def test_every_pair_of_uses(first, second, races):
    ledger = Ledger(64)
    assert ledger.note(first, at(8), 4, by(0)) is None
    assert ledger.note(second, at(8), 4, by(0)) is None
    conflict = ledger.note(second, at(0, 8), 4, by(1, 1))
    assert (conflict is not None) == races
    if conflict:
        assert (conflict.which, conflict.byte, conflict.other) == (1, 8, 1)


def test_neighbouring_bytes_are_no_race():
    ledger = Ledger(64)
    assert ledger.note(Use.WRITE, at(0, 2), 2, by(0, 1)) is None
    assert ledger.note(Use.WRITE, at(4, 5, 6), 1, by(0, 1, 2)) is None
    conflict = ledger.note(Use.WRITE, at(4), 4, by(1))
    assert (conflict.byte, conflict.other) == (4, 1)


def test_two_writes_of_one_value_are_no_race():
    ledger = Ledger(64)
    assert ledger.note(Use.WRITE, at(8, 8), 4, by(0, 1), values([0, 0], [7, 7])) is None
    assert ledger.note(Use.WRITE, at(8), 4, by(2), values([7], [7])) is None
    assert ledger.note(Use.WRITE, at(8), 4, by(3), values([7], [8])) is not None
    assert ledger.note(Use.WRITE, at(16, 16), 4, by(0, 1), values([0, 0], [7, 8])) is not None


def test_a_byte_that_several_read():
    ledger = Ledger(64)
    assert ledger.note(Use.READ, at(8, 8, 8), 4, by(0, 1, 0)) is None
    conflict = ledger.note(Use.WRITE, at(8), 4, by(1))
    assert (conflict.use, conflict.other) == (Use.READ, MANY)


def test_what_is_forgotten_is_no_race():
    ledger = Ledger(64)
    ledger.note(Use.WRITE, at(0, 32), 4, by(0, 0))
    ledger.forget(0, 32)
    assert ledger.note(Use.READ, at(0), 4, by(1)) is None
    assert ledger.note(Use.READ, at(32), 4, by(1)) is not None


FLAG, OTHER = at(64), at(68)


STORED = {"replaces": True, "acquires": False, "releases": False}
"""By a relaxed store, which hides what was released before."""


def released(races, group, place=FLAG, **what):
    """A workgroup's atomic, which acquires and releases."""
    races.releases.note(place, at(group), **{"acquires": True, "releases": True} | what)


@pytest.mark.parametrize(
    ("between", "races"),
    [
        (lambda all_: None, True),
        (lambda all_: (released(all_, 0), released(all_, 1)), False),
        (lambda all_: (released(all_, 1), released(all_, 0)), True),  # read before it was released
        (lambda all_: (released(all_, 0), released(all_, 1, OTHER)), True),  # another place
        (lambda all_: (released(all_, 0, releases=False), released(all_, 1)), True),
        (lambda all_: (released(all_, 0), released(all_, 1, acquires=False)), True),
        (lambda all_: (released(all_, 0, wrote=np.zeros(1, np.bool_)), released(all_, 1)), True),  # a swap that failed
        (lambda all_: (released(all_, 0), released(all_, 2, releases=False, acquires=False), released(all_, 1)), False),
        (lambda all_: (released(all_, 0), released(all_, 2), released(all_, 1)), False),
        (lambda all_: (released(all_, 0), released(all_, 2, replaces=True, acquires=False), released(all_, 1)), True),
        (lambda all_: (released(all_, 0), released(all_, 2, **STORED), released(all_, 1)), True),
        (
            lambda all_: (released(all_, 0), released(all_, 2), released(all_, 2, OTHER), released(all_, 1, OTHER)),
            False,
        ),
        (lambda all_: (released(all_, 0), released(all_, 2, OTHER), released(all_, 1, OTHER)), True),
    ],
)
def test_atomics_order_workgroups_by_what_they_release_and_acquire(between, races):
    all_, where = GlobalRaces(3, releases=Releases(3)), Allocation("x", 0, 64)
    assert all_.note(Use.WRITE, where, at(0), 4, of((0, 0))) is None
    between(all_)
    assert (all_.note(Use.WRITE, where, at(0), 4, of((1, 0))) is not None) == races


def test_what_comes_behind_a_release_is_not_released():
    races, where = GlobalRaces(2, releases=Releases(2)), Allocation("x", 0, 64)
    released(races, 0)
    races.note(Use.WRITE, where, at(0), 4, of((0, 0)))
    released(races, 1)
    assert races.note(Use.READ, where, at(0), 4, of((1, 0))) is not None
    released(races, 0)
    assert races.note(Use.READ, where, at(0), 4, of((1, 0))) is not None
    released(races, 1)
    assert races.note(Use.READ, where, at(0), 4, of((1, 0))) is None


def test_atomics_of_one_instruction_come_one_after_the_other():
    races, where = GlobalRaces(3, releases=Releases(3)), Allocation("x", 0, 64)
    races.note(Use.WRITE, where, at(0, 4, 8), 4, of((0, 0), (1, 0), (2, 0)))
    races.releases.note(at(64, 64, 64), at(1, 2, 0), acquires=True, releases=True)
    assert races.note(Use.READ, where, at(4), 4, of((2, 0))) is None
    assert races.note(Use.READ, where, at(0), 4, of((2, 0))) is not None
    assert races.note(Use.READ, where, at(4, 8), 4, of((0, 0), (0, 0))) is None


@pytest.mark.parametrize(("before", "behind", "races"), [(True, True, False), (False, True, True), (True, False, True)])
def test_fences_let_relaxed_accesses_order_workgroups(before, behind, races):
    all_, where = GlobalRaces(2, releases=Releases(2, fences=True)), Allocation("x", 0, 64)
    all_.note(Use.WRITE, where, at(0), 4, of((0, 0)))
    if before:
        all_.releases.fence(at(0))
    for group in (0, 1):
        released(all_, group, acquires=False, releases=False)
    if behind:
        all_.releases.fence(at(1))
    assert (all_.note(Use.READ, where, at(0), 4, of((1, 0))) is not None) == races


def test_of_too_many_atomics_only_who_used_them_is_known(monkeypatch):
    monkeypatch.setattr("portkit.emulate.core.releases.KEPT", 2)
    races, where = GlobalRaces(4, releases=Releases(4)), Allocation("x", 0, 64)
    races.note(Use.WRITE, where, at(0), 4, of((0, 0)))
    for group in (1, 0, 2):
        released(races, group)
    assert races.note(Use.READ, where, at(0), 4, of((2, 0))) is None
    assert races.note(Use.READ, where, at(0), 4, of((3, 0))) is not None


def test_reads_are_judged_once_their_buffer_is_written():
    races, where = GlobalRaces(2), Allocation("x", 0, 64)
    assert races.note(Use.READ, where, at(0, 4), 4, of((0, 3), (0, 3))) is None
    conflict = races.note(Use.WRITE, where, at(4), 4, of((1, 0)))
    assert (conflict.byte, group_of(conflict.other), agent_of(conflict.other), conflict.use) == (4, 0, 3, Use.READ)


def test_a_barrier_orders_the_waves_of_a_workgroup_only():
    races, where = GlobalRaces(2), Allocation("x", 0, 64)
    assert races.note(Use.WRITE, where, at(0), 4, of((0, 0))) is None
    assert races.note(Use.READ, where, at(0), 4, of((0, 0))) is None
    assert agent_of(races.note(Use.READ, where, at(0), 4, of((0, 1))).other) == 0
    assert races.note(Use.READ, where, at(0), 4, of((0, 1), epoch=1)) is None
    assert group_of(races.note(Use.READ, where, at(0), 4, of((1, 0), epoch=1)).other) == 0


def test_what_several_waves_read_is_written_behind_a_barrier():
    races, where = GlobalRaces(2), Allocation("x", 0, 64)
    races.note(Use.READ, where, at(0, 0), 4, of((0, 0), (0, 1)))
    assert races.note(Use.WRITE, where, at(0), 4, of((0, 0), epoch=1)) is None
    races.note(Use.READ, where, at(4, 4), 4, of((0, 0), (0, 1)))
    conflict = races.note(Use.WRITE, where, at(4), 4, of((0, 0)))
    assert (group_of(conflict.other), agent_of(conflict.other)) == (0, None)
    races.note(Use.READ, where, at(8, 8), 4, of((0, 0), (1, 0)))
    assert races.note(Use.WRITE, where, at(8), 4, of((0, 0), epoch=1)).other == MANY


# -- loads that go to LDS


@pytest.mark.parametrize(
    ("before_barrier", "after_barrier", "kinds"),
    [
        ("s_waitcnt vmcnt(0)", "", []),
        ("s_waitcnt vmcnt(1)", "", ["missing_wait"]),
        ("", "s_waitcnt vmcnt(0)", ["missing_wait"]),  # in time for its own wave, not for the other
        ("", "", ["missing_wait"]),
    ],
)
def test_a_load_to_lds_is_there_for_other_waves_once_a_barrier_follows_its_wait(before_barrier, after_barrier, kinds):
    body = f"""v_lshrrev_b32 v21, 6, v0
    v_readfirstlane_b32 s8, v21
    s_lshl_b32 m0, s8, 8
    v_lshlrev_b32 v22, 2, v0
    global_load_lds_dword v20, s[4:5]
    {before_barrier}
    s_barrier
    {after_barrier}
    v_xor_b32 v22, 0x100, v22
    ds_read_b32 v10, v22
    s_waitcnt lgkmcnt(0)"""
    ran = execute("gfx942", body, check=True, waves=2, shared=512)
    assert [str(item.kind) for item in ran.emulation.findings] == kinds
    assert ran.outputs[:64, 0].tolist() == ran.inputs[64:, 0].tolist()


def test_a_load_to_lds_is_there_for_its_own_wave_behind_its_wait():
    body = "s_mov_b32 m0, 0\nv_lshlrev_b32 v22, 2, v0\nglobal_load_lds_dword v20, s[4:5]\n{}\nds_read_b32 v10, v22\n"
    for wait, kinds in (("s_waitcnt vmcnt(0)", []), ("", ["missing_wait"])):
        assert found("gfx942", body.format(wait) + "s_waitcnt lgkmcnt(0)", shared=256) == kinds


# -- endless loops, and the order of waves


def test_a_loop_without_end_is_named():
    done = execute("gfx942", ".Lagain:\ns_branch .Lagain", check=True, options=Options(budget=10_000)).emulation
    (finding,) = done.findings
    assert (str(finding.kind), done.outcome.status) == ("starvation", "timeout")
    assert "s_branch" in finding.site.text


def orders_of(body):
    """The kernel in every order, on two waves."""
    text = kernel("gfx942", body, shared=16, waves=2)
    values = [edge_rows(128), np.zeros((128, 4), np.uint32)]
    launch = functools.partial(run, text, "gfx942", (1,), values)
    return in_every_order(lambda options: launch(options=options), values, Options(check=False)), values[1]


def test_results_that_depend_on_the_order_of_waves():
    """The last wave to write a word wins."""
    body = "v_mov_b32 v20, 0\nds_write_b32 v20, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v10, v20\n"
    done, outputs = orders_of(body + "s_waitcnt lgkmcnt(0)")
    assert {str(item.kind) for item in done.findings} == {"order_dependent"}
    assert (done.findings[0].buffer, done.findings[0].offset) == ("argument 1", 0)
    assert done.outcome.status == "nondeterministic"
    assert outputs[0, 0] == 127


def test_results_that_do_not():
    done, outputs = orders_of("v_mov_b32 v10, v0")
    assert (done.findings, outputs[:, 0].tolist()) == ((), list(range(128)))


SWAP_LOOP = """s_mov_b32 s8, exec_lo
    s_mov_b32 exec_lo, 1
    v_mov_b32_e32 v25, 0
    {load}
    s_waitcnt vmcnt(0)
    .Lagain:
    v_add_nc_u32_e32 v21, 1, v22
    global_atomic_cmpswap_b32 v23, v25, v[21:22], s[4:5] offset:4 glc
    s_waitcnt vmcnt(0)
    v_cmp_ne_u32_e32 vcc_lo, v23, v22
    v_mov_b32_e32 v22, v23
    s_cbranch_vccnz .Lagain
    s_mov_b32 exec_lo, s8
    s_endpgm"""


ELSEWHERE = """v_mov_b32_e32 v25, 8
    global_load_b32 v27, v25, s[4:5] offset:4
    s_waitcnt vmcnt(0)
    v_mov_b32_e32 v25, 12
    global_load_b32 v27, v25, s[4:5]
    v_mov_b32_e32 v25, 0
    v_mov_b32_e32 v22, 0"""
"""A load with the swap's address as written, but from another place, which others read, too."""


@pytest.mark.parametrize(
    ("load", "kinds"),
    [
        ("global_load_b32 v22, v25, s[4:5] offset:4", []),
        ("v_mov_b32_e32 v26, 4\nglobal_load_b32 v22, v26, s[4:5]", []),
        ("global_load_b32 v26, v25, s[4:5] offset:4\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v22, v26", []),
        ("v_mov_b32_e32 v26, 4\nglobal_load_b32 v27, v26, s[4:5]\nv_mov_b32_e32 v22, 0", ["global_race"]),
        (ELSEWHERE, []),
    ],
)
def test_a_load_that_a_compare_and_swap_checks_is_no_race(load, kinds):
    """LLVM's form of an atomic that the hardware lacks: the load gives what is compared, or has its address."""
    text = kernel("gfx1100", SWAP_LOOP.format(load=load)).replace("global_load_b128 v[1:4], v20, s[4:5]\n", "s_nop 0\n")
    counter = np.zeros(512, np.uint32)
    done = run(text, "gfx1100", (3,), [counter, np.zeros((32, 4), np.uint32)], options=Options(lanes_at_once=32))
    assert sorted({str(item.kind) for item in done.findings}) == kinds
    assert counter[:3].tolist() == [0, 3, 0]


def test_moves_in_pairs_may_copy_what_nothing_wrote():
    pair = "v_dual_mov_b32 v98, s71 :: v_dual_mov_b32 v97, s70"
    assert found("gfx1100", pair) == []
    assert found("gfx1100", "v_mov_b32_e32 v98, s71") == ["unwritten_register"]


@pytest.mark.parametrize(
    "name", ["v_pk_add_f32 {}, v[1:2]", "v_pk_fma_f32 {}, v[1:2], v[1:2]", "v_pk_mov_b32 {}, {} op_sel:[0,1]"]
)
def test_of_two_results_in_a_pair_one_may_be_made_of_what_nothing_wrote(name):
    """LLVM gives a lone operation a partner without a meaning; who uses that one's result is named."""

    def pair_of(result, first):
        return name.format(f"{result}, {first}", first)

    pair = "v_mov_b32_e32 v90, 1.0\n" + pair_of("v[96:97]", "v[90:91]")
    assert found("gfx942", pair) == []
    assert found("gfx942", f"{pair}\nv_mov_b32_e32 v10, v96") == []
    assert found("gfx942", f"{pair}\nv_mov_b32_e32 v10, v97") == ["unwritten_register"]
    assert found("gfx942", f"{pair}\n{pair_of('v[98:99]', 'v[96:97]')}\nv_mov_b32_e32 v10, v98") == []
    assert found("gfx942", pair_of("v[96:97]", "v[92:93]")) == ["unwritten_register"]
