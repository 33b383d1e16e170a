"""Bias, GELU and dropout in one pass; the same mask on every vendor for one seed.

    y_ij = keep_ij gelu(x_ij + b_j) / (1 - p),   gelu(z) = z sigmoid(2 c (z + 0.044715 z³)), c = sqrt(2 / pi)

(the tanh form, by tanh(u) = 2 sigmoid(2 u) - 1.) keep is drawn by Philox 4×32-10: integer
multiplication and exclusive or, exact everywhere. Eight neighbouring columns share one draw
of 128 bits; column j of row i looks at 16 bits of it:

    words = philox(key = seed, counter = i ceil(hidden / 8) + j div 8)
    u_ij = bits 16 (j mod 2) to 16 (j mod 2) + 15 of words[(j mod 8) div 2]
    keep_ij = u_ij >= t,   t = round(65536 p),   and p stands for t / 65536 from there on

so a mask depends on seed and position alone, not on blocks, warps or vendor. 16 bits for an
element halve the rounds that an element costs, and cut p to steps of 1.5e-5.

Work of one call, N = rows × hidden, s = bytes per element:
    fused    x and bias read, y written: (2 N + hidden) s. Nothing of the mask is in memory.
    unfused  + bias 2 N + hidden, gelu 2 N, × mask 2 N and 1 B an element, × 1 / (1 - p)
             2 N: (8 N + hidden) s + N. The unfused chain is given its mask; that drawing
             and writing it costs time, too, is left out, to its favour.
    flops    + bias, cube term 4, sigmoid 4, product, scale = 11 an element.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. The kernel is
bound by the rate of instructions: 26 an element, of which ten rounds of Philox are 6.

Sources:
    1. J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: Philox.
    2. D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", 2016,
       https://arxiv.org/abs/1606.08415
    3. PyTorch, torch.compile tutorials: the chain that Inductor fuses.
    4. Widths: 16384 × 8192; 4 × hidden of GPT-2 (3072, 6400) and BERT; 10007: no power of
       two, no multiple of eight.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_tensor, check_vector
from torch.nn import functional

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

GROUP = 8  # columns that share one Philox call
GROUPS_PER_WARP = 64  # 512 elements: 16 a thread on 32 lanes and 8 on 64, whole groups on both
ROWS = 4  # of a program, one after another: they share the bias and the keys of all rounds
PROBABILITY, SEED = 0.1, 0x5EED_0123_4567  # of the case; the seed needs more than 32 bits
ROUNDS = 10


@triton.jit
def _philox(low, high, seed, ROUNDS: tl.constexpr):
    """Four words of 32 bits for each counter, whose upper half is zero.

    ``tl.philox`` takes either half of a product by a multiplication of its own; here a product of
    64 bits gives both, by one instruction on either vendor.
    """
    c0, c1, c2, c3 = low, high, low * 0, low * 0
    seed = seed.to(tl.int64)  # one of fewer than 32 bits comes as such
    k0, k1 = (seed & 0xFFFFFFFF).to(tl.uint32), (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
        a = c0.to(tl.uint64) * 0xD2511F53
        b = c2.to(tl.uint64) * 0xCD9E8D57
        c0, c1 = (b >> 32).to(tl.uint32) ^ c1 ^ k0, b.to(tl.uint32)
        c2, c3 = (a >> 32).to(tl.uint32) ^ c3 ^ k1, a.to(tl.uint32)
        k0 = (k0 + 0x9E3779B9).to(tl.uint32)
        k1 = (k1 + 0xBB67AE85).to(tl.uint32)
    return c0, c1, c2, c3


@triton.jit(do_not_specialize=["seed", "threshold"])
def _bias_gelu_dropout(
    x_ptr, bias_ptr, y_ptr, x_stride, rows, hidden, groups, seed, threshold, scale,
    ROWS: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    within = column < hidden
    bias = tl.load(bias_ptr + column, mask=within, other=0.0).to(tl.float32)
    threshold = threshold.to(tl.uint32) << 16
    for step in tl.static_range(ROWS):
        row = tl.program_id(0).to(tl.int64) * ROWS + step
        mask = within & (row < rows)
        z = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32) + bias
        # sigmoid(2 c (z + a z³)) = 1 / (1 + 2^-(2 c log2(e) z (1 + a z²))), and 1 / v as the square of
        # rsqrt(v), which is in hardware: a division takes five instructions more.
        root = tl.rsqrt(1.0 + tl.exp2(z * (z * z * -0.10294324 - 2.3022082)))
        y = z * scale * (root * root)

        counter = row * groups + group
        low, high = (counter & 0xFFFFFFFF).to(tl.uint32), (counter >> 32).to(tl.uint32)
        w0, w1, w2, w3 = _philox(low, high, seed, ROUNDS)
        words = tl.join(tl.join(w0, w2), tl.join(w1, w3))  # axes: group, word div 2, word mod 2
        # The lower half moved up; the upper one in its place, where what lies below it decides nothing.
        u = tl.reshape(tl.join(words << 16, words), (GROUPS, GROUP))
        y = tl.where(u >= threshold, y, 0.0)
        tl.store(y_ptr + row * hidden + column, y.to(y_ptr.dtype.element_ty), mask=mask)


_bias_gelu_dropout_tuned = triton.autotune(
    configs=[triton.Config({"GROUPS": groups}, num_warps=w) for groups, w in ((128, 4), (256, 4), (256, 8), (512, 8))],
    key=["hidden"],
)(_bias_gelu_dropout)


def bias_gelu_dropout(
    x: torch.Tensor,
    bias: torch.Tensor,
    p: float,
    seed: int,
    *,
    num_warps: int = 8,
    tuned: bool = False,
) -> torch.Tensor:
    """dropout(gelu(x + bias)), with a mask that ``seed`` alone decides.

    Args:
        x: (…, hidden), last axis contiguous; float32, float16 or bfloat16.
        bias: (hidden,), of the dtype of ``x``.
        p: share that is dropped, 0 to below 1, in steps of 1 / 65536.
        seed: 0 to below 2^63.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and block by trial.

    Returns:
        A contiguous tensor of the shape and dtype of ``x``.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, or with gaps within rows; ``p``
            or ``seed`` out of range.
    """
    rows = as_rows("x", check_tensor("x", x))
    check_vector("bias", bias, "x", x, x.shape[-1])
    threshold = _threshold(p)
    if not isinstance(seed, int):
        raise TypeError(f"seed is a {type(seed).__name__}, not an int")
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed is {seed}; it must be 0 to below 2^63")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    count, hidden = rows.shape
    groups = triton.cdiv(hidden, GROUP)
    arguments = (rows, bias, y, rows.stride(0), count, hidden, groups, seed, threshold, _scale(threshold))
    constants = {"ROWS": ROWS, "GROUP": GROUP, "ROUNDS": ROUNDS}
    grid = lambda meta: (triton.cdiv(count, ROWS), triton.cdiv(groups, meta["GROUPS"]))  # noqa: E731
    if tuned:
        _bias_gelu_dropout_tuned[grid](*arguments, **constants)
    else:
        block = min(GROUPS_PER_WARP * num_warps, triton.next_power_of_2(groups))
        _bias_gelu_dropout[grid](*arguments, **constants, GROUPS=block, num_warps=num_warps)
    return y


def _threshold(p: float) -> int:
    threshold = round(p * 65536)
    if not 0 <= threshold < 65536:
        raise ValueError(f"p is {p}; it must be 0 to below 1")
    return threshold


def _scale(threshold: int) -> float:
    return 65536 / (65536 - threshold)


def keep_mask(rows: int, hidden: int, p: float, seed: int, device: torch.device | str) -> torch.Tensor:
    """The mask of the module's docstring, by 64-bit integers of PyTorch: exact on every device.

    Returns:
        (rows, hidden), bool, True where an element stays.
    """
    groups = triton.cdiv(hidden, GROUP)
    counter = torch.arange(rows * groups, dtype=torch.int64, device=device)
    words = torch.stack(philox(counter, seed), dim=-1).unsqueeze(-1)
    halves = torch.cat([words & 0xFFFF, words >> 16], dim=-1).view(rows, groups * GROUP)
    return (halves >= _threshold(p))[:, :hidden].contiguous()


def philox(counter: torch.Tensor, seed: int, rounds: int = ROUNDS) -> tuple[torch.Tensor, ...]:
    """Four words of 32 bits for each counter, as int64.

    A product of two words is below 2^64; int64 wraps, and its bits are those of the product.

    Args:
        counter: int64, at least 0; the upper half of the 128 bits is zero.
        seed: the key.
        rounds: of Philox 4×32.
    """
    word = 0xFFFFFFFF
    c0, c1 = counter & word, counter >> 32
    c2, c3 = torch.zeros_like(c0), torch.zeros_like(c0)
    k0, k1 = seed & word, seed >> 32
    for _ in range(rounds):
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32 & word) ^ c1 ^ k0, b & word, (a >> 32 & word) ^ c3 ^ k1, a & word
        k0, k1 = (k0 + 0x9E3779B9) & word, (k1 + 0xBB67AE85) & word
    return c0, c1, c2, c3


def fused(x, bias, keep, p, seed, *, num_warps: int = 8, tuned: bool = False) -> torch.Tensor:
    """The case's function: it draws the mask anew, and ``keep`` is for the unfused chain."""
    return bias_gelu_dropout(x, bias, p, seed, num_warps=num_warps, tuned=tuned)


def reference(x: torch.Tensor, bias: torch.Tensor, keep: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """The unfused chain, one kernel an operation, in the dtype of x, its mask drawn before."""
    return functional.gelu(x + bias, approximate="tanh") * keep * _scale(_threshold(p))


def inputs(make, shape, dtype):
    """Elements over the bend of GELU; the mask is the one that the kernel draws."""
    x = make.uniform(shape, dtype, low=-3.0, high=3.0)
    bias = make.uniform(shape[-1:], dtype)
    keep = keep_mask(*shape, PROBABILITY, SEED, make.device)
    return {"x": x, "bias": bias, "keep": keep, "p": PROBABILITY, "seed": SEED}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, hidden = shape
    n, size = rows * hidden, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(2 * n + hidden) * size,
        unfused_bytes=(8 * n + hidden) * size + n,
        flops=11 * n,
    )


case = KernelCase(
    name="bias_gelu_dropout",
    fused=fused,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((16384, 8192), (8192, 3072), (4096, 6400), (1, 8192), (4096, 10007)),
    small_shapes=((3, 8192), (5, 3072), (2, 10007)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w8": {"num_warps": 8},
        "w4": {"num_warps": 4},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    deterministic=True,
    row_inputs=("x", "keep"),
    strided_inputs=("x",),
    reduction_length=lambda shape: 1,
)
