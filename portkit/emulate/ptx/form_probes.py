"""More forms of arithmetic instructions that are recorded on a device: other modes, widths, and modifiers.

Of sm_90 and later, whose assembler takes all of them. An H200's results:
``tests/records/nvidia_h200_forms.vectors``.
"""

FORMS: dict[tuple[str, str], str] = {
    ("B16", "B16"): """abs.bf16 neg.bf16""",
    ("B16", "I32"): """cvt.rni.u32.bf16 cvt.rzi.s32.bf16""",
    ("B16 B16 B16", "B16"): """fma.rn.relu.bf16""",
    ("B16x2", "B16x2"): """abs.bf16x2 neg.bf16x2""",
    ("B16x2 B16x2 B16x2", "B16x2"): """fma.rn.relu.bf16x2""",
    ("F16", "F16"): """abs.f16 cvt.rni.f16.f16 cvt.rzi.f16.f16 cvt.sat.f16.f16 neg.f16""",
    ("F16", "F32"): """cvt.sat.f32.f16""",
    ("F16", "I16"): """cvt.rzi.s16.f16 cvt.rzi.s8.f16 cvt.rzi.u16.f16 cvt.rzi.u8.f16""",
    ("F16", "I32"): """cvt.rni.u32.f16 cvt.rzi.s32.f16""",
    ("F16", "I64"): """cvt.rzi.s64.f16 cvt.rzi.u64.f16""",
    ("F16 F16", "F16"): """add.ftz.f16 add.ftz.sat.f16 add.sat.f16 max.ftz.NaN.f16 min.ftz.f16
mul.ftz.f16 mul.sat.f16 sub.ftz.f16""",
    ("F16 F16 F16", "F16"): """fma.rn.ftz.f16 fma.rn.ftz.relu.f16 fma.rn.relu.f16 fma.rn.sat.f16""",
    ("F16x2", "F16x2"): """abs.f16x2 neg.f16x2""",
    ("F16x2", "I16"): """cvt.rn.satfinite.relu.e4m3x2.f16x2 cvt.rn.satfinite.relu.e5m2x2.f16x2""",
    ("F16x2 F16x2 F16x2", "F16x2"): """fma.rn.relu.f16x2 fma.rn.sat.f16x2""",
    ("F32", "B16"): """cvt.rn.relu.bf16.f32 cvt.rn.relu.satfinite.bf16.f32 cvt.rn.satfinite.bf16.f32
cvt.rz.relu.bf16.f32""",
    ("F32", "F16"): """cvt.rm.f16.f32 cvt.rn.ftz.f16.f32 cvt.rn.relu.f16.f32 cvt.rn.sat.f16.f32
cvt.rp.f16.f32 cvt.rz.relu.f16.f32""",
    ("F32", "F32"): """abs.ftz.f32 cvt.ftz.f32.f32 cvt.ftz.sat.f32.f32 cvt.rni.sat.f32.f32
cvt.rpi.ftz.f32.f32 cvt.rzi.ftz.f32.f32 cvt.sat.f32.f32 neg.ftz.f32 rcp.rm.f32
rcp.rn.ftz.f32 rcp.rp.f32 rcp.rz.f32 sqrt.rm.f32 sqrt.rn.ftz.f32 sqrt.rp.f32
sqrt.rz.f32""",
    ("F32", "I16"): """cvt.rni.s8.f32 cvt.rzi.ftz.u16.f32 cvt.rzi.s16.f32 cvt.rzi.s8.f32
cvt.rzi.u16.f32 cvt.rzi.u8.f32""",
    ("F32", "I32"): """cvt.rn.relu.tf32.f32 cvt.rn.tf32.f32 cvt.rna.satfinite.tf32.f32
cvt.rpi.ftz.s32.f32 cvt.rpi.ftz.u32.f32 cvt.rz.relu.tf32.f32 cvt.rz.tf32.f32
cvt.rzi.ftz.s32.f32""",
    ("F32", "I64"): """cvt.rmi.u64.f32 cvt.rpi.s64.f32 cvt.rzi.u64.f32""",
    ("F32 F32", "B16x2"): """cvt.rn.bf16x2.f32 cvt.rn.relu.bf16x2.f32 cvt.rz.bf16x2.f32
cvt.rz.relu.bf16x2.f32""",
    ("F32 F32", "F16x2"): """cvt.rn.f16x2.f32 cvt.rn.relu.f16x2.f32 cvt.rn.relu.satfinite.f16x2.f32
cvt.rz.f16x2.f32 cvt.rz.relu.f16x2.f32""",
    ("F32 F32", "F32"): """add.ftz.sat.f32 add.rm.ftz.f32 add.rz.ftz.f32 div.approx.ftz.f32 div.rm.f32
div.rn.ftz.f32 div.rp.f32 div.rp.ftz.f32 max.NaN.f32 max.NaN.xorsign.abs.f32
max.ftz.f32 min.NaN.f32 min.ftz.NaN.f32 min.xorsign.abs.f32 mul.ftz.sat.f32
mul.rm.ftz.f32 mul.rp.ftz.f32 mul.rz.ftz.f32 set.eq.f32.f32 sub.ftz.f32
sub.rm.f32 sub.rp.f32""",
    ("F32 F32", "I16"): """cvt.rn.satfinite.relu.e4m3x2.f32 cvt.rn.satfinite.relu.e5m2x2.f32""",
    ("F32 F32 F32", "F32"): """fma.rm.ftz.f32 fma.rn.ftz.sat.f32 fma.rp.ftz.f32 fma.rz.ftz.f32""",
    ("F64", "F64"): """abs.f64 neg.f64 rcp.approx.ftz.f64 rcp.rn.f64 rsqrt.approx.ftz.f64""",
    ("F64", "I16"): """cvt.rzi.s16.f64 cvt.rzi.s8.f64 cvt.rzi.u16.f64 cvt.rzi.u8.f64""",
    ("F64", "I32"): """cvt.rni.s32.f64 cvt.rpi.u32.f64 cvt.rzi.s32.f64 cvt.rzi.u32.f64""",
    ("F64", "I64"): """cvt.rmi.s64.f64 cvt.rzi.s64.f64 cvt.rzi.u64.f64""",
    ("F64 F64", "F64"): """copysign.f64 max.f64 sub.rn.f64""",
    ("I16", "F16x2"): """cvt.rn.relu.f16x2.e4m3x2 cvt.rn.relu.f16x2.e5m2x2""",
    ("I16", "I16"): """abs.s16 cnot.b16 neg.s16 not.b16""",
    ("I16 I16", "I16"): """add.s16 and.b16 div.s16 div.u16 max.u16 min.s16 mul.hi.s16 mul.hi.u16
mul.lo.s16 rem.s16 rem.u16 sub.u16""",
    ("I16 I16", "I32"): """mul.wide.s16 mul.wide.u16""",
    ("I16 I16 I16", "I16"): """mad.hi.u16 mad.lo.s16 sad.s16 sad.u16""",
    ("I16 I16 I32", "I32"): """mad.wide.s16""",
    ("I16 I32", "I16"): """shl.b16 shr.b16 shr.s16 shr.u16""",
    ("I32", "B16"): """cvt.rm.bf16.s32 cvt.rn.bf16.s32 cvt.rp.bf16.s32 cvt.rz.bf16.u32""",
    ("I32", "F16"): """cvt.rm.f16.s32 cvt.rn.f16.s32 cvt.rn.sat.f16.s32 cvt.rp.f16.s32 cvt.rz.f16.u32""",
    ("I32", "F32"): """cvt.rm.f32.s32 cvt.rn.sat.f32.s32 cvt.rp.f32.u32""",
    ("I32", "I16"): """cvt.sat.s16.u32 cvt.sat.s8.s32 cvt.sat.u16.s32 cvt.sat.u8.s32 cvt.sat.u8.u32""",
    ("I32", "I64"): """cvt.s64.s32 cvt.sat.u64.s32""",
    ("I32 I32", "I32"): """mul24.hi.s32 mul24.hi.u32 set.ge.u32.u32 set.lt.s32.s32 szext.clamp.s32
szext.wrap.u32""",
    ("I32 I32", "I64"): """mul.wide.s32 mul.wide.u32""",
    ("I32 I32 F32", "I32"): """slct.ftz.s32.f32 slct.s32.f32""",
    ("I32 I32 I32", "I32"): """cvt.pack.sat.u8.s32.b32 dp2a.hi.s32.s32 dp2a.hi.s32.u32 dp2a.lo.u32.s32
dp4a.u32.s32 mad24.hi.s32 prmt.b32.b4e prmt.b32.ecl prmt.b32.ecr prmt.b32.f4e
prmt.b32.rc16 prmt.b32.rc8""",
    ("I32 I32 I64", "I64"): """mad.wide.s32 mad.wide.u32""",
    ("I64", "B16"): """cvt.rn.bf16.s64 cvt.rp.bf16.u64""",
    ("I64", "F16"): """cvt.rn.f16.s64 cvt.rp.f16.u64""",
    ("I64", "F32"): """cvt.rm.f32.s64 cvt.rp.f32.u64""",
    ("I64", "F64"): """cvt.rm.f64.s64 cvt.rn.f64.s64 cvt.rp.f64.u64 cvt.rz.f64.s64""",
    ("I64", "I32"): """bfind.s64 bfind.shiftamt.s64 bfind.u64 clz.b64 cvt.sat.s32.s64 cvt.sat.s32.u64
cvt.sat.u32.s64 popc.b64""",
    ("I64", "I64"): """abs.s64 brev.b64 cnot.b64 cvt.sat.s64.u64 cvt.sat.u64.s64 neg.s64 not.b64""",
    ("I64 I32", "I64"): """shl.b64 shr.s64 shr.u64""",
    ("I64 I32 I32", "I64"): """bfe.s64 bfe.u64""",
    ("I64 I64", "I64"): """max.s64 min.u64""",
    ("I64 I64 I32 I32", "I64"): """bfi.b64""",
    ("I64 I64 I64", "I64"): """mad.hi.s64 mad.hi.u64 mad.lo.u64 sad.s64 sad.u64""",
}
"""Kinds of the sources, and of the result → instructions."""
