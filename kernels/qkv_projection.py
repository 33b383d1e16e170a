"""Query, key and value projections in one launch: horizontal fusion of products that share an operand.

    q = x wqᵀ,  k = x wkᵀ,  v = x wvᵀ,      x (M, K), wq (Nq, K), wk and wv (Nkv, K)

The three weights are tensors of their own and stay where they are. Columns of tiles are numbered
through all three; a program picks the weight and the output of its column before its loop over
K, and programs of one group of rows, whichever their projection, read the same rows of x from the
L2 cache. With grouped heads k and v are narrow, and alone each of them would leave most of a
GPU idle: that, and not bytes, is what one launch gains on large inputs.

Tiles are loaded by pointers or descriptors, see ``products.py``; a program makes the descriptors
of its own projection, so that the grid is not persistent. Making them costs more than they save:
on sm_90 the ``best`` variant takes pointers.

Speed on an H200 beside its goal: the table of ``scripts/suite_goals.py`` in ``reports/``. Three products by
cuBLAS are ahead: so many tiles leave no unit idle in three launches either, and its products are the better ones.

Work of one call, N = Nq + 2 Nkv, s = bytes per element:
    fused    x read once, weights read, outputs written: (M K + N K + M N) s.
    unfused  three products, each reads x: (3 M K + N K + M N) s.
    flops    2 M N K.
    Compute bound but for the decode shape of 16 rows, which is bound by reading the weights.
    There is little for fusion in bytes: at most 1.5, at 4096 rows of Llama 3 8B.

Products of float32 are not allowed tf32: ``ieee``, see ``products.py``.

Sources:
    1. A. Vaswani et al., "Attention is all you need", https://arxiv.org/abs/1706.03762
    2. J. Ainslie et al., "GQA", https://arxiv.org/abs/2305.13245: fewer heads of keys and values.
    3. Triton tutorial 03, see products.py.
    4. Widths: Llama 3 8B and Mistral 7B (4096; 4096, 1024), Llama 3 70B (8192; 8192, 1024),
       Qwen 2.5 7B (3584; 3584, 512); 1000 rows leave a last tile of 104 rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from arguments import check_shape
from products import BFLOAT16_GAP, check_matrix, operand, store_tile, tile_position, tile_product
from tiles import NARROW, PORTABLE, Tiles, autotuned, best

from portkit import KernelCase, Work
from portkit.model import DTYPE_BYTES


@triton.jit
def _qkv(
    x_ptr, wq_ptr, wk_ptr, wv_ptr, q_ptr, k_ptr, v_ptr, M, NQ, NKV, K, x_stride, wq_stride, wk_stride, wv_stride,
    EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    tiles_q, tiles_kv = tl.cdiv(NQ, BLOCK_N), tl.cdiv(NKV, BLOCK_N)
    row, column = tile_position(tl.program_id(0), tl.cdiv(M, BLOCK_M), tiles_q + 2 * tiles_kv, GROUP)
    # Selections, not branches: Triton 3.6 has no branch that returns pointers on AMD.
    is_q, is_k = column < tiles_q, column < tiles_q + tiles_kv
    w_ptr = tl.where(is_q, wq_ptr, tl.where(is_k, wk_ptr, wv_ptr))
    y_ptr = tl.where(is_q, q_ptr, tl.where(is_k, k_ptr, v_ptr))
    w_stride = tl.where(is_q, wq_stride, tl.where(is_k, wk_stride, wv_stride))
    N = tl.where(is_q, NQ, NKV)
    column -= tl.where(is_q, 0, tl.where(is_k, tiles_q, tiles_q + tiles_kv))
    x = operand(x_ptr, M, K, x_stride, BLOCK_M, BLOCK_K, DESCRIPTORS)
    w = operand(w_ptr, N, K, w_stride, BLOCK_N, BLOCK_K, DESCRIPTORS)
    y = operand(y_ptr, M, N, N, BLOCK_M, BLOCK_N, DESCRIPTORS)
    m, n = row * BLOCK_M, column * BLOCK_N
    total = tile_product(x, w, m, n, M, N, K, x_stride, w_stride, BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS, EVEN_K)
    store_tile(y, total, m, n, M, N, N, BLOCK_M, BLOCK_N, DESCRIPTORS)


MATRICES = ("x_ptr", "wq_ptr", "wk_ptr", "wv_ptr", "q_ptr", "k_ptr", "v_ptr")

_tuned_qkv = autotuned(_qkv, "GROUP", key=("M", "NQ", "NKV", "K"), matrices=MATRICES)


def qkv_projection(
    x: torch.Tensor, wq: torch.Tensor, wk: torch.Tensor, wv: torch.Tensor, **tunables: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of x.

    Args:
        x: (M, K), rows contiguous.
        wq: (Nq, K), rows contiguous.
        wk: (Nkv, K), rows contiguous.
        wv: (Nkv, K), rows contiguous.
        tunables: fields of ``tiles.Tiles``; a tile is finished whole and its loop stands alone.

    Returns:
        ``(q, k, v)``, contiguous, in the dtype of ``x``.

    Raises:
        TypeError: an operand is no tensor of a dtype served, or of another than ``x``.
        ValueError: a shape, device or stride that is not served.
    """
    M, K = check_matrix("x", x).shape
    NQ, NKV = check_matrix("wq", wq, x).shape[0], check_matrix("wk", wk, x).shape[0]
    check_shape("wq", wq, (NQ, K))
    check_shape("wk", wk, (NKV, K))
    check_shape("wv", check_matrix("wv", wv, x), (NKV, K))
    q, k, v = (torch.empty((M, N), dtype=x.dtype, device=x.device) for N in (NQ, NKV, NKV))
    if q.numel() + k.numel() == 0:
        return q, k, v
    tiles = Tiles.settled(tunables, M, x, wq, wk, wv, q, k, v).fitted(x, M)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        columns = triton.cdiv(NQ, meta["BLOCK_N"]) + 2 * triton.cdiv(NKV, meta["BLOCK_N"])
        return (triton.cdiv(M, meta["BLOCK_M"]) * columns,)

    kernel = _tuned_qkv if tiles.tuned else _qkv
    kernel[grid](
        *(x, wq, wk, wv, q, k, v, M, NQ, NKV, K),
        *(x.stride(0), wq.stride(0), wk.stride(0), wv.stride(0)),
        EVEN_K=tiles.even(K),
        **tiles.launch("GROUP"),
    )
    return q, k, v


def reference(
    x: torch.Tensor, wq: torch.Tensor, wk: torch.Tensor, wv: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three products, one after the other."""
    return x @ wq.t(), x @ wk.t(), x @ wv.t()


def inputs(make, shape, dtype):
    """Rows of x in [-1, 1), weights as small as trained ones."""
    m, nq, nkv, k = shape
    weights = {"wq": nq, "wk": nkv, "wv": nkv}
    return {
        "x": make.uniform((m, k), dtype),
        **{name: make.uniform((n, k), dtype, low=-0.0625, high=0.0625) for name, n in weights.items()},
    }


def work(shape: tuple[int, ...], dtype: str) -> Work:
    """Bytes and operations, derived in the module's docstring."""
    m, nq, nkv, k = shape
    n, size = nq + 2 * nkv, DTYPE_BYTES[dtype]
    return Work(
        fused_bytes=(m * k + n * k + m * n) * size,
        unfused_bytes=(3 * m * k + n * k + m * n) * size,
        flops=2 * m * n * k,
    )


SQUARE = {"block_m": 128, "block_n": 128, "block_k": 64, "num_warps": 4, "num_stages": 3}

case = KernelCase(
    name="qkv_projection",
    fused=qkv_projection,
    reference=reference,
    inputs=inputs,
    work=work,
    shapes=(
        (4096, 4096, 1024, 4096),
        (16384, 4096, 1024, 4096),
        (4096, 8192, 1024, 8192),
        (1000, 3584, 512, 3584),
        (16, 4096, 1024, 4096),
    ),
    small_shapes=((70, 136, 40, 128), (5, 128, 24, 200)),
    dtypes=("float32", "float16", "bfloat16"),
    variants={
        "p64x64": PORTABLE,
        "p128x128": SQUARE,
        "d128x256": {"block_m": 128, "block_n": 256, "block_k": 64, "descriptors": True, "num_stages": 4},
        "best": best(PORTABLE, sm_90={**SQUARE, "few_rows": NARROW}),
        "auto": {"tuned": True},
    },
    interpreter_gaps=BFLOAT16_GAP,
    deterministic=True,
    row_inputs=("x",),
    strided_inputs=("x", "wq", "wk", "wv"),
)
