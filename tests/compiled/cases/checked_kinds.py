"""Kernels of the kinds that tutorials teach, as somebody who never heard of portkit would write them.

The comments say how each is called; nothing else is there for portkit.
"""

import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()  # as many files ask at import


@triton.jit
def _softmax(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    row = tl.load(x_ptr + at, mask=inside, other=-float("inf"))
    top = tl.exp(row - tl.max(row, axis=0))
    tl.store(y_ptr + at, top / tl.sum(top, axis=0), mask=inside)


# portkit: check softmax --arg x=f32[1024,4096]
def softmax(x):
    y = torch.empty_like(x)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    assert units > 1
    _softmax[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y


@triton.jit
def _dropout(x_ptr, y_ptr, count, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(y_ptr + at, tl.where(tl.rand(seed, at) < keep, x / keep, 0.0), mask=at < count)


# portkit: check dropout --arg x=f32[1000000] --arg p=0.1
def dropout(x, p, seed=7):
    y = torch.empty_like(x)
    _dropout[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), 1 - p, seed, BLOCK=1024)
    return y


@triton.jit
def _norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, columns, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(at < columns, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w, b = tl.load(w_ptr + at, mask=at < columns), tl.load(b_ptr + at, mask=at < columns)
    tl.store(y_ptr + row * columns + at, centred * rstd * w + b, mask=at < columns)
    tl.store(mean_ptr + row, mean)


@triton.jit
def _norm_backward(dy_ptr, w_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=at < columns, other=0.0)
    tl.store(dx_ptr + row * columns + at, dy * w, mask=at < columns)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        y, mean = torch.empty_like(x), torch.empty(x.shape[0], dtype=torch.float32, device="cuda")
        block = triton.next_power_of_2(x.shape[1])
        _norm[(x.shape[0],)](x, weight, bias, y, mean, x.shape[1], eps, BLOCK=block)
        ctx.save_for_backward(weight)
        return y

    @staticmethod
    def backward(ctx, dy):
        (weight,) = ctx.saved_tensors
        dx = torch.empty_like(dy)
        _norm_backward[(dy.shape[0],)](dy, weight, dx, dy.shape[1], BLOCK=triton.next_power_of_2(dy.shape[1]))
        return dx, dy.sum(0), dy.sum(0), None


# portkit: check LayerNorm.apply --arg f16[1024,2048] --arg f16[2048] --arg f16[2048] --arg 1e-5 --backward


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": n, "BK": 32}, num_warps=4, num_stages=s) for n in (64, 128) for s in (2, 3)
    ],
    key=["M", "N", "K"],
)
@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    blocks = tl.cdiv(N, BN)
    row = tl.program_id(0) // blocks * BM + tl.arange(0, BM)
    column = tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + row[:, None] * am + at[None, :], mask=(row[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + column[None, :], mask=(at[:, None] < K) & (column[None, :] < N), other=0.0
        )
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + row[:, None] * cm + column[None, :], acc.to(tl.float16), mask=(row[:, None] < M) & (column < N))


# portkit: check matmul --arg a=f16[512,512] --arg b=f16[512,512]
def matmul(a, b):
    assert a.is_contiguous(), "matrix A must be contiguous"
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=torch.float16)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)  # noqa: E731
    _matmul[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0))
    return c


@triton.jit
def _attention(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head, row = tl.program_id(1) * length * D, tl.program_id(0) * BM + tl.arange(0, BM)
    feature = tl.arange(0, D)
    q = tl.load(q_ptr + head + row[:, None] * D + feature[None, :])
    top, total = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        column = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + column[None, :] * D + feature[:, None])
        s = tl.dot(q, k) * scale
        higher = tl.maximum(top, tl.max(s, 1))
        p, fade = tl.exp(s - higher[:, None]), tl.exp(top - higher)
        v = tl.load(v_ptr + head + column[:, None] * D + feature[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * fade[:, None])
        total, top = total * fade + tl.sum(p, 1), higher
    tl.store(o_ptr + head + row[:, None] * D + feature[None, :], (acc / total[:, None]).to(tl.float16))


# portkit: check attention --arg q=f16[2,4,256,64] --arg k=f16[2,4,256,64] --arg v=f16[2,4,256,64]
def attention(q, k, v):
    o = torch.empty_like(q)
    grid = (q.shape[2] // 64, q.shape[0] * q.shape[1], 1)
    _attention[grid](q, k, v, o, q.shape[2], q.shape[3] ** -0.5, D=q.shape[3], BM=64, BN=32)
    return o


@triton.jit
def _grouped(addresses, sizes, groups, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    tile, passed = tl.program_id(0), 0
    for group in range(groups):
        rows, columns = tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1)
        depth = tl.load(sizes + 3 * group + 2)
        blocks = tl.cdiv(rows, BLOCK) * tl.cdiv(columns, BLOCK)
        while (tile >= passed) & (tile < passed + blocks):
            a = tl.load(addresses + 3 * group).to(tl.pointer_type(tl.float16))
            b = tl.load(addresses + 3 * group + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(addresses + 3 * group + 2).to(tl.pointer_type(tl.float16))
            row = (tile - passed) // tl.cdiv(columns, BLOCK) * BLOCK + tl.arange(0, BLOCK)
            column = (tile - passed) % tl.cdiv(columns, BLOCK) * BLOCK + tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            for k in range(0, depth, BLOCK):
                at = k + tl.arange(0, BLOCK)
                acc = tl.dot(
                    tl.load(a + row[:, None] * depth + at[None, :]),
                    tl.load(b + at[:, None] * columns + column[None, :]),
                    acc,
                )
            tl.store(c + row[:, None] * columns + column[None, :], acc.to(tl.float16))
            tile += PROGRAMS
        passed += blocks


# portkit: check grouped_matmul --arg 'left=[f16[128,64], f16[256,64]]' --arg 'right=[f16[64,128], f16[64,128]]'
def grouped_matmul(left, right):
    out = [
        torch.empty((a.shape[0], b.shape[1]), device=DEVICE, dtype=a.dtype) for a, b in zip(left, right, strict=True)
    ]
    addresses, sizes = [], []
    for a, b, c in zip(left, right, out, strict=True):
        addresses += [a.data_ptr(), b.data_ptr(), c.data_ptr()]
        sizes += [a.shape[0], b.shape[1], a.shape[1]]
    addresses, sizes = torch.tensor(addresses, device=DEVICE), torch.tensor(sizes, dtype=torch.int32, device=DEVICE)
    _grouped[(16,)](addresses, sizes, len(left), PROGRAMS=16, BLOCK=64)
    return out


@triton.jit
def _persistent(a_ptr, b_ptr, c_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK) * tl.cdiv(N, BLOCK), PROGRAMS, flatten=True):
        row, column = tile // tl.cdiv(N, BLOCK) * BLOCK, tile % tl.cdiv(N, BLOCK) * BLOCK
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, K, BLOCK):
            acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
        c.store([row, column], acc.to(tl.float16))


# portkit: check persistent_matmul --arg a=f16[512,512] --arg b=f16[512,512]
def persistent_matmul(a, b):
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    programs = torch.cuda.get_device_properties("cuda").multi_processor_count
    c = torch.empty((a.shape[0], b.shape[0]), device=a.device, dtype=a.dtype)
    _persistent[(min(programs, 64),)](a, b, c, a.shape[0], b.shape[0], a.shape[1], PROGRAMS=programs, BLOCK=64)
    return c


@triton.jit
def _scaled(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column, depth, block = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    a, b = tl.load(a_ptr + row[:, None] * K + depth[None, :]), tl.load(b_ptr + depth[:, None] * N + column[None, :])
    a_scale = tl.load(a_scale_ptr + row[:, None] * (K // 32) + block[None, :])
    b_scale = tl.load(b_scale_ptr + column[:, None] * (K // 32) + block[None, :])
    tl.store(c_ptr + row[:, None] * N + column[None, :], tl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3"))


# portkit: check scaled_matmul --arg a=f8e4m3[128,128] --arg sa=u8[128,4] --arg b=f8e4m3[128,128] --arg sb=u8[128,4]
def scaled_matmul(a, sa, b, sb):
    c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=torch.float32)
    _scaled[(1,)](a, sa, b, sb, c, M=a.shape[0], N=b.shape[1], K=a.shape[1])
    return c


# portkit: check _dropout --arg f32[1000] --arg f32[1000] --arg 1000 --arg 0.9 --arg 7 --arg 1024 --grid 1
