"""Texts and launches that can't run: each has a named status, and none an exception."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import EDGES, edge_rows, execute, kernel

from portkit.emulate import Options, Pointer, run


def launched(text, architecture="gfx942", grid=(1,), values=None, **options):
    values = [edge_rows(64), np.zeros((64, 4), np.uint32)] if values is None else values
    return run(text, architecture, grid, values, options=Options(**options)).outcome


GOOD = kernel("gfx942", "\tv_mov_b32_e32 v10, v1")


def test_the_good_text_runs():
    assert launched(GOOD).status == "passed"


@pytest.mark.parametrize(
    ("damage", "status", "cause"),
    [
        (lambda text: "", "launch_error", "no .amdgcn_target"),
        (lambda text: text.replace("gfx942", "gfx803"), "launch_error", "gfx803 is not emulated"),
        (lambda text: text[: text.index("s_endpgm")], "launch_error", "cut off"),
        (lambda text: text[: text.index(".wavefront_size")], "launch_error", "cut off"),
        (lambda text: text.replace("\ts_endpgm\n", ""), "launch_error", "no s_endpgm"),
        (
            lambda text: text.replace("    .kernarg_segment_size: 16\n", ""),
            "launch_error",
            "lacks .kernarg_segment_size",
        ),
        (lambda text: text.replace("v10, v1\n", "v10, v1, v2, v3\n"), "unsupported", "4 operands"),
        (lambda text: text.replace("v_mov_b32_e32 v10, v1", "garbage"), "unsupported", "not an instruction"),
        (
            lambda text: text.replace("v_mov_b32_e32 v10, v1", "s_branch .Lnowhere"),
            "unsupported",
            ".Lnowhere is not in",
        ),
        (lambda text: text.replace("v_mov_b32_e32 v10, v1", "s_trap 2"), "device_fault", "trap 2"),
        (
            lambda text: text.replace("v_mov_b32_e32 v10, v1", "s_swappc_b64 s[8:9], s[10:11]"),
            "unsupported",
            "s_swappc",
        ),
        (lambda text: text.replace("free_vgpr 256", "free_vgpr many"), "unsupported", "many is not a number"),
        (lambda text: text.replace("    .name:           k", "    what"), "launch_error", "what"),
        (lambda text: text.replace(".size:           8", ".size:           %", 1), "launch_error", "can't be read"),
        (lambda text: text.replace(".size:           8", ".size:           0", 1), "launch_error", "has 0 bytes at 0"),
        (
            lambda text: text.replace(".group_segment_fixed_size: ", ".group_segment_fixed_size: x"),
            "launch_error",
            "can't be read",
        ),
        (
            lambda text: text.replace(".wavefront_size: ", ".wavefront_size: 0 #"),
            "launch_error",
            "gfx942 has not",
        ),
        (
            lambda text: text.replace("free_vgpr 256", "free_vgpr 9999999"),
            "launch_error",
            "9999999`: next_free_vgpr",
        ),
        (lambda text: text.replace("free_vgpr 256", "free_vgpr -1"), "launch_error", "-1, where 0 to 512 are possible"),
        (
            lambda text: text.replace(".group_segment_fixed_size: ", ".group_segment_fixed_size: 999999999"),
            "launch_error",
            ", where 0 to 163840 are possible",
        ),
        (
            lambda text: text.replace(".private_segment_fixed_size: ", ".private_segment_fixed_size: -5"),
            "launch_error",
            ", where 0 to 131072 are possible",
        ),
        (
            lambda text: text.replace(".size:           8", ".size:           99999999999", 1),
            "launch_error",
            "`.kernarg_segment_size: 16`: .size of x: 99999999999, where 0 to 16 are possible",
        ),
        (
            lambda text: text.replace(".max_flat_workgroup_size: ", ".max_flat_workgroup_size: 1000000"),
            "launch_error",
            ", where 1 to 1024 are possible",
        ),
        (
            lambda text: text.replace("v_mov_b32_e32 v10, v1", ".p2align 99"),
            "launch_error",
            "alignment: 99, where",
        ),
        (lambda text: text.replace("v10, v1\n", "v10, v[1:9999999]\n"), "unsupported", "operand v[1:9999999]"),
        (
            lambda text: text.replace("v10, v1\n", "v10, 0x123456789\n"),
            "unsupported",
            "of more than 32 bits",
        ),
        (lambda text: text.replace("v10, v1\n", "v10, v5000\n"), "unsupported", "gfx942 has no register v5000"),
        (lambda text: text.replace("v10, v1\n", "v10, s500\n"), "unsupported", "gfx942 has no register s500"),
        (
            lambda text: '\t.section\t.rodata,"a"\nlong:\n\t.zero 99999999999\n' + text,
            "launch_error",
            "bytes of constants: 99999999999",
        ),
        (
            lambda text: text.replace("\ts_endpgm\n", "\ts_endpgm\n.Lbehind:\n").replace(
                "v_mov_b32_e32 v10, v1", "s_branch .Lbehind"
            ),
            "launch_error",
            "`s_endpgm`: the code runs past its end",
        ),
        (
            lambda text: text.replace("v_mov_b32_e32 v10, v1", "s_waitcnt lgkmcnt(x)"),
            "unsupported",
            "lgkmcnt",
        ),
        (
            lambda text: text.replace("v_mov_b32_e32 v10, v1", "ds_read_b32 v10, v1 offset:%16"),
            "unsupported",
            "ds_read_b32 v10, v1 offset:%16",
        ),
        (lambda text: text.replace("v_mov_b32_e32 v10, v1", ".p2align"), "unsupported", "`.p2align`: can't be read"),
    ],
)
def test_damaged_texts(damage, status, cause):
    outcome = launched(damage(GOOD))
    assert (outcome.status, cause in outcome.message) == (status, True), outcome


def test_another_architecture_than_declared():
    outcome = launched(GOOD, "gfx950")
    assert outcome.status == "launch_error"
    assert "is for gfx942, not for gfx950" in outcome.message


HOSTCALL = "      - .offset:         16\n        .size:           8\n        .value_kind:     hidden_hostcall_buffer\n"


def with_hostcall(text):
    """The kernel with an argument for calls to the host, as compilers list it where they can't rule them out."""
    listed = text.replace("    .group_segment_fixed_size", HOSTCALL + "    .group_segment_fixed_size")
    return listed.replace("segment_size: 16", "segment_size: 24")


def test_host_calls():
    outcome = launched(with_hostcall(GOOD).replace("\ts_endpgm", "\ts_load_dwordx2 s[8:9], s[0:1], 0x10\n\ts_endpgm"))
    assert outcome.status == "unsupported"
    assert "hidden_hostcall_buffer" in outcome.message


def test_listed_but_unused_services():
    assert launched(with_hostcall(GOOD)).status == "passed"


def test_endless_loops_end_at_the_budget():
    outcome = execute("gfx942", ".Lhere:\ns_branch .Lhere", options=Options(budget=100_000)).emulation.outcome
    assert outcome.status == "timeout"
    assert "100000 lane-instructions" in outcome.message


def test_huge_grids_are_refused_before_they_start():
    outcome = launched(GOOD, grid=(2**31 - 1, 65535, 65535))
    assert outcome.status == "unsupported"
    assert "lane-instructions; allowed" in outcome.message


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ([edge_rows(64), 1, 2], "3 values for 2 arguments"),
        ([1.5, edge_rows(64)], "x of 8 bytes takes no float"),
    ],
)
def test_values_that_do_not_fit(values, cause):
    outcome = launched(GOOD, values=values)
    assert outcome.status == "launch_error"
    assert cause in outcome.message


def test_null_pointers_are_out_of_bounds():
    outcome = launched(GOOD, values=[None, np.zeros((64, 4), np.uint32)])
    assert outcome.status == "out_of_bounds"


def test_buffers_that_alias_are_one():
    """Input and output overlap in memory: the kernel sees it, and both arrays change."""
    store = np.zeros(64 * 8 + 64 * 4, np.uint32)
    inputs, outputs = store[: 64 * 8].reshape(64, 8), store[64 * 8 - 16 : 64 * 12 - 16].reshape(64, 4)
    inputs[:, 0] = np.arange(64)
    before = inputs[:, 0].copy()
    assert launched(GOOD, values=[inputs, outputs]).status == "passed"
    assert outputs[:, 0].tolist() == before.tolist()
    assert inputs[-1, 0] == outputs[2, 0]


def test_neighbours_in_memory_are_apart():
    """Two views side by side share no allocation: an index that runs from one into the other is found."""
    store = np.zeros(64 * 8 + 64 * 4, np.uint32)
    inputs, outputs = store[: 64 * 8].reshape(64, 8), store[64 * 8 :].reshape(64, 4)
    assert launched(GOOD, values=[inputs, outputs]).status == "passed"
    text = kernel("gfx942", "\tv_mov_b32_e32 v21, 0x800\n\tglobal_load_dword v10, v21, s[4:5]")
    assert launched(text, values=[inputs, outputs]).status == "out_of_bounds"


def test_pointers_into_a_buffer():
    store = np.zeros((65, 8), np.uint32)
    store[1:, 0] = EDGES.repeat(2)[:64]
    outputs = np.zeros((64, 4), np.uint32)
    assert launched(GOOD, values=[Pointer(store, 32), outputs]).status == "passed"
    assert np.array_equal(outputs[:, 0], store[1:, 0])


WAIT = "\ts_waitcnt vmcnt(0)"


def test_findings_name_the_source_line():
    text = kernel(
        "gfx942", '\t.file\t1 "/home/someone" "norm.py"\n\t.loc\t1 17 9\n\tglobal_load_dword v10, v1, s[4:5]\n' + WAIT
    )
    values = [np.full((64, 8), 1 << 16, np.uint32), np.zeros((64, 4), np.uint32)]
    (finding,) = run(text, "gfx942", (1,), values).findings
    assert finding.site.source == "norm.py:17"
    assert "/home" not in str(finding)
    assert (finding.buffer, finding.offset, finding.place.lane) == ("x", 1 << 16, 0)


def test_the_outermost_frame_is_named():
    line = "\t.loc\t2 50 30                         ; standard.py:50:30 @[ norm.py:25:38 ]\n"
    text = kernel("gfx942", line + "\tglobal_load_dword v10, v1, s[4:5]\n" + WAIT)
    values = [np.full((64, 8), 1 << 16, np.uint32), np.zeros((64, 4), np.uint32)]
    (finding,) = run(text, "gfx942", (1,), values).findings
    assert finding.site.source == "norm.py:25"
