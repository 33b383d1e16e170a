"""Signals of texts written by hand: each with the lines that count, and lines that look alike and do not."""

import dataclasses
import re

import factories
import pytest

from portkit.model import SCHEMA_VERSION, SIGNALS, Evidence, Platform
from portkit.run.signals import amd, counting, nvidia, read_signals, source
from portkit.store.fit import LIMIT, encode_fitting
from portkit.store.schema import decode, encode, parse

TTIR = """
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %n: i32 loc("n"(#loc))) {
    %c = arith.constant dense<128> : tensor<128x1xi32> loc(#loc1)
    %p = tt.get_program_id x : i32 loc(#loc2)
    %row = arith.muli %p, %n : i32 loc(#loc3)
    %wide = arith.extsi %row : i32 to i64 loc(#loc3)
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32> loc(#loc4)
    %s = tt.splat %row : i32 -> tensor<128xi32> loc(#loc5)
    %o = arith.addi %s, %r : tensor<128xi32> loc(#loc6)
    %a = tt.addptr %px, %o : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc7)
    %b = tt.addptr %px, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc7)
    %d = tt.addptr %x, %wide : !tt.ptr<f32>, i64 loc(#loc7)
    %m = arith.mulf %u, %v : tensor<128xf32> loc(#loc8)
    %q = arith.addf %m, %w : tensor<128xf32> loc(#loc9)
    %lone = arith.mulf %u, %v : tensor<128xf32> loc(#loc8)
    %h = arith.mulf %hu, %hv : tensor<128xbf16> loc(#loc8)
    %hs = arith.subf %hw, %h : tensor<128xbf16> loc(#loc9)
    %t = tt.dot %ta, %tb, %tc, inputPrecision = tf32 : tensor<16x32xf8E4M3FN> * tensor<32x16xf8E4M3FN>
    %t2 = tt.dot %ta, %tb, %tc : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32> loc(#loc10)
    %e = math.exp %q : tensor<128xf32> loc(#loc11)
    %e2 = math.exp2 %q : tensor<128xf32> loc(#loc11)
    %mx = arith.maxnumf %q, %e : tensor<128xf32> loc(#loc12)
    %f = tt.fp_to_fp %q, rounding = rtne : tensor<128xf32> -> tensor<128xf8E5M2> loc(#loc13)
    %g = tt.fp_to_fp %f : tensor<128xf8E5M2> -> tensor<128xbf16> loc(#loc13)
    %at = tt.atomic_rmw fadd, relaxed, gpu, %a, %q : (tensor<128x!tt.ptr<f32>>) -> tensor<128xf32>
    %ai = tt.atomic_rmw add, acq_rel, gpu, %i, %j : (tensor<128x!tt.ptr<i32>>) -> tensor<128xi32>
    %lib = tt.extern_elementwise %q {pure = true, symbol = "__nv_asinhf"} : (tensor<128xf32>) -> tensor<128xf32>
  } {tt.warp_specialize} loc(#loc14)
"""

ASKED = {
    "offsets32": 1,
    "mul_add.f32": 1,
    "mul_add.bf16": 1,
    "dot.f8": 1,
    "dot.f16": 1,
    "exp": 1,
    "exp2": 1,
    "max_number": 1,
    "fp8_to": 1,
    "fp8_from": 1,
    "fp8.e4m3fn": 1,
    "fp8.e5m2": 2,
    "atomic_float": 1,
    "library.nvidia": 1,
    "ask.warp_specialize": 1,
    "tile": 16 * 32,
}

PTX = """
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %r1 }, { %r2 }, { %r3 }, { %r4 };
	wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%r1}, %rd1, %rd2, 1, 1, 1;
	wgmma.fence.sync.aligned;
	@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 ], %rd1, %rd2, %r2, 1;
	tcgen05.wait::ld.sync.aligned;
	mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}, {%fd2}, {%fd3}, {%fd4};
	mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r4};
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
	cp.async.commit_group;
	@%p2 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r4];
	atom.relaxed.gpu.global.cas.b32 %r1, [ %rd1 + 0 ], %r2, %r3;
	atom.global.gpu.relaxed.add.f32 %r1, [ %rd1 + 0 ], %r2;
	cvt.rn.satfinite.e4m3x2.f32 %rs1, %r1, %r2;
	cvt.rn.f16x2.e4m3x2 %r1, %rs1;
	ex2.approx.ftz.f32 %r1, %r2;
	ex2.approx.f32 %r1, %r2;
	fma.rn.f32 %r1, %r2, %r3, %r4;
	fma.rn.bf16x2 %r1, %r2, %r3, %r4;
	div.full.f32 %r1, %r2, %r3;
	mul.f32 %r5, %r1, %r2;
	add.f32 %r6, %r5, %r3;
	mul.rn.f32 %r7, %r1, %r2;
	sub.rn.f32 %r8, %r7, %r3;
	ld.global.L1::evict_first.v4.b32 { %r1 }, [ %rd1 + 0 ];
"""

OF_PTX = {
    **dict.fromkeys(("matrix.tf32", "matrix.f8", "matrix.f16", "matrix.f64", "matrix.i8"), 1),
    "async_copies": 2,
    **dict.fromkeys(("atomic_cas", "atomic_native"), 1),
    **{"fp8_convert": 2, "fp8_narrow": 1, "fp8_saturate": 1},
    **dict.fromkeys(("exp_flushing", "exp_keeping", "fma.f32", "fma.bf16", "division_fast"), 1),
    **{"mul_add_apart": 1, "eviction": 1},
}

GCN = """
	v_mfma_f32_32x32x4_xf32 a[0:15], v[0:1], v[2:3], a[0:15]
	v_mfma_f32_32x32x16_fp8_fp8 a[0:15], v[0:1], v[2:3], a[0:15]
	v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], v[0:3]
	v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]
	v_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7]
	v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[0:15], v32, v33
	v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]
	buffer_load_dwordx4 v0, s[0:3], 0 offen lds
	global_load_dword v1, v[2:3], off
	global_atomic_cmpswap v1, v[2:3], v[4:5], off sc0
	buffer_atomic_pk_add_bf16 v1, v2, s[0:3], 0 offen
	v_cvt_pk_fp8_f32 v1, v2, v3
	v_cvt_f32_fp8_e32 v1, v2
	s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
	v_exp_f32_e32 v1, v2
	v_exp_f32_e32 v3, v4
	v_ldexp_f32 v1, v1, v5
	v_div_fixup_f32 v1, v2, v3, v4
	v_dual_fmac_f32 v1, v2, v3 :: v_dual_add_f32 v4, v5, v6
	v_fma_f16 v1, v2, v3, v4
.LBB0_1:
	v_mul_f32_e32 v10, v1, v2
	v_sub_f32_e32 v11, v10, v3
	v_pk_mul_f32 v[12:13], v[0:1], v[2:3]
	v_add_f32_e32 v14, v15, v13
	v_mul_f32_e32 v16, v1, v2
	buffer_load_dword v16, v20, s[0:3], 0 offen
	v_add_f32_e32 v17, v16, v3
	v_mul_f32_e32 v18, v1, v2
.LBB0_2:
	v_add_f32_e32 v19, v18, v3
"""

OF_GCN = {
    **{"matrix.tf32": 1, "matrix.f8": 1, "matrix.f16": 1, "matrix.f32": 1, "matrix.i8": 1, "matrix.f64": 1},
    "matrix.scaled": 1,
    **{"async_copies": 1, "atomic_cas": 1, "atomic_native": 1},
    **{"fp8_convert": 2, "fp8_narrow": 1, "fp8_saturate": 1},
    **{"exp_flushing": 1, "exp_scaled": 1, "division_exact": 1},
    **{"fma.f32": 1, "fma.f16": 1},
    "mul_add_apart": 2,  # v11 and v14: v16 was loaded since, and what v18 holds in another block is not known
    "global_operations": 2,
}


def counted(found):
    return {name: count for name, count in found.items() if count}


def test_what_the_source_asks_for():
    assert counted(source.source_signals(TTIR)) == ASKED


@pytest.mark.parametrize(
    ("text", "scaled"),
    [
        ("v_cndmask_b32_e64 v24, 1.0, 0x1f800000, s1\n v_mul_f32_e32 v21, v21, v24", 1),  # gfx1151, Triton 3.6
        ("s_cselect_b32 s3, 0x1f800000, 1.0\n s_mul_f32 s1, s1, s3", 1),  # gfx1201, of a scalar
        ("v_mov_b32_e32 v7, 0x1f800000\n v_cndmask_b32_e32 v24, 1.0, v7, vcc\n v_mul_f32_e32 v21, v21, v24", 1),
        ("v_cndmask_b32_e64 v24, 1.0, v7, s1\n v_mul_f32_e32 v21, v21, v24", 0),  # a selection of the source
        ("v_cndmask_b32_e64 v24, 0, 0x1f800000, s1", 0),
        ("", 0),
    ],
)
@pytest.mark.parametrize("exponential", ["v_exp_f32_e32 v21, v24", "v_s_exp_f32 s1, s2"])
def test_an_exponential_may_be_scaled_by_a_product(text, scaled, exponential):
    found = amd.machine_signals(f"\t{exponential}\n\t{text}\n")
    assert (found["exp_scaled"], found["exp_flushing"]) == (scaled, 1 - scaled)


@pytest.mark.parametrize("patterns", [source._PATTERNS, nvidia._PATTERNS, amd._PATTERNS], ids=["ir", "ptx", "gcn"])
def test_counts_are_those_of_the_patterns(patterns):
    for text in (TTIR, PTX, GCN, TTGIR, "arith.\n fma.rn.\n v_cvt_\n", ""):
        assert counting.counts(patterns, text) == {name: len(each.findall(text)) for name, each in patterns.items()}


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (r"\bex2\.approx\.f32", "ex2.approx.f32"),
        (r"^\s*(?:a|b)_atomic_(?!c)\w+", "_atomic_"),
        (r"tests?x", "x"),
        (r"one|other", ""),
        (r"ab{2}[cd]e(f(g)h)ij+", "e"),
    ],
)
def test_what_every_match_has(pattern, word):
    assert counting._word(re.compile(pattern)) == word


def test_a_product_of_another_type():
    assert source.source_signals("%t = tt.dot %a, %b, %c : tensor<16x32xi16> * tensor<32x16xi16>")["dot.other"] == 1


def test_what_ptx_has():
    assert counted(nvidia.machine_signals(PTX)) == OF_PTX


def test_what_amdgcn_has():
    assert counted(amd.machine_signals(GCN)) == OF_GCN


TTGIR = """
    %a = amdg.buffer_load %x[%o] : tensor<128xf32, #blocked>
    amdg.buffer_store %v, %y[%o] : tensor<128xf32, #blocked>
    %b = amdgpu.buffer_atomic_rmw fadd, relaxed, gpu, %v, %y[%o] : tensor<128xf32, #blocked>
    ttg.local_store %a, %s : tensor<128x64xf16, #blocked> -> !ttg.memdesc<128x64xf16>
    %d = ttg.local_alloc %v : (tensor<128x64xf16, #blocked>) -> !ttg.memdesc<128x64xf16>
    ttg.warp_specialize(%rows) attributes {requestedRegisters = array<i32: 232>}
"""


def test_what_the_layout_has():
    assert source.layout_signals(TTGIR) == {"buffer_operations": 3, "staged_loads": 1, "warp_specialized": 1}


def test_divisions_by_what_is_known_at_run_time():
    llir = "  %1 = sdiv i64 %0, %n\n  %2 = udiv i64 %1, 7\n  %3 = srem i32 %0, %n\n  %4 = urem exact i64 %3, %n\n"
    assert source.llvm_signals(llir) == {"division64": 2, "llvm_lines": 4}


def test_signals_of_a_build_have_known_names_and_no_zeros():
    asm = {"ttir": TTIR, "ttgir": TTGIR, "llir": "x\n", "ptx": PTX}
    found = read_signals(Platform.CUDA, asm)
    assert found is not None
    assert 0 not in found.values()
    assert set(found) <= set(SIGNALS)
    assert list(found) == sorted(found)
    assert set(OF_GCN) <= set(SIGNALS)


@pytest.mark.parametrize("missing", ["ttir", "ttgir", "llir", "amdgcn"])
def test_a_missing_text_leaves_signals_unknown(missing):
    asm = {name: "" for name in ("ttir", "ttgir", "llir", "amdgcn") if name != missing}
    assert read_signals(Platform.ROCM, asm) is None


def test_signals_outlast_the_cuts_of_a_long_record():
    """Ten launches with long specialisations lose these, and keep what findings rest on."""
    found = dict.fromkeys(list(SIGNALS)[:14], 1000)
    launches = [
        factories.launch(specialization={f"argument_{i}": "*fp32 divisibility=16" for i in range(40)}, signals=found)
        for _ in range(10)
    ]
    record = factories.record(Evidence.COMPILED, build=factories.build(*launches))
    kept, line = encode_fitting(record, lambda name, content: name)
    assert len(line) <= LIMIT
    assert "launches" in kept.blobs
    assert kept.build is not None
    assert {tuple(x.signals.items()) for x in kept.build.launches} == {tuple(found.items())}


def test_a_launch_of_an_older_report_has_no_signals():
    record = factories.record(Evidence.COMPILED)
    line = encode(record)
    assert b"signals" not in line
    kind, body = parse(line, "here")
    read = decode(kind, body, SCHEMA_VERSION, "here")
    assert read == record
    assert read.build.launches[0].signals is None
    told = dataclasses.replace(record, build=factories.build(factories.launch(signals={})))
    assert decode(*parse(encode(told), "here"), SCHEMA_VERSION, "here").build.launches[0].signals == {}
