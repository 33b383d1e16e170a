"""Jumps by address: functions that are called, far branches; and the mode of float32 denormals along the code."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, everywhere, execute, kernel, names_of

from portkit.emulate import run

ADD = {"gfx1201": ("s_add_co_u32", "s_add_co_ci_u32")}


def adding(architecture):
    """Mnemonics of a 64-bit scalar sum."""
    return ADD.get(architecture, ("s_add_u32", "s_addc_u32"))


def far(architecture, jump, target, *, pair="s[8:9]"):
    """A jump to a label as LLVM spells one that is out of reach of a branch."""
    low, high = adding(architecture)
    return f"""s_getpc_b64 {pair}
.Lpost:
    {low} s8, s8, ({target}-.Lpost)&4294967295
    {high} s9, s9, ({target}-.Lpost)>>32
    {jump}"""


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_getpc_b64", "s_setpc_b64"]))
def test_far_branch(architecture, name):
    forward = "s_setpc_b64 s[8:9]" if name != "s_setpc_b64" else f"{name} s[8:9]"
    body = f"s_mov_b32 s10, 1\n{far(architecture, forward, '.Lover')}\ns_mov_b32 s10, 2\n.Lover:\nv_mov_b32 v10, s10"
    assert set(computed(architecture, body).outputs[:, 0].tolist()) == {1}


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_setpc_b64"]))
def test_far_branch_backward(architecture, name):
    """A distance below zero; three rounds."""
    body = f"""s_mov_b32 s10, 0
.Lagain:
    s_add_{"co_" if architecture == "gfx1201" else ""}u32 s10, s10, 1
    s_cmp_lt_u32 s10, 3
    s_cbranch_scc0 .Lon
    {far(architecture, f"{name} s[8:9]", ".Lagain")}
.Lon:
    v_mov_b32 v10, s10"""
    assert set(computed(architecture, body).outputs[:, 0].tolist()) == {3}


FUNCTION = """
{name}:
    s_waitcnt vmcnt(0)
    v_add_{u32} v11, v11, v11
    s_setpc_b64 s[30:31]
"""


def calling(architecture, lines, name="twice"):
    """Text of a kernel with a function in front of it."""
    low, high = adding(architecture)
    address = f"""s_getpc_b64 s[8:9]
    {low} s8, s8, {name}@rel32@lo+4
    {high} s9, s9, {name}@rel32@hi+12"""
    text = kernel(architecture, f"{address}\n{lines}")
    u32 = "u32" if architecture.startswith("gfx9") else "nc_u32"
    wait = "s_wait_loadcnt 0x0" if architecture == "gfx1201" else "s_waitcnt vmcnt(0)"
    function = FUNCTION.format(name=name, u32=u32).replace("s_waitcnt vmcnt(0)", wait)
    return text.replace("\t.globl\tk\n", f"{function}\t.globl\tk\n")


def test_a_cold_function_lies_in_a_section_of_its_own():
    """LLVM puts there what it takes for unlikely, as Triton's assertions from 3.8 on."""
    text = calling("gfx942", "v_mov_b32 v11, 5\ns_swappc_b64 s[30:31], s[8:9]")
    cold = text.replace("\ntwice:", '\n\t.section\t.text.unlikely.,"ax",@progbits\ntwice:')
    cold = cold.replace("s_setpc_b64 s[30:31]\n", "s_setpc_b64 s[30:31]\n\t.text\n")
    assert cold.count(".section\t.text.unlikely") == 1
    out = np.zeros((64, 4), np.uint32)
    done = run(cold, "gfx942", (1,), [np.zeros((64, 8), np.uint32), out])
    assert done.outcome.status == "passed", done.outcome
    assert out[0, 1] == 10


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_swappc_b64"]))
def test_calls(architecture, name):
    """Each goes on behind its own call, with the checker."""
    call = f"{name} s[30:31], s[8:9]"
    lines = f"v_mov_b32 v11, 5\n{call}\nv_mov_b32 v12, v11\n{call}\n{call}"
    rows, out = np.zeros((64, 8), np.uint32), np.zeros((64, 4), np.uint32)
    done = run(calling(architecture, lines), architecture, (1,), [rows, out])
    assert done.outcome.status == "passed", done.outcome
    assert out[0].tolist()[1:3] == [40, 10]


def test_waves_jump_each_to_its_own_place():
    """One wave of two takes the call."""
    body = """v_readfirstlane_b32 s10, v1
    s_cmp_eq_u32 s10, 7
    s_cbranch_scc1 .Lover
    s_swappc_b64 s[30:31], s[8:9]
    .Lover:"""
    text = calling("gfx942", f"v_mov_b32 v11, 5\n{body}").replace(
        ".max_flat_workgroup_size: 64", ".max_flat_workgroup_size: 128"
    )
    rows, out = np.zeros((128, 8), np.uint32), np.zeros((128, 4), np.uint32)
    rows[64:, 0] = 7
    done = run(text, "gfx942", (1,), [rows, out])
    assert done.outcome.status == "passed", done.outcome
    assert (out[0, 1], out[64, 1]) == (10, 5)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("s_mov_b64 s[8:9], 4\ns_setpc_b64 s[8:9]", "jump to an address"),
        ("s_add_u32 s8, s8, nowhere@rel32@lo+4", "distance to nowhere from no s_getpc_b64"),
        ("s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, nowhere@rel32@lo+4", "symbol nowhere is not in the text"),
    ],
)
def test_refused_jumps(body, cause):
    outcome = execute("gfx942", body).emulation.outcome
    assert outcome.status == "unsupported"
    assert cause in outcome.message


# -- denormals

DENORMAL, SMALL = 0x0000_0008, 0x0080_0000  # 2^-146, 2^-126
FLUSHING = "\t\t.amdhsa_float_denorm_mode_32 0\n"


def mode(architecture, name, value):
    """An instruction that keeps float32 denormals (3), or flushes them (0)."""
    if name == "s_denorm_mode":
        return f"{name} {12 + value}"
    register = "HW_REG_WAVE_MODE" if architecture == "gfx1201" else "HW_REG_MODE"
    return f"{name} hwreg({register}, 4, 2), {value}"


@pytest.mark.parametrize(("architecture", "name"), everywhere(["s_denorm_mode", "s_setreg_imm32_b32"]))
def test_denormals_by_the_mode_that_is_on(architecture, name):
    """Operands and results, before, between and behind two changes."""
    rows = np.zeros((names_of(architecture).lanes, 8), np.uint32)
    rows[:, 0], rows[:, 1] = DENORMAL, SMALL
    body = f"""v_add_f32 v10, v1, v1
    {mode(architecture, name, 3)}
    v_add_f32 v11, v1, v1
    v_mul_f32 v12, 0.5, v2
    {mode(architecture, name, 0)}
    v_mul_f32 v13, 0.5, v2"""
    out = computed(architecture, body, rows, directives=FLUSHING).outputs[0]
    assert [int(word) for word in out] == [0, 2 * DENORMAL, SMALL >> 1, 0]


@pytest.mark.parametrize(
    ("architecture", "line", "cause"),
    [
        ("gfx1100", "s_denorm_mode 3", "denormal mode 3"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 1", "register field"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1", "register field"),
        ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n\ts_branch .Lon\n.Lon:", "outlasts its block"),
        ("gfx1100", "s_round_mode 1", "s_round_mode is not known"),
    ],
)
def test_refused_modes(architecture, line, cause):
    outcome = execute(architecture, line).emulation.outcome
    assert outcome.status == "unsupported"
    assert cause in outcome.message


def test_registers_that_a_directive_leaves_to_the_assembler():
    text = kernel("gfx942", "v_mov_b32 v10, v3")
    sizes = "max(totalnumvgprs(k.num_agpr, k.num_vgpr), 1, 0)"
    told = text.replace(".amdhsa_next_free_vgpr 256", f".amdhsa_next_free_vgpr {sizes}")
    assert told != text
    rows, out = np.full((64, 8), 9, np.uint32), np.zeros((64, 4), np.uint32)
    assert run(told, "gfx942", (1,), [rows, out]).outcome.status == "passed"
    assert (out[:, 0] == 9).all()
