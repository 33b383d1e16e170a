"""More kernels of each kind of failure, one case each, with other types, shapes and instructions."""

import torch
import triton
import triton.language as tl
from declare import declare
from triton.language import core
from triton.language.extra.cuda import libdevice as nvidia_library
from triton.language.extra.hip import libdevice as amd_library

N = 1024


@core.extern
def _nowhere(x, _semantic=None):
    types = {(core.dtype("fp32"),): ("nowhere_f32", core.dtype("fp32"))}
    return core.extern_elementwise("", "", [x], types, is_pure=True, _semantic=_semantic)


@triton.jit
def elementwise(x_ptr, y_ptr, KIND: tl.constexpr, BLOCK: tl.constexpr):  # noqa: C901, PLR0912
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if KIND == "asm_integer":
        y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    elif KIND == "asm_long":
        y = tl.inline_asm_elementwise("add.s64 $0, $1, 1;", "=l,l", [x.to(tl.int64)], tl.int64, True, 1)
    elif KIND == "asm_amd":
        y = tl.inline_asm_elementwise("v_add_u32 $0, $1, 1", "=v,v", [x.to(tl.int32)], tl.int32, True, 1)
    elif KIND == "asm_one_of_two":
        y = tl.inline_asm_elementwise("v_rcp_f32 $0, $1", "=v,v", [x], dtype=tl.float32, is_pure=True, pack=1)
        y += tl.inline_asm_elementwise("v_sqrt_f32 $0, $1", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif KIND == "asm_effect":
        y = x
        tl.inline_asm_elementwise("nanosleep.u32 20; // $0 $1", "=r,r", [x.to(tl.int32)], tl.int32, False, 1)
    elif KIND == "asm_lines":
        y = tl.inline_asm_elementwise(
            """
            {
                .reg .pred p;
                setp.gt.f32 p, $1, 0f00000000;
                selp.f32 $0, $1, 0f00000000, p;
            }
            """,
            "=f,f",
            [x],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    elif KIND == "asm_too_new":
        y = tl.inline_asm_elementwise("ex2.approx.ftz.bf16x2 $0, $1;", "=r,r", [x], tl.int32, True, 1)
    elif KIND == "asm_unused":
        tl.inline_asm_elementwise("v_exp_f32 $0, $1", "=v,v", [x], dtype=tl.float32, is_pure=True, pack=1)
        y = x + 1
    elif KIND == "open_call":
        y = _nowhere(x)
    elif KIND == "nvidia_library":
        y = nvidia_library.asinh(x)
    elif KIND == "amd_library":
        y = amd_library.asinh(x)
    elif KIND == "fp8_everywhere":
        y = x.to(tl.float8e4b8).to(tl.float32)
    elif KIND == "undefined_name":
        y = x * no_such_name  # noqa: F821
    elif KIND == "undefined_function":
        y = tl.no_such_function(x)
    elif KIND == "arguments":
        y = tl.exp()
    elif KIND == "pointers":
        y = x_ptr + y_ptr
    elif KIND == "static_assert":
        tl.static_assert(BLOCK <= 256, "BLOCK too large")
        y = x
    elif KIND == "size":
        y = tl.sum(tl.zeros((BLOCK, 4096), tl.float32), 1)
    elif KIND == "language":
        y = x
        while True:
            break
    else:
        y = x
    tl.store(y_ptr + lanes, y)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, S: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, S)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * S + i[None, :])
    tl.store(c_ptr + i[:, None] * S + i[None, :], tl.dot(a, b, input_precision=PRECISION).to(tl.float32))


@triton.jit
def fused_multiply(x_ptr, y_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(y_ptr + lanes, x * x * x)


def point(x, *, kind="copy", **options):
    y = torch.empty_like(x)
    elementwise[(1,)](x, y, KIND=kind, BLOCK=N, **options)
    return y


def cube(x):
    half = x.to(torch.bfloat16)
    y = torch.empty_like(half)
    fused_multiply[(1,)](half, y, BLOCK=N)
    return y


def square(x, *, dtype, size=64, depth=64, precision="ieee"):
    a = torch.zeros((size, depth), dtype=getattr(torch, dtype), device=x.device)
    b = torch.zeros((depth, size), dtype=getattr(torch, dtype), device=x.device)
    c = torch.empty((size, size), dtype=torch.float32, device=x.device)
    product[(1,)](a, b, c, S=size, K=depth, PRECISION=precision)
    return c


def lacking_argument(x):
    elementwise[(1,)](x, KIND="copy", BLOCK=N)


def _case(name, function, variants):
    inputs = lambda make, shape, dtype: {"x": make.uniform(shape, dtype)}  # noqa: E731
    return declare(name, function, torch.clone, inputs, shape=(N,), variants=variants, elements=2 * N, flops=N)


TEXT = ("undefined_name", "undefined_function", "arguments", "pointers")
REFUSED = ("static_assert", "size", "language", "fp8_everywhere", "nvidia_library")
ASSEMBLY = ("integer", "long", "amd", "one_of_two", "effect", "lines", "too_new", "unused")

pointwise = _case(
    "pointwise",
    point,
    {kind: {"kind": kind} for kind in (*TEXT, *REFUSED, *(f"asm_{name}" for name in ASSEMBLY))}
    | {kind: {"kind": kind} for kind in ("open_call", "amd_library")}
    | {
        "warps32": {"num_warps": 32},
        "warps3": {"num_warps": 3},
        "odd_option": {"no_such_option": 1},
        "ctas2": {"num_ctas": 2},
    },
)
bfloat16 = _case("bfloat16", cube, {"cube": {}})
products = _case(
    "products",
    square,
    {
        "fp64": {"dtype": "float64", "size": 32, "depth": 32},
        "fp64_xf32": {"dtype": "float64", "size": 32, "depth": 32, "precision": "tf32"},
        "fp32_k4": {"dtype": "float32", "size": 16, "depth": 4},
        "i8_k16": {"dtype": "int8", "size": 32, "depth": 16},
        "tf32x3": {"dtype": "float32", "precision": "tf32x3"},
    },
)
lacking = _case("lacking", lacking_argument, {"default": {}})
