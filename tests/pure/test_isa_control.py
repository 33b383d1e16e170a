"""Branches on every condition, barriers, ends, traps, the mode bit, and what changes nothing."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import REPRESENTATIVES, computed, everywhere, execute, names_of

from portkit.emulate import Options
from portkit.emulate.amdgcn.isa import control


def wide(architecture):
    return names_of(architecture).lanes == 64


def setting(architecture, register, value):
    """Instructions that write a mask register of the wave's width."""
    name = register if wide(architecture) else f"{register}_lo"
    return f"s_mov_b{names_of(architecture).lanes} {name}, {value}"


def states(architecture, condition):
    """Instructions that make the condition hold, and others that do not."""
    register = {"vccz": "vcc", "vccnz": "vcc", "execz": "exec", "execnz": "exec"}.get(condition)
    if register is None:
        wanted = int(condition[-1])
        return f"s_cmp_eq_u32 1, {wanted}", f"s_cmp_eq_u32 1, {1 - wanted}"
    none, some = setting(architecture, register, 0), setting(architecture, register, 2)
    return (none, some) if condition.endswith(("vccz", "execz")) else (some, none)


@pytest.mark.parametrize(("architecture", "name"), everywhere(control.CONDITIONS))
@pytest.mark.parametrize("held", [True, False])
def test_conditional_branch(architecture, name, held):
    """The instruction behind the branch is skipped where the condition holds."""
    condition = states(architecture, name.removeprefix("s_cbranch_"))[0 if held else 1]
    every = setting(architecture, "exec", -1)
    body = f"s_mov_b32 s8, 1\n{condition}\n{name} .Lover\ns_mov_b32 s8, 2\n.Lover:\n{every}\nv_mov_b32 v10, s8"
    assert set(computed(architecture, body).outputs[:, 0].tolist()) == {1 if held else 2}


@pytest.mark.parametrize("name", ["s_cbranch_vccz", "s_cbranch_vccnz"])
def test_upper_half_of_vcc_does_not_count_for_32_lanes(name):
    start = "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1\ns_mov_b32 s8, 1"
    body = f"{start}\n{name} .Lover\ns_mov_b32 s8, 2\n.Lover:\nv_mov_b32 v10, s8"
    assert computed("gfx1100", body).outputs[0, 0] == (2 if name.endswith("nz") else 1)


@pytest.mark.parametrize("name", ["s_cbranch_scc1"])
def test_waves_part_at_a_branch(name):
    """Each wave takes its own way."""
    body = f"""v_readfirstlane_b32 s8, v1
    s_and_b32 s8, s8, 1
    s_mov_b32 s9, 5
    {name} .Lodd
    s_mov_b32 s9, 7
.Lodd:
    v_mov_b32 v10, s9"""
    ran = computed("gfx942", body, waves=4)
    first = ran.inputs[::64, 0]
    assert ran.outputs[::64, 0].tolist() == [5 if x & 1 else 7 for x in first]


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_branch"]))
def test_branch(architecture, name):
    body = f"s_mov_b32 s8, 1\n{name} .Lover\ns_mov_b32 s8, 2\n.Lover:\nv_mov_b32 v10, s8"
    assert computed(architecture, body).outputs[0, 0] == 1


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_endpgm"]))
def test_end(architecture, name):
    """Nothing behind it runs: the store of the kernel around."""
    ran = computed(architecture, f"v_mov_b32 v10, 1\n{name}")
    assert not ran.outputs.any()


NAMES = {"gfx942": ("ds_write_b32", "ds_read_b32"), "gfx1100": ("ds_store_b32", "ds_load_b32")}
NAMES["gfx1201"] = NAMES["gfx1100"]


def exchange(architecture, barrier):
    """Each wave reads what the wave two further on wrote before the barrier."""
    write, read = NAMES[architecture]
    lanes, waits = (
        names_of(architecture).lanes,
        "s_wait_dscnt 0x0" if architecture == "gfx1201" else "s_waitcnt lgkmcnt(0)",
    )
    return f"""v_lshlrev_b32 v20, 2, v0
    {write} v20, v1
    {waits}
    {barrier}
    v_add_{"u32" if wide(architecture) else "nc_u32"} v21, {8 * lanes}, v20
    v_and_b32 v21, {16 * lanes - 1}, v21
    {read} v10, v21
    {waits}"""


@pytest.mark.parametrize(
    ("architecture", "barrier"),
    [
        ("gfx942", "s_barrier"),
        ("gfx1100", "s_barrier"),
        pytest.param("gfx1201", "s_barrier_signal -1\ns_barrier_wait 0xffff", id="s_barrier_signal-s_barrier_wait"),
    ],
)
def test_barrier(architecture, barrier):
    lanes = names_of(architecture).lanes
    ran = computed(architecture, exchange(architecture, barrier), waves=4, shared=16 * lanes, check=True)
    assert np.array_equal(ran.outputs[:, 0], np.roll(ran.inputs[:, 0], 2 * lanes))


@pytest.mark.parametrize(
    ("architecture", "barrier"), [("gfx942", "s_barrier"), ("gfx1201", "s_barrier_signal -1\ns_barrier_wait -1")]
)
def test_barrier_that_one_wave_passes_by(architecture, barrier):
    """The first wave never ends, so the second one waits for good."""
    body = f"v_readfirstlane_b32 s8, v0\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .Lagain\n{barrier}\ns_branch .Lout"
    loop = f"{body}\n.Lagain:\ns_branch .Lagain\n.Lout:"
    outcome = execute(architecture, loop, waves=2, options=Options(budget=100_000)).emulation.outcome
    assert outcome.status == "timeout"


def test_wait_at_a_barrier_that_was_not_signalled():
    outcome = execute("gfx1201", "s_barrier_wait 0xffff").emulation.outcome
    assert outcome.status == "timeout"
    assert "not signalled" in outcome.message


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_trap"]))
def test_trap(architecture, name):
    outcome = execute(architecture, f"{name} 2").emulation.outcome
    assert outcome.status == "device_fault"
    assert "trap 2" in outcome.message


@pytest.mark.instructions("s_trap")
def test_trap_that_no_wave_reaches():
    assert computed("gfx942", "s_branch .Lover\ns_trap 2\n.Lover:\nv_mov_b32 v10, 3").outputs[0, 0] == 3


@pytest.mark.parametrize("line", ["s_sendmsg_rtn_b32 s8, sendmsg(MSG_RTN_GET_DOORBELL)", "s_sethalt 5"])
def test_what_stands_behind_a_trap_matters_only_where_a_wave_comes_by(line):
    passed_by = execute("gfx1100", f"s_branch .Lover\n{line}\n.Lover:\nv_mov_b32 v10, 3")
    assert passed_by.emulation.outcome.status == "passed"
    assert passed_by.outputs[0, 0] == 3
    assert execute("gfx1100", line).emulation.outcome.status == "unsupported"


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_sendmsg"]))
def test_registers_given_back(architecture, name):
    before = computed(architecture, "s_nop 0")
    after = computed(architecture, f"{name} sendmsg(MSG_DEALLOC_VGPRS)")
    assert np.array_equal(before.outputs, after.outputs)


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_setreg_imm32_b32"]))
def test_overflow_mode(architecture, name):
    """With MODE.FP16_OVFL set, a float16 sum that overflows becomes the largest number; infinities stay."""
    rows = np.zeros((names_of(architecture).lanes, 8), np.uint32)
    rows[:, 0], rows[:, 1], rows[:, 2] = 0x7BFF, 0x7BFF, 0x7C00
    add = "v_add_f16 v{}, v1, v{}"
    mode = "HW_REG_WAVE_MODE" if architecture == "gfx1201" else "HW_REG_MODE"
    body = f"{add.format(10, 2)}\n{name} hwreg({mode}, 23, 1), 1\n{add.format(11, 2)}\n{add.format(12, 3)}"
    out = computed(architecture, f"{body}\n{name} hwreg({mode}, 23, 1), 0\n{add.format(13, 2)}", rows).outputs[0]
    assert [int(x) & 0xFFFF for x in out] == [0x7C00, 0x7BFF, 0x7C00, 0x7C00]


OPERANDS = {
    "s_waitcnt": "vmcnt(0) lgkmcnt(0)",
    "s_waitcnt_depctr": "0xfff",
    "s_wait_alu": "0xfffd",
    "s_delay_alu": "instid0(VALU_DEP_1)",
    "s_version": "UC_VERSION_GFX11",
    "buffer_inv": "sc1",
    "buffer_wbl2": "sc1",
    "global_inv": "scope:SCOPE_SYS",
    "global_wb": "scope:SCOPE_SYS",
    "global_wbinv": "scope:SCOPE_SYS",
    "s_prefetch_inst": "s[4:5], 0x0, null, 0",
}
WITHOUT = {"s_wait_idle", "s_code_end", "s_icache_inv", "v_nop", "buffer_gl0_inv", "buffer_gl1_inv", "s_ttracedata_imm"}
WITH_REGISTER = {"s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt"}


def operands_of(name):
    return OPERANDS.get(name) or ("" if name in WITHOUT else "null, 0x0" if name in WITH_REGISTER else "0x0")


@pytest.mark.parametrize("name", sorted(control.IGNORED))
def test_no_result_changes(name):
    """Vector and scalar registers, SCC, VCC, EXEC, LDS and memory are as without it."""
    architecture = everywhere([name])[0].values[0]
    body = """s_mov_b32 s8, 77
    s_mov_b32 vcc_lo, 0x1234
    s_cmp_eq_u32 1, 1
    {}
    s_cselect_b32 s9, 5, 6
    v_mov_b32 v10, s8
    v_mov_b32 v11, vcc_lo
    v_mov_b32 v12, s9"""
    with_it, without = (computed(architecture, body.format(line)) for line in (f"{name} {operands_of(name)}", ""))
    assert np.array_equal(with_it.outputs, without.outputs)
    assert np.array_equal(with_it.inputs, without.inputs)
    assert with_it.outputs[0, :3].tolist() == [77, 0x1234, 5]
    assert architecture in REPRESENTATIVES
