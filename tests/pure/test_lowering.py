"""``portkit diff``: texts of one kernel on two targets."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner
from factories import build, header, launch, record

from portkit.analysis.lowering import Compared, compare, lines, pair
from portkit.cli.diff import command
from portkit.errors import ReportError
from portkit.model import Evidence, Outcome, Stage, Status
from portkit.render.terminal.console import make_console
from portkit.render.terminal.lowering import Wanted, print_pair
from portkit.store.journal import Journal
from portkit.store.merge import merge
from portkit.store.texts import BLOB, KernelTexts, pack

TTIR = """#loc = loc("kernels/softmax.py":98:0)
#loc7 = loc(callsite(#loc1 at #loc57))
module {
  tt.func public @k(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc)), %n: i32 loc("n"(#loc))) {
    %cst_1 = arith.constant 1.0 : f32 loc(#loc1)
    %0 = tt.load %x_ptr, %cst_1 : !tt.ptr<f32> loc(#loc3)
    tt.return loc(#loc9)
  } loc(#loc)
} loc(#loc)
"""
PTX = """//
.version 8.7
.visible .entry k(
)
{
\t.reg .b32 \t%r<9>;
$L__func_begin0:
\t.loc\t1 98 0                          // softmax.py:98:0
\tadd.s32 \t%r12, %r3, 4;                // a comment
$L__BB0_2:
\t@%p3 bra \t$L__BB0_2;
}
\t.section\t.debug_abbrev\t{ // left out
\t}
"""
AMDGCN = """\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.text
\t.globl\tk                               ; -- Begin function k
\t.p2align\t8
k:                                      ; @k
.Lfunc_begin0:
\t.loc\t1 98 0 prologue_end             ; softmax.py:98:0
\ts_load_dwordx2 s[2:3], s[0:1], 0x0
\tv_add_f32_e32 v17, v3, v17
.LBB0_3:                                ; =>This Inner Loop
\ts_cbranch_scc1 .LBB0_3
\t.section\t.rodata,"a",@progbits
\t.amdhsa_next_free_vgpr 20
"""
LLIR = """; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
define ptx_kernel void @k(ptr addrspace(1) %0) local_unnamed_addr #0 !dbg !4 {
  %7 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !dbg !12
.lr.ph:                                           ; preds = %6
  br i1 %25, label %.lr.ph, label %._crit_edge7, !dbg !19, !llvm.loop !45
}
attributes #0 = { nounwind }
!4 = distinct !DISubprogram(name: "k")
"""


def keys(text, name):
    return [line.key for line in lines(text, name)]


def test_locations_of_mlir_are_left_out_and_numbers_of_values_do_not_count():
    assert [line.text for line in lines(TTIR, "ttir")] == [
        "module {",
        "  tt.func public @k(%x_ptr: !tt.ptr<f32>, %n: i32) {",
        "    %cst_1 = arith.constant 1.0 : f32",
        "    %0 = tt.load %x_ptr, %cst_1 : !tt.ptr<f32>",
        "    tt.return",
        "  }",
        "}",
    ]
    other = TTIR.replace("%cst_1", "%cst").replace("%0", "%17").replace("#loc3", "#loc44")
    assert keys(TTIR, "ttir") == keys(other, "ttir")


def test_constants_are_told_by_their_values_in_whatever_order_they_stand():
    one = ["%cst = arith.constant 1.0 : f32", "%c8_i32 = arith.constant 8 : i32", "%y = arith.addi %x, %c8_i32 : i32"]
    other = ["%last = arith.constant 8 : i32", "%cst_2 = arith.constant 1.0 : f32", "%y_1 = arith.addi %x, %last : i32"]
    assert keys("\n".join(one), "ttgir") == keys("\n".join(other), "ttgir")
    assert [line.text.split()[3] for line in lines("\n".join(other), "ttgir")] == ["1.0", "8", "%x,"]
    assert keys("\n".join(one), "ttgir") != keys("\n".join(other).replace(" 8 ", " 9 "), "ttgir")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.0 : f32", "2.0 : f32"),
        ("tt.load", "amdg.buffer_load"),
        ("%n: i32", "%m: i32"),
        (": !tt.ptr<f32> loc", ": !tt.ptr<f16> loc"),
    ],
)
def test_what_mlir_says_does_count(old, new):
    assert keys(TTIR, "ttir") != keys(TTIR.replace(old, new), "ttir")


def test_ptx_without_comments_locations_and_debug_sections():
    assert [line.text for line in lines(PTX, "ptx")] == [
        ".version 8.7",
        ".visible .entry k(",
        ")",
        "{",
        "    .reg .b32   %r<9>;",
        "    add.s32     %r12, %r3, 4;",
        "$L__BB0_2:",
        "    @%p3 bra    $L__BB0_2;",
        "}",
    ]
    assert keys(PTX, "ptx") == keys(PTX.replace("%r12", "%r7").replace("L__BB0_2", "L__BB0_9"), "ptx")
    assert keys(PTX, "ptx") != keys(PTX.replace("%r3, 4", "%r3, 8"), "ptx")
    assert keys(PTX, "ptx") != keys(PTX.replace("%r12", "%rd12"), "ptx")


def test_amdgcn_ends_before_the_kernels_descriptor():
    assert [line.text.strip() for line in lines(AMDGCN, "amdgcn")] == [
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"',
        "k:",
        "s_load_dwordx2 s[2:3], s[0:1], 0x0",
        "v_add_f32_e32 v17, v3, v17",
        ".LBB0_3:",
        "s_cbranch_scc1 .LBB0_3",
    ]
    other = AMDGCN.replace("v17", "v4").replace("s[2:3]", "s[8:9]").replace("LBB0_3", "LBB0_1")
    assert keys(AMDGCN, "amdgcn") == keys(other, "amdgcn")
    assert keys(AMDGCN, "amdgcn") != keys(AMDGCN.replace("v3", "s3"), "amdgcn")


def test_llvm_ir_without_metadata():
    assert [line.text.strip() for line in lines(LLIR, "llir")] == [
        "define ptx_kernel void @k(ptr addrspace(1) %0) local_unnamed_addr #0 {",
        "%7 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        ".lr.ph:",
        "br i1 %25, label %.lr.ph, label %._crit_edge7",
        "}",
        "attributes #0 = { nounwind }",
    ]
    assert keys(LLIR, "llir") == keys(LLIR.replace("%25", "%3").replace("_edge7", "_edge"), "llir")


@pytest.mark.parametrize("name", ["ttir", "ttgir", "llir", "ptx", "amdgcn", "source"])
def test_raw_texts_are_whole(name):
    assert [line.text for line in lines(TTIR, name, raw=True)] == TTIR.rstrip("\n").split("\n")


def texts(kernel="k", **stages):
    return KernelTexts(kernel, {"source": "def k(x):\n    pass", "ttir": TTIR, "ttgir": TTIR, "llir": LLIR, **stages})


def on(journal, target, kept, *, variant="w8", shape=(4096, 4096), **changes):
    """A record whose launches have these texts."""
    launches = [launch(kernel=each.kernel, binary_hash=f"{number:016x}") for number, each in enumerate(kept)]
    blob = pack({each.binary_hash: text for each, text in zip(launches, kept, strict=True)})
    blobs = {BLOB: journal.store_blob(BLOB, blob)} if kept else {}
    return record(
        target=target, variant=variant, shape=shape, build=build(*launches or [launch()]), blobs=blobs, **changes
    )


@pytest.fixture
def journal(tmp_path):
    return Journal.create(tmp_path, header(cells=9))


def two(journal, one, other):
    """The cell on an H200 with the texts of the one, and on another target with those of the other."""
    target = "mi300x" if "amdgcn" in other.stages else "a100"
    known = dataset(journal, on(journal, "h200", [one]), on(journal, target, [other]))
    return pair(known, "softmax", ("h200", target))


def dataset(journal, *records):
    for each in records:
        journal.append(each)
    journal.close()
    return merge([journal.path])


NVIDIA, AMD = texts(ptx=PTX), texts(amdgcn=AMDGCN, ttgir=TTIR.replace("tt.load", "amdg.buffer_load"))


def shown(found, width=100, **wanted):
    text = io.StringIO()
    stages = wanted.pop("stages", ("resources", "source", "ttir", "ttgir"))
    print_pair(make_console(text, width), found, Wanted(stages, **wanted))
    return text.getvalue()


def test_stages_of_two_targets(journal):
    found = two(journal, NVIDIA, AMD)
    text = shown(found)
    assert text.startswith(
        "softmax[h200-4096x4096-float32-w8-compiled] and softmax[mi300x-4096x4096-float32-w8-compiled]\n"
    )
    assert "ttir (Triton's IR of the source): 7 and 7 lines, the same\n" in text
    part = text[text.index("ttgir (") :].split("\n")
    assert part[:7] == [
        "ttgir (Triton's IR with layouts of the target): 7 and 7 lines, 2 differ",
        "--- h200  +++ mi300x",
        "  module {",
        "    tt.func public @k(%x_ptr: !tt.ptr<f32>, %n: i32) {",
        "      %cst_1 = arith.constant 1.0 : f32",
        "-     %0 = tt.load %x_ptr, %cst_1 : !tt.ptr<f32>",
        "+     %0 = amdg.buffer_load %x_ptr, %cst_1 : !tt.ptr<f32>",
    ]
    assert "llir (optimised LLVM IR): 6 and 6 lines, the same\n" in text
    assert "ptx / amdgcn (NVIDIA's assembly, AMD's assembly): 9 and 6 lines, in two languages: --stage asm" in text


def test_a_wide_terminal_has_them_side_by_side(journal):
    found = two(journal, NVIDIA, AMD)
    text = shown(found, width=160, stages=("ttgir",))
    (changed,) = [line for line in text.split("\n") if " | " in line and "load" in line]
    assert changed.split(" | ")[0].rstrip().endswith("%0 = tt.load %x_ptr, %cst_1 : !tt.ptr<f32>")
    assert changed.endswith("%0 = amdg.buffer_load %x_ptr, %cst_1 : !tt.ptr<f32>")
    assert max(map(len, text.split("\n"))) <= 160
    assert "---" not in shown(found, width=80, stages=("ttgir",), beside=True)
    assert "--- h200" in shown(found, width=160, stages=("ttgir",), beside=False)


def test_differing_resources_are_marked(journal):
    made = dataset(
        journal,
        on(journal, "h200", [NVIDIA]),
        record(
            target="mi300x",
            build=build(launch(77, kernel="k", binary_hash="0" * 16)),
            blobs={BLOB: journal.store_blob(BLOB, pack({"0" * 16: AMD}))},
        ),
    )
    words = [line.split() for line in shown(pair(made, "softmax", ("h200", "mi300x"))).split("\n")]
    assert ["≠", "registers/thread", "32", "77"] in words
    assert ["warps", "8", "8"] in words


def test_far_equal_lines_are_left_out(journal):
    long = "\n".join(f"    a = {number}" for number in range(40))
    one, other = (texts(source=f"{long}\n    b = {n}\n{long}", ptx=PTX) for n in (1, 2))
    found = pair(
        dataset(journal, on(journal, "h200", [one]), on(journal, "a100", [other])), "softmax", ("h200", "a100")
    )
    text = shown(found, stages=("source",), context=1)
    assert text.count("… 39 equal lines") == 2
    assert "-     b = 1\n+     b = 2\n" in text


def compared(text, other):
    from portkit.analysis.lowering import Side

    ones = [Side(None, launch(), texts(ptx=each)) for each in (text, other)]
    found = compare(*ones, "asm")
    assert isinstance(found, Compared)
    return found


def test_lines_that_differ_are_counted():
    assert compared(PTX, PTX.replace("%r12", "%r4")).changed == 0
    assert compared(PTX, PTX.replace("%r3, 4", "%r3, 8")).changed == 2


def test_kernels_of_one_name_stand_beside_each_other_and_the_others_in_order(journal):
    one = on(journal, "h200", [texts("first", ptx=PTX), texts("k", ptx=PTX), texts("extra", ptx=PTX)])
    other = on(journal, "mi300x", [texts("k", amdgcn=AMDGCN), texts("walked", amdgcn=AMDGCN)])
    found = pair(dataset(journal, one, other), "softmax", ("h200", "mi300x"))
    names = [(left.launch.kernel, right.launch.kernel) for left, right in found.kernels]
    assert names == [("k", "k"), ("first", "walked")]
    assert found.unpaired == ("extra runs on h200 alone",)


def test_two_kernels_of_one_name_are_two_pairs(journal):
    one = on(journal, "h200", [texts("k", ptx=PTX), texts("k", ptx=PTX + "x")])
    other = on(journal, "a100", [texts("k", ptx=PTX), texts("k", ptx=PTX + "y"), texts("k", ptx=PTX + "z")])
    found = pair(dataset(journal, one, other), "softmax", ("h200", "a100"))
    hashes = [(int(left.launch.binary_hash), int(right.launch.binary_hash)) for left, right in found.kernels]
    assert hashes == [(0, 0), (1, 1)]
    assert found.unpaired == ("k runs on a100 alone",)


def test_of_several_operations_the_largest_is_shown_unless_words_say_another(journal):
    made = [
        on(journal, target, [text], shape=shape, variant=variant)
        for target, text in (("h200", NVIDIA), ("mi300x", AMD))
        for shape, variant in (((8, 8), "w8"), ((64, 64), "w8"), ((8, 8), "w4"))
    ]
    known = dataset(journal, *made)
    found = pair(known, "softmax", ("h200", "mi300x"))
    assert (found.left.record.cell.shape, found.others) == ((64, 64), 2)
    assert pair(known, "softmax", ("h200", "mi300x"), ["8x8", "w4"]).left.record.cell.variant == "w4"


def test_measured_rows_come_first(journal):
    measured = on(journal, "h200", [NVIDIA], evidence=Evidence.MEASURED)
    known = dataset(journal, on(journal, "h200", [NVIDIA]), measured, on(journal, "a100", [NVIDIA]))
    assert pair(known, "softmax", ("h200", "a100")).left.record.evidence is Evidence.MEASURED


def test_reports_without_a_row_are_told_as_such(journal):
    with pytest.raises(ReportError, match=r"no kernel 'softmax': the reports have no rows\n.*go on with their run"):
        pair(dataset(journal), "softmax", ("h200", "mi300x"), ())


def test_what_can_not_be_compared_says_why(journal):
    failed = record(target="a100", build=None, outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "no such thing"))
    known = dataset(journal, on(journal, "h200", [NVIDIA]), on(journal, "mi300x", [AMD], dtype="float16"), failed)
    for kernel, targets, words, why in (
        ("sofmax", ("h200", "mi300x"), (), r"no row of a kernel 'sofmax'\n.*softmax"),
        ("softmax", ("h200", "mi300"), (), r"no such row on a target 'mi300'\n.*mi300x"),
        ("softmax", ("h200", "mi300x"), (), "no operation of softmax was built for both h200 and mi300x"),
        ("softmax", ("h200", "a100"), (), r"softmax\[a100-.*nothing was built: compile_error no such thing"),
        ("softmax", ("h200", "mi300x"), ("1x1",), r"-k: no row on h200 has all of these words\n.*forward"),
    ):
        with pytest.raises(ReportError, match=why):
            pair(known, kernel, targets, words)


def test_a_report_without_texts_says_how_to_get_them(journal):
    known = dataset(journal, on(journal, "h200", []), on(journal, "mi300x", [AMD]))
    with pytest.raises(ReportError, match="no texts of its kernels were kept"):
        pair(known, "softmax", ("h200", "mi300x"))


def test_the_command(journal):
    dataset(journal, on(journal, "h200", [NVIDIA]), on(journal, "mi300x", [AMD]))
    arguments = ["softmax", str(journal.path), "-t", "h200,mi300x", "--stage", "all", "--unified"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert done.exception is None
    assert "v_add_f32_e32 v17, v3, v17" in done.stdout
    with pytest.raises(ReportError, match="two targets are compared, not 3"):
        CliRunner().invoke(command, ["softmax", "-t", "a,b,c"], standalone_mode=False, catch_exceptions=False)
