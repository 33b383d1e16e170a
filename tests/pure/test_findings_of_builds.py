"""Rules on resources and lowering: each where it must fire, and where it must not."""

import dataclasses

import factories
import pytest
from found import built, failed, found, launch, places

from portkit.model import Stage, Status
from portkit.store.merge import Row

UNSUPPORTED, CRASH, ERROR = Status.UNSUPPORTED, Status.COMPILER_CRASH, Status.COMPILE_ERROR


def test_spills_on_one_target_alone():
    (one,) = found("PK101", built("h200", spill=0), built("rx7900xtx", spill=1036, registers=255))
    assert (one.targets, one.against) == (("rx7900xtx",), ("h200",))
    assert "1036 B on rx7900xtx, with 255 registers on rx7900xtx, and nothing on h200" in one.explanation
    assert "Never run (only built), so what it costs in time is not known" in one.explanation


@pytest.mark.parametrize("spill", [0, 64])
def test_spills_alike_everywhere_are_no_difference(spill):
    assert found("PK101", built("h200", spill=spill), built("mi300x", spill=spill)) == []


def test_a_small_count_hides_spills():
    (one,) = found("PK102", built("a100", registers=32, spill=25_000), built("h200", registers=255, spill=3400))
    assert (one.targets, one.against) == (("a100",), ("h200",))
    assert "25000 B with 32 on a100" in one.explanation


@pytest.mark.parametrize(("registers", "spill"), [(128, 255), (128, 4000), (32, 0)])
def test_a_count_hides_nothing(registers, spill):
    row = built("h200", registers=registers, spill=spill)  # of 255 registers
    assert found("PK102", row) == []


LIMITS = {
    "PK103": "shared memory 98304 B > 65536 B",
    "PK105": "threads 2048 > 1024",
    "PK106": "tensor memory 1024 columns > 512 columns",
    "PK109": "grid y 65536 blocks > 65535",
}


@pytest.mark.parametrize("rule", LIMITS)
@pytest.mark.parametrize("broken", LIMITS)
def test_limits(rule, broken):
    rows = [built("mi300x", limits_broken=(LIMITS[broken],)), built("h200")]
    assert places(rule, *rows) == ([(("mi300x",), ("h200",))] if rule == broken else [])
    for one in found(rule, *rows):
        assert LIMITS[rule] in one.explanation
        assert one.explanation.endswith("Never run (only built).")  # what can't run has no time to know
    assert found(rule, built("mi300x"), built("h200")) == []


def test_two_limits_are_one_finding():
    row = built("mi300x", limits_broken=(LIMITS["PK105"], "registers 65536 a block > 32768"))
    assert [rule for rule in LIMITS if found(rule, row)] == ["PK105"]


def test_near_the_limit_of_one_target():
    rows = [built("mi300x", shared=61_440), built("h200", shared=61_440)]  # of 65536 and 232448
    assert places("PK104", *rows) == [(("mi300x",), ("h200",))]
    assert "94 % on mi300x" in found("PK104", *rows)[0].explanation
    assert found("PK104", built("mi300x", shared=58_000), built("h200", shared=58_000)) == []
    over = built("mi300x", shared=98_304, limits_broken=(LIMITS["PK103"],))
    assert found("PK104", over, built("h200", shared=98_304)) == []


def test_limiters_differ():
    low, full = built("h200", percent=50.0, limiter="registers"), built("mi300x", percent=100.0)
    assert places("PK107", low, full) == [(("h200",), ("mi300x",))]
    assert "50 % by registers on h200" in found("PK107", low, full)[0].explanation


def test_limiters_of_all_targets_are_told():
    rows = [
        built("h200", percent=50.0, limiter="registers"),
        built("b200", percent=83.0, limiter="registers"),  # too near to the best to be limited
        built("mi355x", percent=75.0),  # by what limits the best, too
        built("mi300x", percent=100.0),
    ]
    (one,) = found("PK107", *rows)
    assert (one.targets, one.against) == (("h200",), ("mi300x",))
    assert (
        "limited to 50 % by registers on h200, and 100 % by waves is reached on mi300x; "
        "83 % by registers on b200 and 75 % by waves on mi355x."
    ) in one.explanation


@pytest.mark.parametrize(("percent", "limiter"), [(50.0, "waves"), (85.0, "registers"), (100.0, "registers")])
def test_limiters_that_make_little_difference(percent, limiter):
    assert found("PK107", built("h200", percent=percent, limiter=limiter), built("mi300x")) == []


def test_few_waves_may_be_meant_where_copies_are_asynchronous():
    low = built("h200", {"async_copies": 8}, percent=12.5, limiter="registers")
    (one,) = found("PK107", low, built("mi300x"))
    assert "latency of memory, but for what asynchronous copies fetch ahead on h200." in one.explanation
    (one,) = found("PK107", built("h200", percent=12.5, limiter="registers"), built("mi300x"))
    assert "hide less of the latency of memory." in one.explanation


def test_clusters_have_no_occupancy_to_compare():
    low = built("h200", percent=50.0, limiter="registers", options={"num_ctas": 2})
    assert found("PK107", low, built("mi300x")) == []


BAD_AND_GOOD = {
    # rule → signals where it holds, signals where it does not
    "PK201": ({"dot.f32": 1, "fma.f32": 64}, {"dot.f32": 1, "matrix.tf32": 8}),
    "PK202": ({"dot.f8": 1, "matrix.f16": 8}, {"dot.f8": 1, "matrix.f8": 4}),
    "PK203": ({"dot.f32": 1, "matrix.tf32": 8}, {"dot.f32": 1, "matrix.f32": 8}),
    "PK204": ({"atomic_float": 1, "atomic_cas": 2}, {"atomic_float": 1, "atomic_native": 1}),
    "PK205": ({"staged_loads": 2}, {"async_copies": 8}),
    "PK218": ({"division_exact": 4}, {"division_fast": 4}),
    "PK302": ({"exp2": 1, "exp_flushing": 4}, {"exp2": 1, "exp_keeping": 4}),
    "PK303": ({"exp": 1, "exp_scaled": 4}, {"exp": 1, "exp_keeping": 4}),
    "PK304": ({"mul_add.f32": 1, "mul_add_apart": 2}, {"mul_add.f32": 1, "fma.f32": 2}),
    "PK305": ({"fp8_narrow": 2}, {"fp8_narrow": 2, "fp8_saturate": 2}),
    "PK310": ({"fp8.e4m3fnuz": 3}, {"fp8.e4m3fn": 3}),
}


@pytest.mark.parametrize("rule", BAD_AND_GOOD)
def test_lowering_that_differs(rule):
    bad, good = BAD_AND_GOOD[rule]
    rows = [built("mi300x", bad), built("rx7900xtx", bad), built("h200", good)]
    assert places(rule, *rows) == [(("mi300x", "rx7900xtx"), ("h200",))]


@pytest.mark.parametrize(
    ("rule", "bad", "good", "told"),
    [
        ("PK218", {"division_exact": 1}, {"division_fast": 1}, "in 1 place on mi300x, and to 2 ulp, in eight, on h200"),
        ("PK303", {"exp": 1, "exp_scaled": 4}, {"exp": 1, "exp_keeping": 4}, "in 4 places on mi300x, and five on h200"),
        ("PK303", {"exp": 1, "exp_scaled": 4}, {"exp": 1, "exp_flushing": 4}, "in 4 places on mi300x, and two on h200"),
    ],
)
def test_instructions_are_those_of_the_machine_code(rule, bad, good, told):
    (one,) = found(rule, built("mi300x", bad), built("h200", good))
    assert told in one.explanation


@pytest.mark.parametrize("rule", BAD_AND_GOOD)
@pytest.mark.parametrize("which", [0, 1])
def test_lowering_that_is_the_same(rule, which):
    alike = BAD_AND_GOOD[rule][which]
    assert found(rule, built("mi300x", alike), built("h200", alike)) == []


@pytest.mark.parametrize("rule", BAD_AND_GOOD)
def test_signals_that_were_not_read_prove_nothing(rule):
    bad, good = BAD_AND_GOOD[rule]
    unread = built("mi300x", signals=None)
    assert found(rule, unread, built("h200", good)) == []
    assert found(rule, built("h200", bad), unread) == []


def test_one_plain_product_among_matrix_ones_is_seen():
    matrix = built("h200", {"dot.f16": 1, "matrix.f16": 8})
    launches = [launch("mi300x", {"dot.f16": 1, "matrix.f16": 8}), launch("mi300x", {"dot.f32": 1, "fma.f32": 64})]
    record = dataclasses.replace(built("mi300x").record, build=factories.build(*launches))
    assert places("PK201", Row(record, (), False), matrix) == [(("mi300x",), ("h200",))]


def test_fp8_conversions_by_software():
    rows = [built("mi300x", {"fp8_to": 1}), built("h200", {"fp8_to": 1, "fp8_convert": 4})]
    (one,) = found("PK202", *rows)
    assert one.targets == ("mi300x",)
    assert "Conversions of fp8 are emulated on mi300x; h200 uses instructions for it" in one.explanation


def test_block_scales_apart():
    rows = [built("mi300x", {"dot.scaled": 1, "matrix.f8": 4}), built("h200", {"dot.scaled": 1, "matrix.scaled": 4})]
    assert "Block scales are applied apart" in found("PK202", *rows)[0].explanation


def test_compare_and_swap_of_the_source_is_not_a_loop_of_the_compiler():
    asked = {"atomic_float": 1, "atomic_cas": 1, "atomic_compare": 1}
    assert found("PK204", built("mi300x", asked), built("h200", {"atomic_float": 1, "atomic_native": 1})) == []


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_products_of_halves_without_fused_instructions(kind):
    rows = [built("mi300x", {f"mul_add.{kind}": 1}), built("h200", {f"mul_add.{kind}": 1, f"fma.{kind}": 1})]
    assert places("PK304", *rows) == [(("mi300x",), ("h200",))]


GIB2 = 2**31


def test_memory_over_2_gib():
    wide = built("mi300x", {"global_operations": 4}, specialization={"X": "*bf16 divisibility=16"}, largest_bytes=GIB2)
    (one,) = found("PK206", wide, built("h200", largest_bytes=GIB2))
    assert one.targets == ("mi300x",)
    assert "(X) reach into 2.0 GiB" in one.explanation


@pytest.mark.parametrize(
    ("target", "kind", "size"),
    [
        ("mi300x", "*bf16 divisibility=16 pointer_range=32", 4096),
        ("mi300x", "*bf16 divisibility=16", 4096),  # a Triton that does not mark pointers
        ("mi300x", "*bf16 divisibility=16", None),
        ("h200", "*bf16 divisibility=16", GIB2),
    ],
)
def test_memory_within_2_gib(target, kind, size):
    row = built(target, {"global_operations": 4}, specialization={"X": kind}, largest_bytes=size)
    assert found("PK206", row) == []


def test_memory_over_2_gib_that_buffer_operations_reach():
    row = built("mi300x", {"buffer_operations": 4}, specialization={"X": "*bf16"}, largest_bytes=GIB2)
    assert found("PK206", row) == []


def test_offsets_that_overflow():
    (one,) = found("PK207", built("h200", {"offsets32": 3}, largest_elements=2**31))
    assert one.targets == ("h200",)
    assert "spans 2,147,483,648 elements, over the 2,147,483,647" in one.explanation


@pytest.mark.parametrize(
    ("signals", "elements"), [({"offsets32": 3}, 2**31 - 1), ({}, 2**40), ({"offsets32": 3}, None)]
)
def test_offsets_that_do_not_overflow(signals, elements):
    assert found("PK207", built("h200", signals, largest_elements=elements)) == []


def test_64_bit_division():
    assert places("PK208", built("h200", {"division64": 2}), built("mi300x")) == [(("h200",), ("mi300x",))]
    assert found("PK208", built("h200"), built("mi300x")) == []


@pytest.mark.parametrize(
    ("asked", "followed"), [("ask.warp_specialize", "warp_specialized"), ("ask.eviction", "eviction")]
)
def test_ignored_requests(asked, followed):
    rows = [built("mi300x", {asked: 1}), built("h200", {asked: 1, followed: 1})]
    assert places("PK209", *rows) == [(("mi300x",), ("h200",))]
    assert found("PK209", rows[1], built("mi300x")) == []


def test_wider_warps_without_work():
    rows = [built("mi300x", {"tile": 128}), built("h200", {"tile": 128})]  # 256 and 128 threads
    assert places("PK210", *rows) == [(("mi300x",), ("h200",))]
    assert found("PK210", built("mi300x", {"tile": 256}), built("h200", {"tile": 256})) == []
    assert found("PK210", built("mi300x", {"tile": 64}), built("h200", {"tile": 64})) == []  # idle on both
    assert found("PK210", built("mi300x", {"tile": 1}), built("h200", {"tile": 1})) == []  # scalars alone


REGISTER = "exit 1: error: couldn't allocate output register for constraint 'f'"
LINKER = "LLD failed to link hsaco source FILE: error: invalid instruction"
OPTION = "Keyword argument kpack was specified but unrecognised"
PRECISION = "input_precision must be one of ('ieee', 'bf16x3', 'bf16x6'). Got tf32"
FP8 = "ValueError(\"type fp8e4b8 not supported in this architecture. The supported fp8 dtypes are ('fp8e5')\")"
SHAPE = "Input shapes should have M >= 1, N >= 1 and K >= 16"
LIBRARY = "Implicit conversion of CUDA __nv_asinhf device function has been dropped"
LOST = "inline assembly 'tanh.approx.f32 $0, $1;' is not in the amdgcn: the compiler dropped it"
OPEN = "the binary calls nowhere_f32 and does not define it, so it can't be loaded"

FAILURES = {
    # status, message, signals of the row that built → the one rule that names it
    (CRASH, REGISTER, "inline_asm"): "PK211",
    (ERROR, LINKER, "inline_asm"): "PK211",
    (UNSUPPORTED, LIBRARY, "library.nvidia"): "PK212",
    (ERROR, "ptxas: Unresolved extern function '__ocml_asinh_f32'", "library.amd"): "PK212",
    (Status.MISCOMPILED, OPEN, ""): "PK212",
    (UNSUPPORTED, OPTION, ""): "PK213",
    (UNSUPPORTED, PRECISION, ""): "PK213",
    (Status.MISCOMPILED, LOST, "inline_asm"): "PK215",
    (UNSUPPORTED, SHAPE, ""): "PK216",
    (ERROR, "PassManager::run failed", ""): "PK217",
    (CRASH, "signal SIGABRT: LLVM ERROR: Cannot select", ""): "PK217",
    (ERROR, LINKER, ""): "PK217",
    (UNSUPPORTED, FP8, ""): "PK306",
}


@pytest.mark.parametrize(("status", "message", "signal"), FAILURES)
def test_each_failure_is_the_matter_of_one_rule(status, message, signal):
    rows = [failed("mi300x", status, message), built("h200", {signal: 1} if signal else {})]
    expected = FAILURES[status, message, signal]
    for rule in dict.fromkeys(FAILURES.values()):
        assert places(rule, *rows) == ([(("mi300x",), ("h200",))] if rule == expected else []), rule


@pytest.mark.parametrize("rule", dict.fromkeys(FAILURES.values()))
def test_builds_and_failures_of_the_host_are_no_finding(rule):
    host = failed("mi300x", Status.CAPTURE_FAILED, REGISTER, Stage.CAPTURE)
    assert found(rule, built("h200", {"inline_asm": 1}), built("mi300x", {"inline_asm": 1})) == []
    assert found(rule, built("h200"), host) == []


@pytest.mark.parametrize("rule", dict.fromkeys(FAILURES.values()))
def test_what_the_instruction_interpreter_does_not_know_is_no_refusal(rule):
    row = failed("mi300x", UNSUPPORTED, "line 7 `v_cvt_pk_fp8_f32 v0, v1, v2`: not modelled", Stage.RUN)
    assert found(rule, row, built("h200")) == []


@pytest.mark.parametrize("rule", ["PK216", "PK217"])
def test_what_no_target_builds_is_no_difference(rule):
    rows = [failed("mi300x", UNSUPPORTED, SHAPE), failed("h200", ERROR, "PassManager::run failed")]
    assert found(rule, *rows) == []


def test_an_option_that_does_nothing():
    rows = [
        built("mi300x", variant="n16", options={"matrix_instr_nonkdim": 16}, binary_hash="a"),
        built("mi300x", variant="n32", options={"matrix_instr_nonkdim": 32}, binary_hash="b"),
        built("rx7900xtx", variant="n16", options={"matrix_instr_nonkdim": 16}, binary_hash="c"),
        built("rx7900xtx", variant="n32", options={"matrix_instr_nonkdim": 32}, binary_hash="c"),
    ]
    (one,) = found("PK214", *rows)
    assert (one.targets, one.against) == (("rx7900xtx",), ("mi300x",))
    assert "differ in matrix_instr_nonkdim" in one.explanation


def test_an_option_that_the_host_leaves_out_is_not_without_effect():
    rows = [
        built("mi300x", variant="a", options={"waves_per_eu": 1}, binary_hash="a"),
        built("mi300x", variant="b", options={"waves_per_eu": 2}, binary_hash="b"),
        built("h200", variant="a", options={}, binary_hash="c"),
        built("h200", variant="b", options={}, binary_hash="c"),
    ]
    assert found("PK214", *rows) == []
    rows[1] = built("mi300x", variant="b", options={"waves_per_eu": 2}, constants={"BLOCK": "1"}, binary_hash="b")
    assert found("PK214", *rows) == []


def test_rows_of_another_source_are_not_held_against_each_other():
    bad, good = built("mi300x", {"dot.f32": 1}), built("h200", {"dot.f32": 1, "matrix.tf32": 8})
    keys = dataclasses.replace(good.record.keys, source_hash="another")
    other = dataclasses.replace(good, record=dataclasses.replace(good.record, keys=keys))
    assert found("PK201", bad, good) != []
    assert found("PK201", bad, other) == []


def test_compile_time_out_of_line():
    late = failed("rx7900xtx", Status.TIMEOUT, "over 100 s")
    lines = built("rx7900xtx", {"llvm_lines": 15_700})
    seconds = built("rx7900xtx", {"llvm_lines": 900}, compile_seconds=30.0)
    others = [built("h200", {"llvm_lines": 700}, compile_seconds=0.5), built("mi300x", {"llvm_lines": 300})]
    for row in (late, lines, seconds):
        assert places("PK408", row, *others) == [(("rx7900xtx",), ("h200", "mi300x"))]
    assert "did not end within its limit on rx7900xtx" in found("PK408", late, *others)[0].explanation
    assert "15700 lines" in found("PK408", lines, *others)[0].explanation


def test_the_others_of_a_long_build_are_told_as_a_range():
    rows = [built(name, {"llvm_lines": n}) for name, n in (("rx7900xtx", 15_700), ("h200", 900), ("mi300x", 700))]
    (one,) = found("PK408", *rows)
    assert (
        "15700 lines of LLVM IR on rx7900xtx, against 700 to 900 lines of LLVM IR on h200 and mi300x" in one.explanation
    )


@pytest.mark.parametrize(("size", "seconds"), [(4900, 1.0), (6000, 4.0)])
def test_compile_time_in_line(size, seconds):
    rows = [built("h200", {"llvm_lines": size}, compile_seconds=seconds), built("mi300x", {"llvm_lines": 2000})]
    assert found("PK408", *rows) == []
    assert found("PK408", failed("h200", Status.TIMEOUT, "", Stage.RUN), built("mi300x")) == []
