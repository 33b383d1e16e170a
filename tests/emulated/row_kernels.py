"""Plain kernels over rows, one row a program, that tests launch by themselves and delete instructions of.

They are simpler than those of ``kernels/``, and stay as they are when those change.
"""

import triton
import triton.language as tl


@triton.jit
def _softmax_short(x_ptr, y_ptr, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=-float("inf")).to(tl.float32)
    exponential = tl.exp(x - tl.max(x, axis=0))
    y = exponential / tl.sum(exponential, axis=0)
    tl.store(y_ptr + row * columns + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _finite(maximum):
    # -inf - (-inf) is NaN: until a row has shown a finite element, subtract 0.
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def _softmax_long(x_ptr, y_ptr, x_stride, columns, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * x_stride, y_ptr + row * columns
    lanes = tl.arange(0, CHUNK)
    maximum = tl.full((), -float("inf"), dtype=tl.float32)
    total = tl.full((), 0.0, dtype=tl.float32)
    for start in range(0, columns, CHUNK):
        x = tl.load(x_row + start + lanes, mask=lanes < columns - start, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        total = total * tl.exp(maximum - _finite(grown)) + tl.sum(tl.exp(x - _finite(grown)), axis=0)
        maximum = grown
    shift = _finite(maximum)
    # Backwards: the chunks read last are the likeliest to be in cache still.
    last = (tl.cdiv(columns, CHUNK) - 1) * CHUNK
    for done in range(0, columns, CHUNK):
        start = last - done
        mask = lanes < columns - start
        x = tl.load(x_row + start + lanes, mask=mask, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - shift) / total
        tl.store(y_row + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _add_rms_norm(
    x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, x_stride, residual_stride, hidden, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < hidden
    x = tl.load(x_ptr + row * x_stride + lanes, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_stride + lanes, mask=mask, other=0.0).to(tl.float32)
    h = x + residual
    tl.store(h_ptr + row * hidden + lanes, h.to(h_ptr.dtype.element_ty), mask=mask)
    rstd = tl.rsqrt(tl.sum(h * h, axis=0) / hidden + eps)
    weight = tl.load(weight_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
    y = h * rstd * weight
    tl.store(y_ptr + row * hidden + lanes, y.to(y_ptr.dtype.element_ty), mask=mask)
