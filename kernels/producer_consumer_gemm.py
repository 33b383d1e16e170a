"""A product whose loads and products run in warps of their own: producer and consumer.

    y = silu(x wᵀ),                     x (M, K), w (N, K)

Tiles come by device-side tensor descriptors, and ``warp_specialize`` asks the compiler to split a
loop: some warps do nothing but start copies, the others wait for them and multiply. The loop is that
over K, one tile a program, or with ``walk`` that over tiles, as many programs as units. Which targets
honour it is the case's finding (Triton 3.6.0 and 3.7.1):

    sm_100, sm_120     copies by the tensor memory accelerator and barriers between the warps; the
                       launch has the producers' warps beside the consumers', 12 for 8 asked for.
                       The loop over tiles needs ``flatten`` on 3.6.
    sm_90              the same where the consumers are 4 warps (12 in all, two consumers of half a tile);
                       with 8 asked for, or ``flatten``, one loop in all warps.
    sm_89 and before,  the same source builds: descriptors become masked pointers, and the request
    all AMD            to specialise is dropped without a word. The record's ``ignored`` says so.

The variants tell it apart: ``ws…`` asks for it, ``d…`` is the same kernel without, ``p…`` takes
pointers. Where rows do not begin on 16 bytes, and in float32, pointers are taken whatever the
variant says: see ``tiles.py``. The epilogue reads nothing and counts no rows: with Triton 3.6 on an
H200 a loop over tiles whose consumers read a bias and a residual gave NaN.

On an H200 producers gain nothing: Triton's pipeline of one flattened loop over tiles, ``best``, hides the copies
as well as they do (``pytest --benchmark suite.yaml --portkit-tier full -k producer_consumer_gemm`` times them all).

Work of one call, s = bytes per element:
    fused    x, w read, y written: (M K + N K + M N) s.
    unfused  the product as above, silu 2 M N: (M K + N K + 3 M N) s.
    flops    2 M N K + 4 M N (negate, exp, add, divide).
    Compute bound in all shapes but that of 16 rows, as gemm is.

Products of float32 are not allowed tf32: ``ieee``, see ``products.py``.

Sources:
    1. M. Bauer, H. Cook, B. Khailany, "CudaDMA: optimizing GPU memory bandwidth via warp
       specialization", SC 2011.
    2. J. Shah et al., "FlashAttention-3", https://arxiv.org/abs/2407.08608: producer and consumer
       warps on sm_90.
    3. Triton tutorial 09, persistent matmul with descriptors and ``warp_specialize``.
    4. Shapes: feed-forward of Llama 3 8B (4096, 14336), Qwen 2.5 7B (3584, 18944).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from products import BFLOAT16_GAP, activated, check_operands, operand, store_tile, tile_position, tile_product
from tiles import NARROW, PORTABLE, Tiles, autotuned, best, units

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES


@triton.jit
def _tile(
    tile, x, w, y, M, N, K, x_stride, w_stride, EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP: tl.constexpr, DESCRIPTORS: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """Make one tile; SPECIALIZE asks for producers and consumers of its loop over K."""
    row, column = tile_position(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    m, n = row * BLOCK_M, column * BLOCK_N
    if SPECIALIZE:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K, warp_specialize=True):
            total = tl.dot(x.load([m, k]), w.load([n, k]).T, total, input_precision="ieee")
    else:
        total = tile_product(x, w, m, n, M, N, K, x_stride, w_stride, BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS, EVEN_K)
    store_tile(y, activated(total, "silu"), m, n, M, N, N, BLOCK_M, BLOCK_N, DESCRIPTORS)


@triton.jit
def _producer_consumer(
    x_ptr, w_ptr, y_ptr, M, N, K, x_stride, w_stride, EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, DESCRIPTORS: tl.constexpr,
    SPECIALIZE: tl.constexpr, WALK: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    x = operand(x_ptr, M, K, x_stride, BLOCK_M, BLOCK_K, DESCRIPTORS)
    w = operand(w_ptr, N, K, w_stride, BLOCK_N, BLOCK_K, DESCRIPTORS)
    y = operand(y_ptr, M, N, N, BLOCK_M, BLOCK_N, DESCRIPTORS)
    if WALK:
        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        for tile in tl.range(
            tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN, warp_specialize=SPECIALIZE
        ):  # fmt: skip
            _tile(
                tile, x, w, y, M, N, K, x_stride, w_stride, EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, DESCRIPTORS,
                False,
            )  # fmt: skip
    else:
        _tile(
            tl.program_id(0), x, w, y, M, N, K, x_stride, w_stride, EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP,
            DESCRIPTORS, SPECIALIZE,
        )  # fmt: skip


_tuned = autotuned(
    _producer_consumer,
    *("GROUP", "SPECIALIZE", "WALK", "FLATTEN"),
    matrices=("x_ptr", "w_ptr", "y_ptr"),
    tried=(
        Tiles(),
        Tiles(descriptors=True, specialize=True),
        Tiles(128, 128, 64, descriptors=True, specialize=True, num_warps=4, num_stages=4),
        Tiles(128, 256, 64, 16, descriptors=True, walk=True, flatten=True),
    ),
)


def producer_consumer_gemm(x: torch.Tensor, w: torch.Tensor, **tunables: Any) -> torch.Tensor:
    """silu(x wᵀ).

    Args:
        x: (M, K), rows contiguous.
        w: (N, K), rows contiguous.
        tunables: fields of ``tiles.Tiles``.

    Returns:
        (M, N), contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    check_operands(x, w)
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    tiles = Tiles.settled(tunables, M, x, w, y).fitted(x, M, finished=x.element_size())

    def grid(meta: dict[str, Any]) -> tuple[int]:
        count = triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])
        return (min(count, units(x.device)) if meta["WALK"] else count,)

    kernel = _tuned if tiles.tuned else _producer_consumer
    kernel[grid](
        *(x, w, y, M, N, K, x.stride(0), w.stride(0)),
        EVEN_K=tiles.even(K),
        **tiles.launch("GROUP", "SPECIALIZE", "WALK", "FLATTEN"),
    )
    return y


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The product, then the activation."""
    return torch.nn.functional.silu(x @ w.t())


def inputs(make, shape, dtype):
    """Rows of x in [-1, 1); weights as small as trained ones."""
    m, n, k = shape
    return {"x": make.uniform((m, k), dtype), "w": make.uniform((n, k), dtype, low=-0.0625, high=0.0625)}


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    m, n, k = shape
    size = DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(m * k + n * k + m * n) * size,
        unfused_bytes=(m * k + n * k + 3 * m * n) * size,
        flops=2 * m * n * k + 4 * m * n,
    )


DESCRIBED = {"block_m": 128, "block_k": 64, "descriptors": True}
WARPS = {**DESCRIBED, "block_n": 128, "specialize": True, "num_warps": 4, "num_stages": 4}
WALKED = {**DESCRIBED, "block_n": 256, "group": 16, "walk": True, "flatten": True, "num_warps": 8, "num_stages": 3}
FASTEST = {**WALKED, "specialize": False, "few_rows": {**NARROW, "walk": False}}
WALKED_WARPS = {
    **WALKED,
    "specialize": True,
    "by_architecture": {"sm_90": {"flatten": False, "num_warps": 4}},
}

case = KernelCase(
    name="producer_consumer_gemm",
    fused=producer_consumer_gemm,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=((8192, 14336, 4096), (4096, 4096, 14336), (4100, 18944, 3584), (16, 14336, 4096)),
    small_shapes=((130, 136, 128), (5, 264, 200)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "ws64x64": {**PORTABLE, "descriptors": True, "specialize": True},
        "ws128x128": WARPS,
        "ws128x256": WALKED_WARPS,
        "d128x128": {**WARPS, "specialize": False},
        "d128x256": WALKED,
        "p128x128": {"block_m": 128, "block_n": 128, "block_k": 32, "num_warps": 8, "num_stages": 3},
        "best": best({**PORTABLE, "descriptors": True, "specialize": True}, sm_90=FASTEST),
        "auto": {"tuned": True},
    },
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x", "w"),
)
