"""Sampling of the next token: temperature, top-k, top-p and the draw in one kernel, given uniform numbers.

For a row of logits x and a number u in [0, 1):
    K    the tokens of at least the k-th largest logit (equal ones stay together)
    p_j  = exp((x_j - max x) / T), j in K;   S their sum
    P    the tokens of K with less than ``top_p`` S in strictly larger ones; the largest always
    the draw is the first token, in the vocabulary's order, at which the running sum of p over P
    passes u times its total

So the result depends on values alone and not on how a sort breaks ties. No sort: a logit's bits,
put into the order of unsigned integers, are searched for thresholds, two bits a step: of three
borders, how many logits (or how much mass) lie at or above each; 16-bit logits have 16 to 20 bits
that differ. One of two ways, chosen by ``top_k``:
    parts   a row is cut into parts, one a program, so that a few rows fill the device. A program
            takes the largest of each of its threads' eights; the k-th largest of those is no larger
            than the k-th largest logit of the part, so that what is below is none of the row's k.
            What is left, little more than k a part, goes to memory in the vocabulary's order, and a
            second launch of one program a row searches for both thresholds there, and draws. Where a
            part leaves more than it has room for (logits that are all alike), that row is walked.
    walked  without ``top_k``, or with a large one: one program a row, and each step of a search walks
            over the row, which is in cache after the first.

Work of one call, N = rows × vocabulary, s = bytes per element:
    fused    logits and uniform numbers read, tokens written: N s + 8 rows.
    unfused  convert N (s + 4) unless s = 4; in float32 ÷ T 8 N; sort 16 N; compare and fill for
             K 10 N; softmax of five operations 32 N; sort again 16 N; running sum less its own
             term 20 N, compare 5 N, fill 9 N, smallest 4 N; compare and fill for P 14 N, running
             sum 8 N; compare and count 6 N, and 4 N in passing: 152 N and 80 rows B.
    flops    subtract, × 1 / T, exp, sum: 4 an element; what the search repeats is the
             implementation's.

Speed on an H200 beside the goal of 92 % of the copy bandwidth: the table of ``scripts/suite_goals.py`` in
``reports/``. On 64 rows of 128256 no kernel reaches it: 16 MB take 4 µs, as long as a launch that does
nothing, and each search is eight sums over all threads of a program, one after another.

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

ELEMENTS_PER_WARP = 512  # of a part, or of a row taken at once: 16 a thread on 32 lanes and 8 on 64
GROUP = 8  # neighbouring logits that one thread holds
SPARE = 8  # room of a part beyond k: of k logits few share an eight
MOST_LEFT = 4096  # of what a row's parts leave
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
def _sample_walked(
    x_ptr, uniform_ptr, token_ptr, stride, columns, top_k, top_p, inverse, BITS: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    u = tl.load(uniform_ptr + row)
    token = _walked(x_ptr + row * stride, columns, u, top_k, top_p, inverse, BITS, 32 - BITS, CHUNK)
    tl.store(token_ptr + row, token)


@triton.jit
def _kth(key, wanted, BITS: tl.constexpr):
    """The largest border that at least so many of these keys reach."""
    border = tl.zeros((), dtype=tl.uint32)
    for digit in range(BITS // 2):
        step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
        one = (key >= border + step).to(tl.int64)
        two = (key >= border + step * 2).to(tl.int64)
        three = (key >= border + step * 3).to(tl.int64)
        counts = tl.sum(one + (two << 20) + (three << 40), axis=0)  # three counts of 20 bits in one number
        border += step * _passed(counts & 0xFFFFF, (counts >> 20) & 0xFFFFF, counts >> 40, wanted)
    return border


@triton.jit
def _leave_largest(
    x_ptr, key_ptr, place_ptr, count_ptr, stride, columns, length, top_k,
    BITS: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """Keys and places of a part that may be among the row's ``top_k``, in order, and how many they are."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.arange(0, GROUPS)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    there = (at < length) & (at < columns - part * length)
    at += part * length
    x = tl.load(x_ptr + row * stride + at, mask=there, other=-float("inf")).to(tl.float32)
    key = tl.where(there, _key(x, 32 - BITS), 0)
    chosen = there & (key >= _kth(tl.max(key, axis=1), top_k, BITS))
    of_group = tl.sum(chosen.to(tl.int32), axis=1)
    before = tl.cumsum(of_group, axis=0) - of_group
    slot = before[:, None] + tl.cumsum(chosen.to(tl.int32), axis=1) - 1
    part = row * tl.num_programs(1) + part
    kept = chosen & (slot < ROOM)
    tl.store(key_ptr + part * ROOM + slot, key.to(tl.int32, bitcast=True), mask=kept)
    tl.store(place_ptr + part * ROOM + slot, at, mask=kept)
    tl.store(count_ptr + part, tl.sum(of_group, axis=0))


@triton.jit
def _added(one, two, three, more_one, more_two, more_three):
    return one + more_one, two + more_two, three + more_three


@triton.jit
def _nucleus(key, p, wanted, BITS: tl.constexpr):
    """The largest border with at least so much mass at or above it."""
    border = tl.zeros((), dtype=tl.uint32)
    for digit in range(BITS // 2):
        step = tl.full((), 1, dtype=tl.uint32) << (BITS - 2 - 2 * digit)
        one = tl.where(key >= border + step, p, 0.0)
        two = tl.where(key >= border + step * 2, p, 0.0)
        three = tl.where(key >= border + step * 3, p, 0.0)
        one, two, three = tl.reduce((one, two, three), 0, _added)
        border += step * _passed(one, two, three, wanted)
    return border


@triton.jit
def _drawn(there, key, place, u, top_k, top_p, inverse, BITS: tl.constexpr):
    """The token, of keys in the vocabulary's order that hold the row's ``top_k``."""
    border = _kth(key, top_k, BITS)
    top_key = tl.max(key, axis=0)
    top = _number(top_key, 32 - BITS)
    p = tl.where(there & (key >= border), tl.exp((_number(key, 32 - BITS) - top) * inverse), 0.0)
    if top_p < 1.0:
        nucleus = _nucleus(key, p, tl.sum(p, axis=0) * top_p, BITS)
        border = tl.maximum(border, tl.minimum(nucleus, top_key))
    inside = there & (key >= border)
    sums = tl.cumsum(tl.where(inside, p, 0.0), axis=0)
    passed = inside & (sums > u * tl.max(sums, axis=0))
    token = tl.min(tl.where(passed, place, 2147483647), axis=0)
    return tl.minimum(token, tl.max(tl.where(inside, place, 0), axis=0))


@triton.jit
def _sample_parts(
    x_ptr, uniform_ptr, key_ptr, place_ptr, count_ptr, token_ptr, stride, columns, top_k, top_p, inverse,
    BITS: tl.constexpr, PARTS: tl.constexpr, PARTS_BLOCK: tl.constexpr, ROOM: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    u = tl.load(uniform_ptr + row)
    lane = tl.arange(0, PARTS_BLOCK * ROOM)
    count = tl.load(count_ptr + row * PARTS + lane // ROOM, mask=lane // ROOM < PARTS, other=0)
    if tl.max(count, axis=0) > ROOM:
        token = _walked(x_ptr + row * stride, columns, u, top_k, top_p, inverse, BITS, 32 - BITS, CHUNK)
    else:
        there = lane % ROOM < count
        at = row * (PARTS * ROOM) + lane
        key = tl.load(key_ptr + at, mask=there, other=0).to(tl.uint32, bitcast=True)
        place = tl.load(place_ptr + at, mask=there, other=0)
        token = _drawn(there, key, place, u, top_k, top_p, inverse, BITS)
    tl.store(token_ptr + row, token)


_WARPS = [triton.Config({}, num_warps=warps) for warps in (4, 8, 16)]
_sample_walked_tuned = triton.autotune(
    configs=[triton.Config({"CHUNK": ELEMENTS_PER_WARP * warps}, num_warps=warps) for warps in (4, 8, 16)],
    key=["columns"],
)(_sample_walked)
_leave_largest_tuned = triton.autotune(configs=_WARPS, key=["columns"])(_leave_largest)
_sample_parts_tuned = triton.autotune(configs=_WARPS, key=["columns"])(_sample_parts)


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
    limits = (top_k or columns, float(top_p), 1.0 / temperature)
    parts = triton.cdiv(columns, ELEMENTS_PER_WARP * num_warps)
    room = triton.next_power_of_2(top_k + SPARE)
    if 0 < top_k < columns and triton.next_power_of_2(parts) * room <= MOST_LEFT:
        _by_parts(logits, uniform, tokens, limits, parts, room, num_warps, tuned)
    else:
        _by_rows(logits, uniform, tokens, limits, num_warps, tuned)
    return tokens


def _by_rows(logits, uniform, tokens, limits, num_warps, tuned) -> None:
    rows, columns = logits.shape
    arguments = (logits, uniform, tokens, logits.stride(0), columns, *limits)
    if tuned:
        _sample_walked_tuned[(rows,)](*arguments, BITS=BITS[logits.dtype])
    else:
        chunk = min(ELEMENTS_PER_WARP * num_warps, triton.next_power_of_2(columns))
        _sample_walked[(rows,)](*arguments, BITS=BITS[logits.dtype], CHUNK=chunk, num_warps=num_warps)


def _by_parts(logits, uniform, tokens, limits, parts, room, num_warps, tuned) -> None:
    rows, columns = logits.shape
    length = triton.cdiv(triton.cdiv(columns, parts), GROUP) * GROUP  # parts alike, so that none is short of k
    bits, options = BITS[logits.dtype], {} if tuned else {"num_warps": num_warps}
    keys, places = torch.empty((2, rows, parts, room), dtype=torch.int32, device=logits.device)
    counts = torch.empty((rows, parts), dtype=torch.int32, device=logits.device)
    left = {"BITS": bits, "ROOM": room}
    leave, draw = (_leave_largest_tuned, _sample_parts_tuned) if tuned else (_leave_largest, _sample_parts)
    groups = max(1, min(ELEMENTS_PER_WARP * num_warps, triton.next_power_of_2(length)) // GROUP)
    leave[(rows, parts)](
        logits, keys, places, counts, logits.stride(0), columns, length, limits[0],
        **left, GROUPS=groups, GROUP=GROUP, **options,
    )  # fmt: skip
    draw[(rows,)](
        logits, uniform, keys, places, counts, tokens, logits.stride(0), columns, *limits,
        **left, PARTS=parts, PARTS_BLOCK=triton.next_power_of_2(parts), CHUNK=ELEMENTS_PER_WARP * num_warps, **options,
    )  # fmt: skip


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
