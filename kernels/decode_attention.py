"""One new query of each sequence against its paged cache of keys and values, split over the sequence.

    o = softmax(scale · q Kᵀ) V  over the first lengths[b] positions of sequence b
    query (batch, heads, dim), caches (pages, page, kv_heads, dim), table (batch, most pages) of page
    numbers, lengths (batch,); position t of sequence b is row t % page of page table[b, t // page]

Two launches. In the first a program takes one part of one sequence for the query heads that share
a head of keys: it walks its pages with a running maximum and a running sum and leaves both, and
its unnormalised output, in float32. The second joins the parts. Without parts a batch of 1 would
keep 8 programs busy. The number of parts is taken from the shape of the table, never from the
lengths: host code reads no values. A part beyond a sequence's end leaves a mass of zero.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. A single long
sequence reaches less of the copy bandwidth: its time is two short launches, the second of a program a head.

Scores and weights are products of a few rows, 16 at least where matrix units take part. Products of
float32 are not allowed tf32: ``ieee``.

Work of one call, t = sum of the lengths, q = batch · heads · dim, c = kv_heads · dim, P = whole
batch · pages in the table, s = bytes per element:
    fused    keys and values of the positions in use, query, output; table and lengths of 4 bytes:
             (2 t c + 2 q) s + 4 (P + batch). The parts' results are the implementation's.
    unfused  with G = P · page · c and p = P · page · heads over the whole capacity of the table:
             keys gathered 2 G, laid out by heads 2 G, read G, and values the same; scores p,
             × scale 2 p, mask 2 p, softmax 2 p, weights p, query and output 2 q; numbers of pages,
             positions and the mask 28 P + 16 capacity + 4 batch + 2 P · page bytes:
             (10 G + 8 p + 2 q) s and those. A chain that reads pages in place does not exist.
    flops    4 dim + 5 for each head and position in use.
    Memory bound: a key is used by heads / kv_heads queries only, about that many flops a byte.
    float32 computing is no limit either.

Sources:
    1. T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023,
       https://crfm.stanford.edu/2023/10/12/flashdecoding.html
    2. W. Kwon et al., "Efficient memory management for large language model serving with
       PagedAttention", https://arxiv.org/abs/2309.06180
    3. Heads: Llama 3 8B (32, 8, 128), 70B (64, 8, 128), Gemma 2 9B (16, 8, 256); pages of 16
       and 64 positions as vLLM and FlashInfer have them.
"""

import dataclasses
import math
from typing import Any

import torch
import triton
import triton.language as tl
from arguments import check_beside, check_contiguous, check_named_axes, check_shape, check_tensor
from flash_attention import LOG2E, check_dim, check_group
from products import BFLOAT16_GAP
from tiles import best, fitting_loop, for_architecture

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES

CACHE_AXES = ("pages", "page", "kv_heads", "dim")
LARGEST = 128  # positions taken at once
PROGRAMS = 2048  # wanted of the first launch: many for each unit of a large GPU, since lengths differ
MOST_PARTS = 128  # of a sequence; a power of two, one block of the second launch


@triton.jit
def _parts(
    query_ptr, key_ptr, value_ptr, table_ptr, lengths_ptr, part_ptr, level_ptr, heads, kv_heads, page, most_pages,
    part_length, scale2, GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    batch, shared, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    parts = tl.num_programs(2)
    first = part * part_length
    last = tl.minimum(first + part_length, tl.load(lengths_ptr + batch).to(tl.int32))
    i, d, lanes = tl.arange(0, ROWS), tl.arange(0, DIM), tl.arange(0, BLOCK)
    head = batch.to(tl.int64) * heads + shared * GROUP
    q = tl.load(query_ptr + head * DIM + (i[:, None] * DIM + d[None, :]), mask=(i < GROUP)[:, None], other=0.0)
    total = tl.zeros((ROWS, DIM), dtype=tl.float32)
    maximum = tl.full((ROWS,), -float("inf"), dtype=tl.float32)
    mass = tl.zeros((ROWS,), dtype=tl.float32)
    for start in tl.range(first, last, BLOCK):
        places = start + lanes
        used = places < last
        number = tl.load(table_ptr + batch.to(tl.int64) * most_pages + places // page, mask=used, other=0)
        row = (number.to(tl.int64) * page + places % page) * kv_heads + shared
        k = tl.load(key_ptr + row[:, None] * DIM + d[None, :], mask=used[:, None], other=0.0)
        scores = tl.dot(q, k.T, input_precision="ieee")
        scores = tl.where(used[None, :], scores, -float("inf"))
        grown = tl.maximum(maximum, tl.max(scores, axis=1))
        # Differences first: a scaled score less a scaled maximum is one rounding, and not 0 where both are alike.
        p = tl.exp2((scores - grown[:, None]) * scale2)
        shrink = tl.exp2((maximum - grown) * scale2)
        mass = mass * shrink + tl.sum(p, axis=1)
        total = total * shrink[:, None]
        v = tl.load(value_ptr + row[:, None] * DIM + d[None, :], mask=used[:, None], other=0.0)
        total = tl.dot(p.to(v.dtype), v, total, input_precision="ieee")
        maximum = grown
    place = (head + i) * parts + part
    tl.store(level_ptr + place * 2, maximum, mask=i < GROUP)
    tl.store(level_ptr + place * 2 + 1, mass, mask=i < GROUP)
    tl.store(part_ptr + place[:, None] * DIM + d[None, :], total, mask=(i < GROUP)[:, None])


@triton.jit
def _join(part_ptr, level_ptr, out_ptr, parts, scale2, PARTS: tl.constexpr, DIM: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    j, d = tl.arange(0, PARTS), tl.arange(0, DIM)
    place = head * parts + j
    maximum = tl.load(level_ptr + place * 2, mask=j < parts, other=-float("inf"))
    mass = tl.load(level_ptr + place * 2 + 1, mask=j < parts, other=0.0)
    highest = tl.max(maximum, axis=0)
    # A part without positions has a maximum of -inf and nothing to give; a sequence of none is 0 / 0.
    weight = tl.where(mass > 0.0, tl.exp2((maximum - highest) * scale2), 0.0)
    total = tl.load(part_ptr + place[:, None] * DIM + d[None, :], mask=(j < parts)[:, None], other=0.0)
    out = tl.sum(total * weight[:, None], axis=0) / tl.sum(mass * weight, axis=0)
    tl.store(out_ptr + head * DIM + d, out.to(out_ptr.dtype.element_ty))


@dataclasses.dataclass(frozen=True)
class Steps:
    """Tunables of the first launch; the defaults build without spills on every target of the suite."""

    block: int = 16  # positions taken at once, of 16-bit elements; half as many of float32, fewer where memory is small
    num_warps: int = 8  # warps (wavefronts) of a program
    num_stages: int = 2  # most stages of the loop over positions
    tuned: bool = False  # let the autotuner choose
    # Options of one vendor's backend; without a value they are not passed.
    waves_per_eu: int | None = None  # AMD: waves of a SIMD that registers are to be left for
    matrix_instr_nonkdim: int | None = None  # AMD: rows and columns of a matrix instruction, 16 or 32
    kpack: int | None = None  # AMD: matrix instructions fed by one load from LDS
    schedule_hint: str | None = None  # AMD: how the compiler interleaves loads and products
    maxnreg: int | None = None  # NVIDIA: most registers of a thread

    def launch(self, query: torch.Tensor, rows: int) -> dict[str, Any]:
        """Keywords of a launch for so many rows of queries; none where it is tuned."""
        if self.tuned:
            return {}
        size, dim = query.element_size(), query.shape[-1]
        wanted = max(16, self.block * 2 // size)
        block, stages = fitting_loop(query.device, wanted, self.num_stages, 2 * dim * size, 2 * rows * dim * size)
        given = {name: value for name in _VENDORS if (value := getattr(self, name)) is not None}
        return {"BLOCK": block, "num_warps": self.num_warps, "num_stages": stages, **given}


_VENDORS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "maxnreg")


_tuned_parts = triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages)
        for block, warps, stages in ((16, 8, 2), (32, 4, 2), (64, 4, 2), (64, 4, 3), (128, 8, 2))
    ],
    key=["heads", "kv_heads", "most_pages", "DIM"],
)(_parts)


def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    **tunables: Any,
) -> torch.Tensor:
    """Attention of one query a sequence over a paged cache.

    Args:
        query: (batch, heads, dim), contiguous; dim 16, 32, 64, 128 or 256.
        key_cache: (pages, page, kv_heads, dim), contiguous, kv_heads a divisor of heads.
        value_cache: of the shape of ``key_cache``.
        table: (batch, most pages), int32, contiguous: the pages of each sequence in order. What
            lies beyond a sequence's length is not read.
        lengths: (batch,), int32: positions in use of each sequence.
        tunables: fields of :class:`Steps`.

    Returns:
        A contiguous tensor of the shape and dtype of ``query``; NaN for a sequence of length 0.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``query``.
        ValueError: a shape, device or stride that is not served.
    """
    _check(query, key_cache, value_cache, table, lengths)
    (batch, heads, dim), (_, page, kv_heads, _), most_pages = query.shape, key_cache.shape, table.shape[1]
    out = torch.empty_like(query)
    if out.numel() == 0:
        return out
    group = heads // kv_heads
    rows = max(16, triton.next_power_of_2(group))
    capacity = max(page * most_pages, 1)
    part_length = _part_length(capacity, batch * kv_heads)
    parts = triton.cdiv(capacity, part_length)
    part = torch.empty((batch, heads, parts, dim), dtype=torch.float32, device=query.device)
    level = torch.empty((batch, heads, parts, 2), dtype=torch.float32, device=query.device)
    scale2 = dim**-0.5 * LOG2E
    steps = Steps(**for_architecture(tunables, query.device))
    kernel = _tuned_parts if steps.tuned else _parts
    kernel[(batch, kv_heads, parts)](
        *(query, key_cache, value_cache, table, lengths, part, level),
        *(heads, kv_heads, page, most_pages, part_length, scale2),
        GROUP=group,
        ROWS=rows,
        DIM=dim,
        **steps.launch(query, rows),
    )
    _join[(batch * heads,)](part, level, out, parts, scale2, PARTS=triton.next_power_of_2(parts), DIM=dim, num_warps=4)
    return out


def _check(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    check_named_axes("query", check_tensor("query", query), "batch", "heads", "dim")
    batch, heads, dim = query.shape
    check_named_axes("key_cache", check_tensor("key_cache", key_cache, (query.dtype,)), *CACHE_AXES)
    pages, page, kv_heads, _ = key_cache.shape
    check_dim(dim)
    check_group("key_cache", kv_heads, heads)
    check_shape("key_cache", key_cache, (pages, page, kv_heads, dim))
    check_shape("value_cache", check_tensor("value_cache", value_cache, (query.dtype,)), key_cache.shape)
    check_named_axes("table", check_tensor("table", table, (torch.int32,)), "batch", "most pages")
    check_shape("table", table, (batch, table.shape[1]))
    check_shape("lengths", check_tensor("lengths", lengths, (torch.int32,)), (batch,))
    operands = {"key_cache": key_cache, "value_cache": value_cache, "table": table, "lengths": lengths}
    for name, tensor in {"query": query, **operands}.items():
        check_beside(name, tensor, "query", query)
        check_contiguous(name, tensor)


def _part_length(capacity: int, rows: int) -> int:
    """Positions of a part: a multiple of the largest block, the same on every device, so that sums are."""
    wanted = max(1, min(MOST_PARTS, triton.cdiv(PROGRAMS, rows)))
    return triton.cdiv(triton.cdiv(capacity, wanted), LARGEST) * LARGEST


def reference(query, key_cache, value_cache, table, lengths):
    """The unfused chain: pages gathered, then attention over the whole capacity with a mask."""
    batch, heads, dim = query.shape
    page, kv_heads = key_cache.shape[1:3]
    capacity, group = table.shape[1] * page, heads // kv_heads
    places = table.flatten().to(torch.int64)
    keys, values = (
        cache.index_select(0, places).view(batch, capacity, kv_heads, dim).transpose(1, 2)
        for cache in (key_cache, value_cache)
    )
    scores = torch.matmul(query.view(batch, kv_heads, group, dim), keys.transpose(-1, -2)) * dim**-0.5
    beyond = torch.arange(capacity, device=query.device) >= lengths[:, None]
    weights = torch.softmax(scores.masked_fill(beyond[:, None, None, :], -float("inf")), dim=-1)
    return torch.matmul(weights, values).reshape(batch, heads, dim)


def used(shape: tuple[int, ...]) -> list[int]:
    """Positions in use of each sequence: from the whole capacity down to half of it."""
    batch, _, _, length, _, _ = shape
    return [length - i * (length // 2) // batch for i in range(batch)]


def inputs(make, shape, dtype):
    """Ragged lengths and pages scattered over the cache, both a function of the shape."""
    batch, heads, kv_heads, length, page, dim = shape
    most = -(-length // page)
    pages = batch * most
    step = next(n for n in range(int(pages * 0.618) | 1, 2 * pages + 3) if math.gcd(n, pages) == 1)
    query = make.uniform((batch, heads, dim), dtype)
    place = torch.arange(pages, device=query.device) * step % pages
    return {
        "query": query,
        "key_cache": make.uniform((pages, page, kv_heads, dim), dtype),
        "value_cache": make.uniform((pages, page, kv_heads, dim), dtype),
        "table": place.to(torch.int32).view(batch, most),
        "lengths": (length - torch.arange(batch, device=query.device) * (length // 2) // batch).to(torch.int32),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    batch, heads, kv_heads, length, page, dim = shape
    size, q, c = DTYPE_BYTES[dtype], batch * heads * dim, kv_heads * dim
    pages, tokens = batch * -(-length // page), sum(used(shape))
    gathered, scores = pages * page * c, pages * page * heads
    index = 4 * (pages + batch)
    mask = 8 * -(-length // page) * page * 2 + 4 * batch + 2 * pages * page
    unfused = (10 * gathered + 2 * q + 8 * scores) * size
    return Work(
        fused_bytes=(2 * tokens * c + 2 * q) * size + index,
        unfused_bytes=unfused + 12 * pages + 2 * 8 * pages + mask,
        flops=tokens * heads * (4 * dim + 5),
    )


B64 = {"block": 64, "num_warps": 4, "num_stages": 3}

case = KernelCase(
    name="decode_attention",
    fused=decode_attention,
    reference=reference,
    inputs=inputs,
    work=work,
    # batch, heads, heads of keys, most positions, page, dim
    shapes=(
        (64, 32, 8, 8192, 16, 128),
        (1, 32, 8, 131072, 16, 128),
        (16, 64, 8, 32768, 64, 128),
        (32, 16, 8, 8192, 16, 256),
        (8, 32, 32, 5000, 16, 64),
    ),
    small_shapes=((3, 4, 2, 130, 16, 64), (2, 6, 2, 50, 16, 128)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "b16": {"block": 16, "num_warps": 8, "num_stages": 2},
        "b32": {"block": 32, "num_warps": 4, "num_stages": 2},
        "b64": B64,
        "b128": {"block": 128, "num_warps": 8, "num_stages": 2},
        "b32amd": {
            **{"block": 32, "num_warps": 4, "num_stages": 2},
            **{"waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 2, "schedule_hint": "attention"},
        },
        "b64r128": {**B64, "maxnreg": 128},
        "best": best({"block": 16, "num_warps": 8, "num_stages": 2}, sm_90=B64),
        "auto": {"tuned": True},
    },
    reduction_length=lambda shape: shape[3],
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    family_gaps={"tail": "heads are of 2^n elements"},
)
