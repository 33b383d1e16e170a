"""Gate of a mixture of experts: softmax, the k largest, and their weights, in one kernel.

    p_ij = exp(x_ij) / sum_l exp(x_il);   e_i1 … e_ik the k largest of row i, largest first
    w_im = p_i,e_im / sum_n p_i,e_in  (renormalised),  or  p_i,e_im

Equal logits are taken in the order of their experts. The order is that of the logits as they
are, before any arithmetic, so the indices are exact. Renormalised, the softmax's own sum cancels:
the weights are a softmax over the chosen logits, and only those are exponentiated.

A program takes ``ROWS`` tokens with all their experts in registers and picks the largest k times.
A key has both a logit's bits, put into the order of integers, and its expert, the lower the
larger, so no two are equal and one reduction gives value and index. 16-bit logits leave room for
the expert in 32 bits; float32 takes keys of 64.

A shape is (tokens, experts, k). Work of one call, T tokens, E experts, s = bytes per element:
    fused    logits read, k weights (4 B) and k indices (4 B) written: T E s + 8 T k.
    unfused  in float32: convert T E (s + 4) unless s = 4; max 4 T E + 4 T, subtract
             8 T E + 4 T, exp 8 T E, sum 4 T E + 4 T, divide 8 T E + 4 T; sort: logits read, and
             values and int64 indices written, T E (2 s + 8); the k picked ones: gather
             16 T k, sum 4 T k + 4 T, divide 8 T k + 4 T, indices to int32 12 T k.
    flops    renormalised: subtract, exp, sum, divide = 4 T k; comparisons are none.

Measured on an H200, bfloat16, 16384 tokens, 128 experts, k = 8 (torch 2.11, Triton 3.6): 11 µs, the
unfused chain 132 µs. That is 11 % of the copy bandwidth, short of 92 %, which no kernel can reach on
this shape: 5 MB take 1.2 µs, while a launch of as many programs that do nothing takes 5.6 µs on the
same clock. The rest are the picks' instructions, some 50 a logit: at 262144 tokens it is 24 %. Other
rows a program and warps give 11 to 12 µs, Triton's own bitonic ``topk`` 14.

Sources:
    1. A. Q. Jiang et al., "Mixtral of Experts", 2024, https://arxiv.org/abs/2401.04088
    2. Experts and k: 8/2 Mixtral 8x7B, 64/8 OLMoE, 128/8 Qwen3 MoE, 160/6 DeepSeek V2 (no power
       of two), 32/4 gpt-oss 20B; 64 tokens: decoding.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_tensor

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

MAX_EXPERTS = 1024  # ten bits of a key
MAX_PICKS = 32
ELEMENTS_PER_WARP = 1024  # 32 a thread on 32 lanes and 16 on 64


@triton.jit
def _ordered(x):
    """Integers in the order of the numbers, +0 and -0 alike."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _number(order, BITS: tl.constexpr):
    """The number of such an integer; ``BITS`` of its 32 are the number's, and the others zero."""
    return ((order ^ ((order >> 31) & 0x7FFFFFFF)) & BITS).to(tl.float32, bitcast=True)


@triton.jit
def _gate(
    x_ptr, weight_ptr, expert_ptr, x_stride, tokens, experts,
    PICKS: tl.constexpr, PICK_BLOCK: tl.constexpr, RENORMALIZE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    there = row < tokens - first
    within = (lanes < experts)[None, :]
    row = first + row
    x = tl.load(x_ptr + row[:, None] * x_stride + lanes[None, :], mask=there[:, None] & within, other=0.0)
    WIDE: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    LEAST: tl.constexpr = -9223372036854775808 if WIDE else -2147483648
    turned = (1023 - lanes)[None, :]  # the lower of two equal experts first
    if WIDE:  # noqa: SIM108 - of two types
        key = (_ordered(x).to(tl.int64) << 32) | turned.to(tl.int64)
    else:
        key = (_ordered(x.to(tl.float32)) & -1024) | turned
    rest = tl.where(within, key, LEAST)
    slot = tl.arange(0, PICK_BLOCK)[None, :]
    chosen = tl.zeros((ROWS, PICK_BLOCK), dtype=tl.int64 if WIDE else tl.int32)
    for pick in tl.static_range(PICKS):
        largest = tl.max(rest, axis=1)[:, None]
        rest = tl.where(rest == largest, LEAST, rest)
        chosen = tl.where(slot == pick, largest, chosen)
    value = _number((chosen >> 32).to(tl.int32), -1) if WIDE else _number(chosen, -1024)
    expert = 1023 - (chosen & 1023).to(tl.int32)
    top = tl.max(tl.where(slot == 0, value, -float("inf")), axis=1)[:, None]
    picked = slot < PICKS
    weight = tl.where(picked, tl.exp(value - top), 0.0)
    if RENORMALIZE:
        total = tl.sum(weight, axis=1)
    else:
        total = tl.sum(tl.where(within, tl.exp(x.to(tl.float32) - top), 0.0), axis=1)
    weight = weight / total[:, None]
    at = row[:, None] * PICKS + slot
    mask = there[:, None] & picked
    tl.store(weight_ptr + at, weight, mask=mask)
    tl.store(expert_ptr + at, expert, mask=mask)


_gate_tuned = triton.autotune(
    configs=[triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((1, 1), (4, 1), (4, 4), (16, 4))],
    key=["experts", "PICKS"],
)(_gate)


def fused_moe_gate(
    logits: torch.Tensor,
    k: int,
    renormalize: bool = True,
    *,
    num_warps: int = 4,
    tuned: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and indices of each token's k experts, largest first.

    Args:
        logits: (…, experts), last axis contiguous; float32, float16 or bfloat16. A row with a
            NaN has no meaning.
        k: experts of a token, 1 to 32.
        renormalize: whether the weights of a token sum to one.
        num_warps: warps (wavefronts) of a program.
        tuned: choose warps and tokens of a program by trial.

    Returns:
        ``(weights, experts)``, (…, k), float32 and int32.

    Raises:
        TypeError: ``logits`` is no tensor or of another dtype.
        ValueError: it has gaps within rows or too many experts, or ``k`` is out of range.
    """
    rows = as_rows("logits", check_tensor("logits", logits))
    tokens, experts = rows.shape
    if not 1 <= experts <= MAX_EXPERTS:
        raise ValueError(f"logits is of {experts} experts; there must be 1 to {MAX_EXPERTS}")
    if not 1 <= k <= min(experts, MAX_PICKS):
        raise ValueError(f"k is {k}; it must be 1 to {min(experts, MAX_PICKS)}")
    weights = torch.empty((*logits.shape[:-1], k), dtype=torch.float32, device=logits.device)
    chosen = torch.empty((*logits.shape[:-1], k), dtype=torch.int32, device=logits.device)
    if not tokens:
        return weights, chosen
    block = triton.next_power_of_2(experts)
    arguments = (rows, weights, chosen, rows.stride(0), tokens, experts)
    constants = {"PICKS": k, "PICK_BLOCK": triton.next_power_of_2(k), "RENORMALIZE": renormalize, "BLOCK": block}
    if tuned:
        _gate_tuned[lambda meta: (triton.cdiv(tokens, meta["ROWS"]),)](*arguments, **constants)
    else:
        taken = max(1, ELEMENTS_PER_WARP * num_warps // block)
        grid = (triton.cdiv(tokens, taken),)
        _gate[grid](*arguments, **constants, ROWS=taken, num_warps=num_warps)
    return weights, chosen


def reference(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The unfused chain, one kernel an operation, in float32 or wider; a stable sort finds the largest."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    exponential = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    p = exponential / exponential.sum(dim=-1, keepdim=True)
    _, order = torch.sort(logits, dim=-1, descending=True, stable=True)
    chosen = order[..., :k]
    weights = p.gather(-1, chosen)
    return weights / weights.sum(dim=-1, keepdim=True), chosen.to(torch.int32)


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    tokens, experts, k = shape
    n, size = tokens * experts, DTYPE_BYTES[dtype]
    converted = 0 if dtype == "float32" else n * (size + 4)
    return Work(
        fused_bytes=n * size + 8 * tokens * k,
        unfused_bytes=converted + 32 * n + 24 * tokens + n * (2 * size + 8) + 40 * tokens * k,
        flops=4 * tokens * k,
    )


case = KernelCase(
    name="fused_moe_gate",
    fused=fused_moe_gate,
    reference=reference,
    inputs=lambda make, shape, dtype: {"logits": make.uniform(shape[:2], dtype, low=-4.0, high=4.0), "k": shape[2]},
    work=work,
    shapes=((16384, 128, 8), (16384, 8, 2), (16384, 64, 8), (16384, 160, 6), (16384, 32, 4), (64, 128, 8)),
    small_shapes=((9, 128, 8), (70, 8, 2), (5, 160, 6), (30, 64, 8)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w4": {"num_warps": 4},
        "w1": {"num_warps": 1},
        "w8": {"num_warps": 8},
        "auto": {"tuned": True},
    },
    deterministic=True,
    row_inputs=("logits",),
    strided_inputs=("logits",),
    family_gaps={"nan": "a row with a NaN has no order"},
)
