"""Gate of a mixture of experts: softmax, the k largest, and their weights, in one kernel.

    p_ij = exp(x_ij) / sum_l exp(x_il);   e_i1 … e_ik the k largest of row i, largest first
    w_im = p_i,e_im / sum_n p_i,e_in  (renormalised),  or  p_i,e_im

Equal logits are taken in the order of their experts. The order is that of the logits as they
are, before any arithmetic, so the indices are exact. Renormalised, the softmax's own sum cancels:
the weights are a softmax over the chosen logits, and only those are exponentiated.

A key has both a logit's bits, put into the order of integers, and its expert, the lower the larger,
so no two are equal. 16-bit logits leave room for the expert in 32 bits; float32 takes keys of 64. Two
ways to the k largest:
    eights  for k of at most 8: ``LANES`` threads share a token; each sorts eight keys after eight by a
            network of 22 comparators and merges them into the eight largest that it knows; at the
            end the threads' are merged. Some 10 instructions a logit.
    picks   for more: the largest is found k times, by a reduction that gives value and index.

A shape is (tokens, experts, k). Work of one call, T tokens, E experts, s = bytes per element:
    fused    logits read, k weights (4 B) and k indices (4 B) written: T E s + 8 T k.
    unfused  in float32: convert T E (s + 4) unless s = 4; max 4 T E + 4 T, subtract
             8 T E + 4 T, exp 8 T E, sum 4 T E + 4 T, divide 8 T E + 4 T; sort: logits read, and
             values and int64 indices written, T E (2 s + 8); the k picked ones: gather
             16 T k, sum 4 T k + 4 T, divide 8 T k + 4 T, indices to int32 12 T k.
    flops    renormalised: subtract, exp, sum, divide = 4 T k; comparisons are none.

Speed on an H200 beside the goal of 92 % of the copy bandwidth: the table of ``scripts/suite_goals.py`` in
``reports/``. On 16384 tokens of 128 experts it has 13.7 %, 9.0 µs on events, and misses the goal by 78 points. No
kernel can reach it there: the 4.2 µs that events add to a kernel's time are more than three times what 5 MB take, and
leave 23 %. On the device trace it takes 4.7 µs: a read's latency and the networks after it. In trials, whose runs are
not kept, a copy of the same bytes took 2.4 there, and a launch of as many programs that do nothing 1. One or
four tokens a thread, 8 or 16 experts a thread and 2 or 4 warps are 2 to 25 % slower there. With many more tokens the
networks bound it: minima and maxima of integers go at half the rate of other instructions.

Sources:
    1. A. Q. Jiang et al., "Mixtral of Experts", 2024, https://arxiv.org/abs/2401.04088
    2. Experts and k: 8/2 Mixtral 8x7B, 64/8 OLMoE, 128/8 Qwen3 MoE, 160/6 DeepSeek V2 (no power
       of two), 32/4 gpt-oss 20B, 512/10 Qwen3-Next; 64 tokens: decoding.
    3. K. E. Batcher, "Sorting networks and their applications", AFIPS 1968: bitonic merges, and
       the eight largest of two sorted eights by one comparison each.
"""

import torch
import triton
import triton.language as tl
from arguments import as_rows, check_tensor
from tiles import warp_size

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

MAX_EXPERTS = 1024  # ten bits of a key
MAX_PICKS = 32
EIGHT = 8  # most picks of the first way
TOKENS_PER_THREAD = 2  # of the first way
PER_LANE = 32  # experts of a token that one thread holds, by eights
ELEMENTS_PER_WARP = 1024  # of picks: 32 a thread on 32 lanes and 16 on 64


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
def _keys(x, expert):
    """Integers in the order of logits and, of equal ones, against that of experts; of 64 bits for float32."""
    turned = 1023 - expert
    if x.dtype == tl.float32:
        return (_ordered(x).to(tl.int64) << 32) | turned.to(tl.int64)
    else:  # noqa: RET505 - Triton takes what follows a constant branch for code of both
        return (_ordered(x.to(tl.float32)) & -1024) | turned


@triton.jit
def _value(key):
    """The logit of a key."""
    if key.dtype == tl.int64:
        return _number((key >> 32).to(tl.int32), -1)
    else:  # noqa: RET505
        return _number(key, -1024)


@triton.jit
def _least(x_ptr):
    """Less than any key of these logits."""
    WIDE: tl.constexpr = x_ptr.dtype.element_ty == tl.float32
    return tl.full((), -9223372036854775808 if WIDE else -2147483648, tl.int64 if WIDE else tl.int32)


@triton.jit
def _store_picks(weight_ptr, expert_ptr, at, mask, chosen, exponential, total):
    tl.store(weight_ptr + at, exponential / total[:, None], mask=mask)
    tl.store(expert_ptr + at, 1023 - (chosen & 1023).to(tl.int32), mask=mask)


@triton.jit
def _gate_picks(
    x_ptr, weight_ptr, expert_ptr, x_stride, tokens, experts,
    PICKS: tl.constexpr, PICK_BLOCK: tl.constexpr, RENORMALIZE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)[None, :]
    there = (row < tokens - first)[:, None]
    within = lanes < experts
    row = (first + row)[:, None]
    x = tl.load(x_ptr + row * x_stride + lanes, mask=there & within, other=0.0)
    least = _least(x_ptr)
    rest = tl.where(within, _keys(x, lanes), least)
    slot = tl.arange(0, PICK_BLOCK)[None, :]
    chosen = tl.zeros((ROWS, PICK_BLOCK), dtype=rest.dtype)
    for pick in tl.static_range(PICKS):
        largest = tl.max(rest, axis=1)[:, None]
        rest = tl.where(rest == largest, least, rest)
        chosen = tl.where(slot == pick, largest, chosen)
    value = _value(chosen)
    top = tl.max(tl.where(slot == 0, value, -float("inf")), axis=1)[:, None]
    exponential = tl.where(slot < PICKS, tl.exp(value - top), 0.0)
    if RENORMALIZE:
        total = tl.sum(exponential, axis=1)
    else:
        total = tl.sum(tl.where(within, tl.exp(x.to(tl.float32) - top), 0.0), axis=1)
    _store_picks(weight_ptr, expert_ptr, row * PICKS + slot, there & (slot < PICKS), chosen, exponential, total)


@triton.jit
def _placed(a, b):
    """The larger of two first."""
    return tl.maximum(a, b), tl.minimum(a, b)


@triton.jit
def _four(a, b, c, d):
    """Four in descending order."""
    a, b = _placed(a, b)
    c, d = _placed(c, d)
    a, c = _placed(a, c)
    b, d = _placed(b, d)
    b, c = _placed(b, c)
    return a, b, c, d


@triton.jit
def _merged(a, b, c, d, e, f, g, h):
    """Eight in descending order, which first fall and then rise, or turned round: a bitonic merge."""
    a, e = _placed(a, e)
    b, f = _placed(b, f)
    c, g = _placed(c, g)
    d, h = _placed(d, h)
    a, c = _placed(a, c)
    b, d = _placed(b, d)
    e, g = _placed(e, g)
    f, h = _placed(f, h)
    a, b = _placed(a, b)
    c, d = _placed(c, d)
    e, f = _placed(e, f)
    g, h = _placed(g, h)
    return a, b, c, d, e, f, g, h


@triton.jit
def _sorted(a, b, c, d, e, f, g, h):
    """Eight in descending order: two fours, merged."""
    a, b, c, d = _four(a, b, c, d)
    e, f, g, h = _four(e, f, g, h)
    return _merged(a, b, c, d, h, g, f, e)


@triton.jit
def _best(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):  # noqa: E741 - sixteen keys
    """The eight largest of two descending eights, descending: the larger of opposite ones, merged."""
    a, b, c, d = tl.maximum(a, p), tl.maximum(b, o), tl.maximum(c, n), tl.maximum(d, m)
    e, f, g, h = tl.maximum(e, l), tl.maximum(f, k), tl.maximum(g, j), tl.maximum(h, i)
    return _merged(a, b, c, d, e, f, g, h)


@triton.jit
def _apart(x, ROWS: tl.constexpr, LANES: tl.constexpr):
    """(ROWS, LANES, 8) as eight of (ROWS, LANES), which stay in their thread's registers."""
    even, odd = tl.split(x.reshape(ROWS, LANES, 2, 2, 2))
    a_e, c_g = tl.split(even)
    b_f, d_h = tl.split(odd)
    a, e = tl.split(a_e)
    c, g = tl.split(c_g)
    b, f = tl.split(b_f)
    d, h = tl.split(d_h)
    return a, b, c, d, e, f, g, h


@triton.jit
def _together(a, b, c, d, e, f, g, h, ROWS: tl.constexpr):
    """Eight of (ROWS,) as (ROWS, 8)."""
    even = tl.join(tl.join(a, e), tl.join(c, g))
    odd = tl.join(tl.join(b, f), tl.join(d, h))
    return tl.join(even, odd).reshape(ROWS, 8)


@triton.jit
def _gate_eights(
    x_ptr, weight_ptr, expert_ptr, x_stride, tokens, EXPERTS: tl.constexpr, PICKS: tl.constexpr,
    RENORMALIZE: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * ROWS
    row = tl.arange(0, ROWS)
    there = row < tokens - first
    row = first + row
    slot = tl.arange(0, 8)[None, None, :]
    expert = tl.arange(0, LANES)[None, :, None] * 8 + slot
    STEP: tl.constexpr = LANES * 8
    STEPS: tl.constexpr = (EXPERTS + STEP - 1) // STEP
    x_row = x_ptr + row[:, None, None] * x_stride + expert
    # All that is read comes first, so that it is on its way together.
    held = ()
    for step in tl.static_range(STEPS):
        mask = there[:, None, None] & (expert < EXPERTS - step * STEP)
        held = held + (tl.load(x_row + step * STEP, mask=mask, other=0.0),)  # noqa: RUF005 - Triton unpacks no tuples
    for step in tl.static_range(STEPS):
        key = tl.where(expert < EXPERTS - step * STEP, _keys(held[step], expert + step * STEP), _least(x_ptr))
        i, j, k, l, m, n, o, p = _apart(key, ROWS, LANES)  # noqa: E741
        i, j, k, l, m, n, o, p = _sorted(i, j, k, l, m, n, o, p)  # noqa: E741
        if step == 0:
            a, b, c, d, e, f, g, h = i, j, k, l, m, n, o, p
        else:
            a, b, c, d, e, f, g, h = _best(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    a, b, c, d, e, f, g, h = tl.reduce((a, b, c, d, e, f, g, h), 1, _best)
    chosen = _together(a, b, c, d, e, f, g, h, ROWS)
    slot = tl.arange(0, 8)[None, :]
    value = _value(chosen)
    top = tl.max(tl.where(slot == 0, value, -float("inf")), axis=1)[:, None]
    exponential = tl.where(slot < PICKS, tl.exp(value - top), 0.0)
    if RENORMALIZE:
        total = tl.sum(exponential, axis=1)
    else:
        total = tl.zeros((ROWS,), dtype=tl.float32)
        for step in tl.static_range(STEPS):
            all_of = tl.exp(held[step].to(tl.float32) - top[:, None, :])
            total += tl.sum(tl.sum(tl.where(expert < EXPERTS - step * STEP, all_of, 0.0), axis=2), axis=1)
    mask = there[:, None] & (slot < PICKS)
    _store_picks(weight_ptr, expert_ptr, row[:, None] * PICKS + slot, mask, chosen, exponential, total)


_gate_picks_tuned = triton.autotune(
    configs=[triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((1, 1), (4, 1), (4, 4), (16, 4))],
    key=["experts", "PICKS"],
)(_gate_picks)
_gate_eights_tuned = triton.autotune(
    configs=[triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in ((8, 1), (16, 1), (64, 4), (128, 4))],
    key=["EXPERTS", "PICKS"],
)(_gate_eights)


def _lanes(experts: int) -> int:
    """Threads that share a token: at least one for 32 experts, so that a thread takes at most four eights."""
    return max(1, triton.next_power_of_2(experts) // PER_LANE)


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
    arguments = (rows, weights, chosen, rows.stride(0), tokens)
    constants = {"PICKS": k, "RENORMALIZE": renormalize}
    if k <= EIGHT:
        kernel = _gate_eights_tuned if tuned else _gate_eights
        lanes = _lanes(experts)
        constants |= {"EXPERTS": experts, "LANES": lanes}
        taken = max(1, TOKENS_PER_THREAD * warp_size(logits.device) * num_warps // lanes)
    else:
        kernel = _gate_picks_tuned if tuned else _gate_picks
        block = triton.next_power_of_2(experts)
        arguments += (experts,)
        constants |= {"PICK_BLOCK": triton.next_power_of_2(k), "BLOCK": block}
        taken = max(1, ELEMENTS_PER_WARP * num_warps // block)
    if not tuned:
        constants |= {"ROWS": taken, "num_warps": num_warps}
    kernel[lambda meta: (triton.cdiv(tokens, meta["ROWS"]),)](*arguments, **constants)
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
    shapes=(
        (16384, 128, 8),
        (16384, 8, 2),
        (16384, 64, 8),
        (16384, 160, 6),
        (16384, 32, 4),
        (16384, 512, 10),
        (64, 128, 8),
    ),
    small_shapes=((9, 128, 8), (70, 8, 2), (5, 160, 6), (30, 64, 8), (3, 512, 10)),
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
