"""Sampling of the next token: temperature, top-k, top-p and the draw in one kernel, given uniform numbers.

For a row of logits x and a number u in [0, 1):
    K    the tokens of at least the k-th largest logit (equal ones stay together)
    p_j  = exp((x_j - max x) / T), j in K;   S their sum
    P    the tokens of K with less than ``top_p`` S in strictly larger ones; the largest always
    the draw is the first token, in the vocabulary's order, at which the running sum of p over P
    passes u times its total

So the result depends on values alone and not on how a sort breaks ties. One launch, a program a row. No sort: a
logit's bits, put into the order of unsigned integers, are searched for a border, two bits a step. Two ways:
    few     for ``top_k`` of up to 128. A lane has every ``LANES``-th logit of the row, and keeps the largest. The
            ``top_k``-th of these is at most the ``top_k``-th logit, so that lanes whose largest is below it have none
            of the ``top_k``. The numbers of the others, hardly more than ``top_k`` unless there are ties, go into
            slots, and their logits are read again, in the order of the tokens. These alone are searched for the
            ``top_k``-th logit and for the border of ``top_p``, and drawn from.
    walked  otherwise, and where the slots, twice ``top_k``, are too few: each step of a search walks over the row,
            which is in cache after the first: of three borders, how many logits (or how much mass) lie at or above
            each.

Work of one call, N = rows × vocabulary, s = bytes per element:
    fused    logits and uniform numbers read, tokens written: N s + 8 rows.
    unfused  convert N (s + 4) unless s = 4; in float32 ÷ T 8 N; sort 16 N; compare and fill for
             K 10 N; softmax of five operations 32 N; sort again 16 N; running sum less its own
             term 20 N, compare 5 N, fill 9 N, smallest 4 N; compare and fill for P 14 N, running
             sum 8 N; compare and count 6 N, and 4 N in passing: 152 N and 80 rows B.
    flops    subtract, × 1 / T, exp, sum: 4 an element; what the search repeats is the
             implementation's.

Speed on an H200 beside the goal of 92 % of the copy bandwidth: the table of ``scripts/suite_goals.py`` in
``reports/``. 64 rows of 128,256 have 19.2 %, 20.3 µs on events and 15.9 on the device trace, and miss the goal by 73
points. They must miss it: the 4.4 µs that events add to a kernel's time are more than their bytes take, and leave
47 %. The rest is latency: one program a row, on 64 of 132 units, and one sum over all lanes after another. What
follows is of trials, whose runs are not kept. Searches that go no further than from the least to the
largest of their numbers, and a draw by running sums, took 10 µs off; more warps make each sum slower, and fewer the
first walk: 16 are ahead of 8 from some 150,000 tokens on. Tried and slower: maxima of groups from all units and a
second launch for the picks (33 µs where this takes 20); four bits a step; pairs of all candidates compared; the draw
by a search among the tokens' numbers. torch.compile has no time beside it: PyTorch 2.11's Inductor raises ("list
indices must be integers …") where it writes the last running sum, split over programs, of what a value of its whole
row masks.

Sources:
    1. A. Holtzman et al., "The Curious Case of Neural Text Degeneration", ICLR 2020: top-p.
    2. FlashInfer, "Sorting-free GPU kernels for LLM sampling", 2025: thresholds by search.
    3. Vocabularies: 32000 Llama 2, 50257 GPT-2 (rows are not aligned), 128256 Llama 3, 151936 Qwen2.5;
       1 to 256 sequences: decoding.
"""

import torch
import triton
import triton.language as tl
from arguments import check_axes, check_beside, check_contiguous, check_shape, check_tensor, check_unit_stride

from portkit import Discrete, KernelCase, Work
from portkit.model import DTYPE_BYTES

ELEMENTS_PER_WARP = 512  # of a row walked over at once: 16 a thread on 32 lanes and 8 on 64
MOST_PICKS = 128  # of the first way
MOST_COLUMNS = 1 << 19  # likewise
LANES_PER_WARP = 256  # at least, where columns suffice: 8 a thread on 32 lanes
MOST_STEPS = 16  # logits of a lane
MOST_AHEAD = 4  # logits of a lane that are on their way at once
MOST_FOLD = 8  # neighbouring lanes whose largest is one number in the first search
LEAST_SLOTS = 64
BITS = {torch.bfloat16: 16, torch.float16: 20, torch.float32: 32}
"""Upper bits of a float32 in which two numbers of a dtype differ, to an even number."""


@triton.jit
def _key(x, SHIFT: tl.constexpr):
    """Unsigned integers in the order of the numbers; +0 is over -0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, ~bits, bits ^ -2147483648)
    return flipped.to(tl.uint32, bitcast=True) >> SHIFT


@triton.jit
def _at_least(x_ptr, columns, border, step, top, inverse, MASS: tl.constexpr, SHIFT: tl.constexpr, CHUNK: tl.constexpr):
    """For border + 1, 2 and 3 steps: how many logits are there or above, or their mass."""
    lanes = tl.arange(0, CHUNK)
    one = tl.zeros((CHUNK,), dtype=tl.float32)
    two = tl.zeros((CHUNK,), dtype=tl.float32)
    three = tl.zeros((CHUNK,), dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        mask = lanes < columns - start
        x = tl.load(x_ptr + start + lanes, mask=mask, other=-float("inf")).to(tl.float32)
        key = _key(x, SHIFT)
        weight = tl.exp((x - top) * inverse) if MASS else tl.where(mask, 1.0, 0.0)
        one += tl.where(key >= border + step, weight, 0.0)
        two += tl.where(key >= border + step * 2, weight, 0.0)
        three += tl.where(key >= border + step * 3, weight, 0.0)
    return tl.sum(one, axis=0), tl.sum(two, axis=0), tl.sum(three, axis=0)


@triton.jit
def _passed(one, two, three, wanted):
    """How many of three borders, each above the last, have what is wanted at or above them."""
    return (one >= wanted).to(tl.uint32) + (two >= wanted).to(tl.uint32) + (three >= wanted).to(tl.uint32)


@triton.jit
def _walked(
    x_ptr, columns, u, top_k, top_p, inverse, BITS: tl.constexpr, SHIFT: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    lanes = tl.arange(0, CHUNK)
    largest = tl.full((CHUNK,), -float("inf"), dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        mask = lanes < columns - start
        largest = tl.maximum(largest, tl.load(x_ptr + start + lanes, mask=mask, other=-float("inf")).to(tl.float32))
    top = tl.max(largest, axis=0)

    border = tl.zeros((), dtype=tl.uint32)
    if top_k < columns:
        wanted = top_k.to(tl.float32)
        for digit in range(BITS // 2):
            step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
            one, two, three = _at_least(x_ptr, columns, border, step, top, inverse, False, SHIFT, CHUNK)
            border += step * _passed(one, two, three, wanted)
    if top_p < 1.0:
        kept = tl.zeros((CHUNK,), dtype=tl.float32)
        for start in range(0, columns, CHUNK):
            x = tl.load(x_ptr + start + lanes, mask=lanes < columns - start, other=-float("inf")).to(tl.float32)
            kept += tl.where(_key(x, SHIFT) >= border, tl.exp((x - top) * inverse), 0.0)
        wanted = tl.sum(kept, axis=0) * top_p
        border = tl.zeros((), dtype=tl.uint32)
        for digit in range(BITS // 2):
            step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
            one, two, three = _at_least(x_ptr, columns, border, step, top, inverse, True, SHIFT, CHUNK)
            border += step * _passed(one, two, three, wanted)
        border = tl.minimum(border, _key(top, SHIFT))

    total = tl.zeros((), dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        x = tl.load(x_ptr + start + lanes, mask=lanes < columns - start, other=-float("inf")).to(tl.float32)
        kept = tl.where((_key(x, SHIFT) >= border) & (lanes < columns - start), tl.exp((x - top) * inverse), 0.0)
        total += tl.sum(kept, axis=0)
    target = u * total
    running = tl.zeros((), dtype=tl.float32)
    token = tl.full((), 2147483647, dtype=tl.int32)
    last = tl.zeros((), dtype=tl.int32)
    for start in range(0, columns, CHUNK):
        x = tl.load(x_ptr + start + lanes, mask=lanes < columns - start, other=-float("inf")).to(tl.float32)
        inside = (_key(x, SHIFT) >= border) & (lanes < columns - start)
        kept = tl.where(inside, tl.exp((x - top) * inverse), 0.0)
        mass = tl.sum(kept, axis=0)
        if (running + mass > target) & (token == 2147483647):
            over = inside & (running + tl.cumsum(kept, axis=0) > target)
            token = tl.min(tl.where(over, lanes + start, 2147483647), axis=0)
        last = tl.maximum(last, tl.max(tl.where(inside, lanes + start, 0), axis=0))
        running += mass
    # Rounding may leave the whole sum below the target: then it is the last token of the set.
    return tl.minimum(token, last)


@triton.jit
def _border(key, weight, wanted, low, high):
    """The largest border up to ``high`` at or above which the keys have what is wanted, as from ``low`` on they have.

    Two bits a step, and no more steps than the way from ``low`` to ``high`` takes.
    """
    above = tl.where(key >= low, key - low, 0)
    exponent = (high - low).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    digits = tl.maximum(exponent - 125, 0) // 2
    border = tl.zeros((), dtype=tl.uint32)
    for digit in range(digits):
        step = tl.full((), 1, dtype=tl.uint32) << (2 * (digits - 1 - digit)).to(tl.uint32)
        one, two, three = tl.reduce(
            (
                tl.where(above >= border + step, weight, 0.0),
                tl.where(above >= border + step * 2, weight, 0.0),
                tl.where(above >= border + step * 3, weight, 0.0),
            ),
            0,
            _three_sums,
        )
        border += step * _passed(one, two, three, wanted)
    return low + border


@triton.jit
def _three_sums(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def _lane_maxima(x_ptr, columns, LANES: tl.constexpr, AHEAD: tl.constexpr):
    """The largest of every ``LANES``-th logit; ``AHEAD`` of a lane are on their way at once."""
    at = tl.arange(0, AHEAD)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    largest = tl.full((LANES,), -float("inf"), dtype=tl.float32)
    for start in range(0, columns, AHEAD * LANES):
        x = tl.load(x_ptr + start + at, mask=at < columns - start, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(x.to(tl.float32), axis=0))
    return largest


@triton.jit
def _few(
    x_ptr, slots_ptr, columns, u, top_k, top_p, inverse, SHIFT: tl.constexpr, LANES: tl.constexpr, AHEAD: tl.constexpr,
    FOLD: tl.constexpr, SLOTS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The token, and whether the slots held all lanes that have one of the ``top_k``."""
    lane = tl.arange(0, LANES)
    largest = _lane_maxima(x_ptr, columns, LANES, AHEAD)
    folded = tl.max(largest.reshape(LANES // FOLD, FOLD), axis=1)
    top, bottom = tl.max(folded, axis=0), tl.min(folded, axis=0)
    high, wanted = _key(top, SHIFT), top_k.to(tl.float32)
    low = _border(_key(folded, SHIFT), tl.full(folded.shape, 1.0, tl.float32), wanted, _key(bottom, SHIFT), high)
    live = (_key(largest, SHIFT) >= low).to(tl.int32)
    place = tl.cumsum(live, axis=0) - live
    tl.store(slots_ptr + place, lane, mask=(live > 0) & (place < SLOTS))
    found = tl.sum(live, axis=0)
    tl.debug_barrier()  # the slots are read by other threads than wrote them

    # Lanes ascend, so that tokens do.
    slot = tl.arange(0, SLOTS)
    held = tl.load(slots_ptr + slot, mask=slot < found, other=columns)
    token = (tl.arange(0, STEPS)[:, None] * LANES + held[None, :]).reshape(STEPS * SLOTS)
    there = token < columns
    x = tl.load(x_ptr + token, mask=there, other=-float("inf")).to(tl.float32)
    key = tl.where(there, _key(x, SHIFT), 0)
    border = _border(key, tl.where(there, 1.0, 0.0), wanted, low, high)
    p = tl.where(there & (key >= border), tl.exp((x - top) * inverse), 0.0)
    if top_p < 1.0:
        border = _border(key, p, tl.sum(p, axis=0) * top_p, border, high)
        p = tl.where(key >= border, p, 0.0)
    over = tl.cumsum(p, axis=0) > u * tl.sum(p, axis=0)
    first = tl.min(tl.where(over, token, 2147483647), axis=0)
    # Rounding may leave the whole sum below the target: then it is the last token of the set.
    last = tl.max(tl.where(p > 0.0, token, 0), axis=0)
    return tl.minimum(first, last), found <= SLOTS


@triton.jit
def _sample(
    x_ptr, slots_ptr, uniform_ptr, token_ptr, stride, columns, top_k, top_p, inverse,
    BITS: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr, AHEAD: tl.constexpr, FOLD: tl.constexpr,
    SLOTS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    SHIFT: tl.constexpr = 32 - BITS
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    u = tl.load(uniform_ptr + row)
    token = tl.zeros((), dtype=tl.int32)
    found = False
    if SLOTS > 0:
        slots_ptr += row * SLOTS
        token, found = _few(
            x_ptr, slots_ptr, columns, u, top_k, top_p, inverse, SHIFT, LANES, AHEAD, FOLD, SLOTS, STEPS
        )
    if not found:
        token = _walked(x_ptr, columns, u, top_k, top_p, inverse, BITS, SHIFT, CHUNK)
    tl.store(token_ptr + row, token)


_sample_tuned = triton.autotune(
    configs=[triton.Config({"CHUNK": ELEMENTS_PER_WARP * warps}, num_warps=warps) for warps in (4, 8, 16)],
    key=["columns", "LANES"],
)(_sample)


def _first_way(columns: int, top_k: int, num_warps: int) -> dict[str, int]:
    """Constants of the first way; zeros: walk."""
    if not 0 < top_k <= MOST_PICKS or columns > MOST_COLUMNS:
        return dict.fromkeys(("LANES", "AHEAD", "FOLD", "SLOTS", "STEPS"), 0)
    lanes = max(LANES_PER_WARP * num_warps, triton.next_power_of_2(triton.cdiv(columns, MOST_STEPS)))
    lanes = min(lanes, triton.next_power_of_2(columns))
    steps = triton.next_power_of_2(triton.cdiv(columns, lanes))
    return {
        "LANES": lanes,
        "AHEAD": min(steps, MOST_AHEAD),
        # Folded, lanes are still at least four times as many as picks, so that hardly more than these are live.
        "FOLD": min(MOST_FOLD, 1 << max(1, lanes // (4 * top_k)).bit_length() >> 1),
        "SLOTS": max(LEAST_SLOTS, triton.next_power_of_2(2 * top_k)),
        "STEPS": steps,
    }


def sampling(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    *,
    num_warps: int = 8,
    tuned: bool = False,
) -> torch.Tensor:
    """One token for each row.

    Args:
        logits: (rows, vocabulary), last axis contiguous; float32, float16 or bfloat16. A
            token of -inf is never drawn; a row with a NaN or +inf has no meaning.
        uniform: (rows,), float32, contiguous, in [0, 1).
        temperature: over 0.
        top_k: tokens that stay, 0 for all.
        top_p: share of the mass that stays, over 0 to 1.
        num_warps: warps (wavefronts) of a program.
        tuned: choose them by trial.

    Returns:
        (rows,), int32.

    Raises:
        TypeError: an argument of another type or dtype.
        ValueError: an argument of another shape or device, or with gaps; a number out of its
            range; no vocabulary.
    """
    check_tensor("logits", logits)
    check_axes("logits", logits, 2, 2)
    check_unit_stride("logits", logits)
    rows, columns = logits.shape
    check_tensor("uniform", uniform, (torch.float32,))
    check_shape("uniform", uniform, (rows,))
    check_beside("uniform", uniform, "logits", logits)
    check_contiguous("uniform", uniform)
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be over 0")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; it must be over 0 and at most 1")
    if top_k < 0:
        raise ValueError(f"top_k is {top_k}; it must be at least 0")
    if not columns:
        raise ValueError("logits has no columns to draw from")
    tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
    if not rows:
        return tokens
    constants = _first_way(columns, top_k, num_warps)
    slots = torch.empty((rows, constants["SLOTS"]), dtype=torch.int32, device=logits.device)
    arguments = (logits, slots, uniform, tokens, logits.stride(0), columns)
    arguments += (top_k or columns, float(top_p), 1.0 / temperature)
    constants["BITS"] = BITS[logits.dtype]
    if tuned:
        _sample_tuned[(rows,)](*arguments, **constants)
    else:
        chunk = min(ELEMENTS_PER_WARP * num_warps, triton.next_power_of_2(columns))
        _sample[(rows,)](*arguments, **constants, CHUNK=chunk, num_warps=num_warps)
    return tokens


def reference(logits: torch.Tensor, uniform: torch.Tensor, temperature: float, top_k: int, top_p: float):
    """The unfused chain, one kernel an operation, in float32 or wider."""
    sums = _running_sums(logits, temperature, top_k, top_p)
    target = uniform.unsqueeze(1) * sums[:, -1:]
    # Past the end of the last row's mass, the last token that has some.
    target = torch.minimum(target, torch.nextafter(sums[:, -1:], torch.zeros_like(target)))
    return (sums <= target).sum(dim=-1, dtype=torch.int32)


def _running_sums(logits: torch.Tensor, temperature: float, top_k: int, top_p: float) -> torch.Tensor:
    z = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    smallest = torch.sort(z, dim=-1, descending=True).values[:, top_k - 1 : top_k]
    z = z.masked_fill(z < smallest, -float("inf"))
    exponential = torch.exp(z - z.amax(dim=-1, keepdim=True))
    p = exponential / exponential.sum(dim=-1, keepdim=True)
    ranked = torch.sort(p, dim=-1, descending=True).values
    beyond = (ranked.cumsum(dim=-1) - ranked) >= top_p
    smallest = ranked.masked_fill(beyond, float("inf")).amin(dim=-1, keepdim=True)
    return p.masked_fill(p < smallest, 0.0).cumsum(dim=-1)


def margin(logits: torch.Tensor, uniform: torch.Tensor, temperature: float, top_k: int, top_p: float) -> torch.Tensor:
    """Distance of the draw from a token's border, or of the mass from ``top_p``, as a share of the mass."""
    sums = _running_sums(logits, temperature, top_k, top_p)
    border = ((sums - uniform.unsqueeze(1) * sums[:, -1:]).abs() / sums[:, -1:]).amin(dim=-1)
    z = torch.sort(logits / temperature, dim=-1, descending=True).values
    p = torch.exp(z[:, :1] * 0 + z - z[:, :1]).masked_fill(z < z[:, top_k - 1 : top_k], 0.0)
    mass = p.cumsum(dim=-1) / p.sum(dim=-1, keepdim=True)
    return torch.minimum(border, (mass - top_p).abs().amin(dim=-1))


def inputs(make, shape, dtype):
    """Logits with a thin upper end, as a model's are: the ninth power of uniform numbers."""
    u = make.uniform(shape, "float64")
    cube = u * u * u
    logits = cube * cube * cube * 16
    return {
        "logits": logits.to(torch.float32).to(getattr(torch, dtype)),
        "uniform": make.uniform(shape[:1], "float32", low=0.0),
        "temperature": 0.75,
        "top_k": 50,
        "top_p": 0.9,
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    rows, columns = shape
    n, size = rows * columns, DTYPE_BYTES[dtype]
    converted = 0 if dtype == "float32" else n * (size + 4)
    return Work(
        fused_bytes=n * size + 8 * rows,
        unfused_bytes=converted + 152 * n + 80 * rows,
        flops=4 * n,
    )


case = KernelCase(
    name="sampling",
    fused=sampling,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((64, 128256), (256, 32000), (64, 151936), (64, 50257), (1, 128256)),
    small_shapes=((2, 12000), (3, 1000)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "w8": {"num_warps": 8},
        "w4": {"num_warps": 4},
        "w16": {"num_warps": 16},
        "auto": {"tuned": True},
    },
    deterministic=True,
    row_inputs=("logits", "uniform"),
    strided_inputs=("logits",),
    discrete={0: Discrete(margin, step=None)},
    family_gaps={
        "nan": "a row with a NaN has no order",
        "inf": "a row with +Inf has no softmax",
    },
)
