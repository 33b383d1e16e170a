"""Sampling of the next token: temperature, top-k, top-p and the draw in one kernel, given uniform numbers.

For a row of logits x and a number u in [0, 1):
    K    the tokens of at least the k-th largest logit (equal ones stay together)
    p_j  = exp((x_j - max x) / T), j in K;   S their sum
    P    the tokens of K with less than ``top_p`` S in strictly larger ones; the largest always
    the draw is the first token, in the vocabulary's order, at which the running sum of p over P
    passes u times its total

So the result depends on values alone and not on how a sort breaks ties. No sort: a logit's bits,
put into the order of unsigned integers, are searched for both thresholds, two bits a step: of
three borders, how many logits (or how much mass) lie at or above each; 16-bit logits have 16 to
19 bits that differ. One program a row, in one of two ways:
    few     a single walk, in which every lane keeps the three largest of what it sees, with their
            chunks. Where no lane's third is among the ``top_k``, all of them are in the first two,
            which the searches and the draw then take from registers. With k = 50 and 4096 lanes
            one row in a thousand has three in a lane.
    walked  otherwise, and without ``top_k``: each step of a search walks over the row, which is in
            cache after the first.

Work of one call, N = rows × vocabulary, s = bytes per element:
    fused    logits and uniform numbers read, tokens written: N s + 8 rows.
    unfused  convert N (s + 4) unless s = 4; in float32 ÷ T 8 N; sort 16 N; compare and fill for
             K 10 N; softmax of five operations 32 N; sort again 16 N; running sum less its own
             term 20 N, compare 5 N, fill 9 N, smallest 4 N; compare and fill for P 14 N, running
             sum 8 N; compare and count 6 N, and 4 N in passing: 152 N and 80 rows B.
    flops    subtract, × 1 / T, exp, sum: 4 an element; what the search repeats is the
             implementation's.

Speed on an H200 beside the goal of 92 % of the copy bandwidth: the table of ``scripts/suite_goals.py`` in
``reports/``. It is missed by far: 64 rows use 64 of 132 units, and a row takes some fifty sums over all
lanes, one after another, in which no memory is read. Rows cut into parts of 4096 to 16384 logits, one
a program, whose k largest a second launch searches, took 45 to 117 µs where this takes 58: each
part has as many sums one after another.

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

ELEMENTS_PER_WARP = 512  # of a row taken at once: 16 a thread on 32 lanes and 8 on 64
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
def _number(key, SHIFT: tl.constexpr):
    """The number of a key."""
    flipped = key << SHIFT
    low: tl.constexpr = (1 << SHIFT) - 1
    bits = tl.where(flipped >= 2147483648, flipped ^ 2147483648, (flipped | low) ^ 4294967295)
    return bits.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)


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
def _mass(p1, p2, key1, key2, border):
    return tl.sum(tl.where(key1 >= border, p1, 0.0) + tl.where(key2 >= border, p2, 0.0), axis=0)


@triton.jit
def _three_largest(x_ptr, columns, steps, BITS: tl.constexpr, SHIFT: tl.constexpr, CHUNK: tl.constexpr):
    """Of each lane the three largest keys, above ten bits that say how many chunks come after its own."""
    lanes = tl.arange(0, CHUNK)
    first = tl.zeros((CHUNK,), dtype=tl.int64 if BITS > 21 else tl.int32)
    second = first
    third = first
    for step in range(steps):
        there = lanes < columns - step * CHUNK
        x = tl.load(x_ptr + step * CHUNK + lanes, mask=there, other=-float("inf")).to(tl.float32)
        place = (_key(x, SHIFT).to(first.dtype) << 10) | (steps - 1 - step)
        place = tl.where(there, place, 0)
        lower = tl.minimum(first, place)
        first = tl.maximum(first, place)
        lowest = tl.minimum(second, lower)
        second = tl.maximum(second, lower)
        third = tl.maximum(third, lowest)
    return first, second, third


@triton.jit
def _few(
    x_ptr, columns, u, top_k, top_p, inverse, BITS: tl.constexpr, SHIFT: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """The token, and whether the two largest of each lane hold all that are among the ``top_k``."""
    lanes = tl.arange(0, CHUNK)
    steps = tl.cdiv(columns, CHUNK)
    first, second, third = _three_largest(x_ptr, columns, steps, BITS, SHIFT, CHUNK)
    key1, key2 = (first >> 10).to(tl.uint32), (second >> 10).to(tl.uint32)
    chunk1 = steps - 1 - (first & 1023).to(tl.int32)
    chunk2 = steps - 1 - (second & 1023).to(tl.int32)

    border = tl.zeros((), dtype=tl.uint32)
    for digit in range(BITS // 2):
        step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
        # Three counts in one number: each of at most 2 CHUNK, in 20 bits.
        one = (key1 >= border + step).to(tl.int64) + (key2 >= border + step).to(tl.int64)
        two = (key1 >= border + step * 2).to(tl.int64) + (key2 >= border + step * 2).to(tl.int64)
        three = (key1 >= border + step * 3).to(tl.int64) + (key2 >= border + step * 3).to(tl.int64)
        counts = tl.sum(one + (two << 20) + (three << 40), axis=0)
        border += step * _passed(counts & 0xFFFFF, (counts >> 20) & 0xFFFFF, counts >> 40, top_k)
    exact = (tl.max(third, axis=0) >> 10).to(tl.uint32) < border

    top_key = tl.max(key1, axis=0)
    top = _number(top_key, SHIFT)
    p1 = tl.where(key1 >= border, tl.exp((_number(key1, SHIFT) - top) * inverse), 0.0)
    p2 = tl.where(key2 >= border, tl.exp((_number(key2, SHIFT) - top) * inverse), 0.0)
    if top_p < 1.0:
        wanted = tl.sum(p1 + p2, axis=0) * top_p
        nucleus = tl.zeros((), dtype=tl.uint32)
        for digit in range(BITS // 2):
            step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
            one = _mass(p1, p2, key1, key2, nucleus + step)
            two = _mass(p1, p2, key1, key2, nucleus + step * 2)
            three = _mass(p1, p2, key1, key2, nucleus + step * 3)
            nucleus += step * _passed(one, two, three, wanted)
        border = tl.maximum(border, tl.minimum(nucleus, top_key))

    in1, in2 = key1 >= border, key2 >= border
    p1, p2 = tl.where(in1, p1, 0.0), tl.where(in2, p2, 0.0)
    target = u * tl.sum(p1 + p2, axis=0)
    place1, place2 = chunk1 * CHUNK + lanes, chunk2 * CHUNK + lanes
    last = tl.max(tl.maximum(tl.where(in1, place1, 0), tl.where(in2, place2, 0)), axis=0)
    running = tl.zeros((), dtype=tl.float32)
    token = tl.full((), 2147483647, dtype=tl.int32)
    for step in range(steps):
        kept = tl.where(chunk1 == step, p1, tl.where(chunk2 == step, p2, 0.0))
        mass = tl.sum(kept, axis=0)
        if (running + mass > target) & (token == 2147483647):
            over = (kept > 0.0) & (running + tl.cumsum(kept, axis=0) > target)
            token = tl.min(tl.where(over, lanes + step * CHUNK, 2147483647), axis=0)
        running += mass
    return tl.minimum(token, last), exact


@triton.jit
def _sample(
    x_ptr, uniform_ptr, token_ptr, stride, columns, top_k, top_p, inverse, BITS: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    SHIFT: tl.constexpr = 32 - BITS
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    u = tl.load(uniform_ptr + row)
    token = tl.zeros((), dtype=tl.int32)
    found = False
    if (top_k < columns) & (columns <= CHUNK * 1024):
        token, found = _few(x_ptr, columns, u, top_k, top_p, inverse, BITS, SHIFT, CHUNK)
    if not found:
        token = _walked(x_ptr, columns, u, top_k, top_p, inverse, BITS, SHIFT, CHUNK)
    tl.store(token_ptr + row, token)


_sample_tuned = triton.autotune(
    configs=[triton.Config({"CHUNK": ELEMENTS_PER_WARP * warps}, num_warps=warps) for warps in (4, 8, 16)],
    key=["columns"],
)(_sample)


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
    arguments = (logits, uniform, tokens, logits.stride(0), columns, top_k or columns, float(top_p), 1.0 / temperature)
    if tuned:
        _sample_tuned[(rows,)](*arguments, BITS=BITS[logits.dtype])
    else:
        chunk = min(ELEMENTS_PER_WARP * num_warps, triton.next_power_of_2(columns))
        _sample[(rows,)](*arguments, BITS=BITS[logits.dtype], CHUNK=chunk, num_warps=num_warps)
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
