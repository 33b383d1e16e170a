"""The output projection and its cross-entropy in one: the logits never exist in memory.

    z = hidden weightᵀ,  loss_i = log Σ_v exp(z_iv) - z_i,target(i),  0 where the target is ignored
    hidden (N, H), weight (V, H), target (N,), loss (N,) in float32

Two launches. In the first a program takes a block of rows and a part of the vocabulary; it makes
its logits tile by tile, in registers, and keeps of each row only the running maximum and the
running sum of exponentials. Programs that run at one time are of different rows and the same
part, so that they share tiles of the weight in the L2 cache. The second launch joins the parts of
a row and takes the logit of its target by a dot product of its own, which costs a row of the
weight and spares a comparison an element of the first. The number of parts does not depend on
the device. Logits are rounded nowhere.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``.

Work of one call, s = bytes per element, f = 4 (float64 inputs 8):
    fused    (N H + V H) s + 8 N of the targets + 4 N of the losses.
    unfused  product (N H + V H + N V) s; to float32 N V (s + f), none if it is float32 already;
             maximum, subtract, exp, sum 6 N V f; and a few numbers a row: N (15 f + 34).
    flops    2 N V H of the product; 4 an element of the logits (max, subtract, exp, sum).
    Compute bound: at N = 4096 the product's flops / bytes is over 3000 in 16 bits. The unfused
    chain writes and reads N V elements eight times; at Llama 3's vocabulary that takes about as
    long as the product. What fusion gains beside time is memory: 1 to 4 GiB of logits.

Products of float32 are not allowed tf32: ``ieee``, see ``products.py``.

Sources:
    1. E. Wijmans et al., "Cut your losses in large-vocabulary language models" (Cut Cross-Entropy),
       https://arxiv.org/abs/2411.09009
    2. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
       https://arxiv.org/abs/1805.02867
    3. P.-L. Hsu et al., "Liger Kernel", https://arxiv.org/abs/2410.10989: chunks of logits instead.
    4. Vocabularies: Llama 3 8B (128256, 4096), Mistral 7B (32000, 4096), Qwen 2.5 7B (152064,
       3584), Gemma 2 9B (256000, 3584); 1000 rows leave a last block of 104.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from arguments import INDICES, check_beside, check_contiguous, check_shape, check_tensor
from products import BFLOAT16_GAP, check_matrix, operand, tile_product
from tiles import PORTABLE, Tiles, autotuned, best

from portkit import KernelCase, Work
from portkit.baselines import liger
from portkit.model import DTYPE_BYTES

IGNORED = -100
PROGRAMS = 1024  # wanted of the first launch, with blocks of 128 rows
WIDEST = 256  # columns of a tile: parts of the vocabulary are multiples of it
MOST_PARTS = 64  # of the vocabulary; a power of two, one block of the second launch


@triton.jit
def _masses(
    hidden_ptr, weight_ptr, level_ptr, N, V, H, hidden_stride, weight_stride, classes_each, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    m, part = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    hidden = operand(hidden_ptr, N, H, hidden_stride, BLOCK_M, BLOCK_K, DESCRIPTORS)
    weight = operand(weight_ptr, V, H, weight_stride, BLOCK_N, BLOCK_K, DESCRIPTORS)
    maximum = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    mass = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in tl.range(part * classes_each, tl.minimum(part * classes_each + classes_each, V), BLOCK_N):
        n = tl.zeros((), tl.int32) + start
        logits = tile_product(
            hidden, weight, m, n, N, V, H, hidden_stride, weight_stride, BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS, EVEN_K
        )  # fmt: skip
        logits = tl.where((n + tl.arange(0, BLOCK_N) < V)[None, :], logits, -float("inf"))
        grown = tl.maximum(maximum, tl.max(logits, axis=1))
        # Differences first: their error is that of the logits, however large these are.
        gained = tl.sum(tl.exp2((logits - grown[:, None]) * 1.4426950408889634), axis=1)
        mass = mass * tl.exp2((maximum - grown) * 1.4426950408889634) + gained
        maximum = grown
    i = tl.arange(0, BLOCK_M)
    place = (part.to(tl.int64) * N + m + i) * 2
    tl.store(level_ptr + place, maximum, mask=i < N - m)
    tl.store(level_ptr + place + 1, mass, mask=i < N - m)


@triton.jit
def _losses(
    hidden_ptr, weight_ptr, target_ptr, level_ptr, loss_ptr, N, H, parts, hidden_stride, weight_stride, ignored,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row).to(tl.int64)
    counts = target != ignored
    weight_row = tl.where(counts, target, 0) * weight_stride
    picked = tl.zeros((BLOCK,), dtype=tl.float32)
    lanes = tl.arange(0, BLOCK)
    for start in range(0, H, BLOCK):
        mask = lanes < H - start
        h = tl.load(hidden_ptr + row * hidden_stride + start + lanes, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(weight_ptr + weight_row + start + lanes, mask=mask, other=0.0).to(tl.float32)
        picked += h * w
    j = tl.arange(0, PARTS)
    place = (j.to(tl.int64) * N + row) * 2
    maximum = tl.load(level_ptr + place, mask=j < parts, other=-float("inf"))
    mass = tl.load(level_ptr + place + 1, mask=j < parts, other=0.0)
    highest = tl.max(maximum, axis=0)
    total = tl.sum(tl.where(mass > 0.0, mass * tl.exp2((maximum - highest) * 1.4426950408889634), 0.0), axis=0)
    loss = highest - tl.sum(picked, axis=0) + tl.log(total)
    tl.store(loss_ptr + row, tl.where(counts, loss, 0.0))


_tuned_masses = autotuned(_masses, key=("N", "V", "H"), matrices=("hidden_ptr", "weight_ptr"))


def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, *, ignored: int = IGNORED, **tunables: Any
) -> torch.Tensor:
    """Cross-entropy of softmax(hidden weightᵀ) against target classes, row by row.

    Args:
        hidden: (N, H), rows contiguous.
        weight: (V, H), rows contiguous.
        target: (N,), int32 or int64, contiguous, in [0, V) or ``ignored``.
        ignored: target of rows whose loss is 0.
        tunables: fields of ``tiles.Tiles`` for the tiles of logits, which are at most 256 columns wide.

    Returns:
        (N,) in float32.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``hidden``.
        ValueError: a shape, device or stride that is not served.
    """
    N, H = check_matrix("hidden", hidden).shape
    V = check_matrix("weight", weight, hidden, "hidden").shape[0]
    check_shape("weight", weight, (V, H))
    check_shape("target", check_tensor("target", target, INDICES), (N,))
    check_contiguous("target", target)
    check_beside("target", target, "hidden", hidden)
    loss = torch.empty((N,), dtype=torch.float32, device=hidden.device)
    if N == 0:
        return loss
    if V == 0:
        raise ValueError("weight has no rows: there is no class that a target may be")
    tiles = Tiles.settled(tunables, N, hidden, weight).fitted(hidden, N)
    classes_each = _classes_each(N, V)
    parts = triton.cdiv(V, classes_each)
    level = torch.empty((parts, N, 2), dtype=torch.float32, device=hidden.device)
    strides = (hidden.stride(0), weight.stride(0))
    kernel = _tuned_masses if tiles.tuned else _masses
    kernel[lambda meta: (triton.cdiv(N, meta["BLOCK_M"]), parts)](
        *(hidden, weight, level, N, V, H, *strides, classes_each), EVEN_K=tiles.even(H), **tiles.launch()
    )
    _losses[(N,)](
        *(hidden, weight, target, level, loss, N, H, parts, *strides, ignored),
        PARTS=triton.next_power_of_2(parts),
        BLOCK=1024,
        num_warps=4,
    )
    return loss


def _classes_each(rows: int, classes: int) -> int:
    """Classes of one part of the vocabulary; the same on every device, so that sums are."""
    widest = triton.cdiv(classes, WIDEST)
    parts = min(MOST_PARTS, widest, triton.cdiv(PROGRAMS, triton.cdiv(rows, 128)))
    return triton.cdiv(widest, parts) * WIDEST


def reference(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The unfused chain; logits rounded to the inputs' dtype, the loss taken in float32 or wider."""
    logits = hidden @ weight.t()
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    maximum = logits.amax(dim=-1, keepdim=True)
    total = (logits - maximum).exp().sum(dim=-1, keepdim=True).log() + maximum
    picked = logits.gather(1, target.clamp_min(0)[:, None])
    return (total - picked).squeeze(1).masked_fill(target == IGNORED, 0.0)


def inputs(make, shape, dtype):
    """Logits of a standard deviation of about 1 or 2; one row in 16 is ignored."""
    n, v, h = shape
    target = make.integers((n,), "int64", 0, v)
    ignored = torch.arange(n, device=target.device) % 16 == 5
    return {
        "hidden": make.uniform((n, h), dtype),
        "weight": make.uniform((v, h), dtype, low=-0.0625, high=0.0625),
        "target": target.masked_fill(ignored, IGNORED),
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    n, v, h = shape
    size = DTYPE_BYTES[dtype]
    wide = max(size, 4)
    upcast = size + wide if size < wide else 0
    return Work(
        fused_bytes=(n * h + v * h) * size + 12 * n,
        unfused_bytes=(n * h + v * h) * size + n * v * (size + upcast + 6 * wide) + n * (15 * wide + 34),
        flops=2 * n * v * h + 4 * n * v,
    )


WIDE = {"block_m": 128, "block_n": 256, "block_k": 64, "num_warps": 8, "num_stages": 3}

case = KernelCase(
    name="linear_cross_entropy",
    fused=linear_cross_entropy,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((4096, 128256, 4096), (8192, 32000, 4096), (4096, 152064, 3584), (1000, 256000, 3584)),
    small_shapes=((40, 300, 128), (21, 257, 200)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "p64x64": PORTABLE,
        "p128x256": WIDE,
        "d128x256": {**WIDE, "descriptors": True, "num_stages": 4},
        "best": best(PORTABLE, sm_90=WIDE),
        "auto": {"tuned": True},
    },
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    row_inputs=("hidden", "target"),
    strided_inputs=("hidden", "weight"),
    baselines={"liger": liger.linear_cross_entropy},
)
