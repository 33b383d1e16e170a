"""Kernels on tensors whose offsets pass 2^31 elements, in Triton's interpreter; run as a script.

The tensors are virtual memory: only the rows that are looked at are ever touched. The interpreter
wraps 32-bit integers as a GPU does, so that an offset taken in 32 bits reads elsewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from triton.runtime import interpreter

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

FAR = 2**31
# After a launch the interpreter copies all tensors back to where they came from, here to themselves.
interpreter.GridExecutor._restore_args_dev = lambda *_: None


def far_rows(rows: int, columns: int, apart: int) -> torch.Tensor:
    base = torch.empty(rows * apart, dtype=torch.float16)
    out = base.as_strided((rows, columns), (apart, 1))
    return out.copy_(torch.rand(rows, columns) - 0.5)


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.double() - wanted.double()).abs().max())


def products() -> float:
    import products as own

    x = far_rows(520, 32, 2**22)
    w = torch.rand(32, 32).half() - 0.5
    return error(own.linear(x, w, block_m=64, block_n=32), x.double() @ w.double().t())


def loss() -> float:
    import linear_cross_entropy as own

    hidden, weight = torch.rand(4, 32).half(), far_rows(520, 32, 2**22)
    target = torch.tensor([519, 0, 518, 517])
    got = own.linear_cross_entropy(hidden, weight, target, block_m=16, block_n=64)
    return error(got, own.reference(hidden.double(), weight.double(), target))


def heads() -> float:
    import flash_attention as own

    apart = FAR // 2 + 64  # itself within 32 bits, and the third head beyond them
    flat = torch.empty(3 * apart, dtype=torch.float16)
    query, key, value = (flat.as_strided((1, 3, 20, 16), (0, apart, 64, 1), i * 16) for i in range(3))
    operands = [x.copy_(torch.rand(1, 3, 20, 16) - 0.5).requires_grad_() for x in (query, key, value)]
    wide = [x.detach().double().requires_grad_() for x in operands]
    got = own.flash_attention(*operands, block_m=16, block_n=16)
    wanted = own.reference(*wide)
    upstream = torch.rand(1, 3, 20, 16) - 0.5
    pairs = zip(
        (got, *torch.autograd.grad(got, operands, upstream.half())),
        (wanted, *torch.autograd.grad(wanted, wide, upstream.double())),
        strict=True,
    )
    return max(error(one, other) for one, other in pairs)


def tokens() -> float:
    import varlen_attention as own

    count = FAR // 32 + 20  # of two heads of 16 elements
    query, key, value = (torch.empty((count, 2, 16), dtype=torch.float16) for _ in range(3))
    for x in (query, key, value):
        x[-20:] = torch.rand(20, 2, 16) - 0.5
    offsets = torch.tensor([count - 20, count - 13, count], dtype=torch.int32)
    got = own.varlen_attention(query, key, value, offsets, 13, block_m=16, block_n=16)
    last = offsets - (count - 20)
    return error(got[-20:], own.reference(query[-20:].double(), key[-20:].double(), value[-20:].double(), last, 13))


def pages() -> float:
    import decode_attention as own

    count = FAR // (16 * 2 * 16) + 4
    keys, values = (torch.empty((count, 16, 2, 16), dtype=torch.float16) for _ in range(2))
    table = torch.tensor([[count - 1, 3], [1, count - 2]], dtype=torch.int32)
    for page in table.flatten():
        keys[page], values[page] = torch.rand(16, 2, 16) - 0.5, torch.rand(16, 2, 16) - 0.5
    query, lengths = torch.rand(2, 4, 16).half(), torch.tensor([30, 17], dtype=torch.int32)
    got = own.decode_attention(query, keys, values, table, lengths, block=16)
    own_pages = table.flatten().to(torch.int64)
    few = torch.arange(4, dtype=torch.int32).view(2, 2)
    wanted = own.reference(query.double(), keys[own_pages].double(), values[own_pages].double(), few, lengths)
    return error(got, wanted)


def experts() -> float:
    import grouped_gemm as own

    x = far_rows(520, 32, 2**22)
    w = torch.rand(2, 32, 32).half() - 0.5
    offsets = torch.tensor([0, 3, 520], dtype=torch.int32)
    return error(
        own.grouped_gemm(x, w, offsets, block_m=64, block_n=32), own.reference(x.double(), w.double(), offsets)
    )


if __name__ == "__main__":
    for check in (products, loss, heads, tokens, pages, experts):
        print(check.__name__, check())
