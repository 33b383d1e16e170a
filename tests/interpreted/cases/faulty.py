"""Row sums with planted faults, each a case of its own."""

import torch
import triton
import triton.language as tl

from portkit import KernelCase, Work


@triton.jit
def _row_sums(x_ptr, y_ptr, stride, columns, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    if MASKED:
        x = tl.load(x_ptr + row * stride + lanes, mask=lanes < columns, other=0.0)
    else:
        x = tl.load(x_ptr + row * stride + lanes)
    tl.store(y_ptr + row, tl.sum(x.to(tl.float32), axis=0).to(y_ptr.dtype.element_ty))


def _launch(x, columns, *, masked=True):
    y = torch.empty(x.shape[0], 1, dtype=x.dtype, device=x.device)
    _row_sums[(x.shape[0],)](x, y, x.stride(0), columns, BLOCK=1024, MASKED=masked)
    return y


def right(x):
    return _launch(x, x.shape[1])


def wrong_half(x):
    """Sums the first half of each row."""
    return _launch(x, x.shape[1] // 2)


def missing_mask(x):
    """Reads past the row's end, into padding that is there and not zero."""
    padded = torch.full((x.shape[0], 1024), 7.0, dtype=x.dtype, device=x.device)
    padded[:, : x.shape[1]] = x
    return _launch(padded, x.shape[1], masked=False)


def all_zeros(x):
    return torch.zeros_like(right(x))


def wrong_shape(x):
    return right(x).view(-1)


def wrong_dtype(x):
    return right(x).to(torch.float64)


def two_outputs(x):
    return right(x), right(x)


def no_tensor(x):
    return float(right(x)[0, 0])


def writes_inputs(x):
    y = right(x)
    x.zero_()
    return y


def nan_result(x):
    y = right(x)
    y[1] = float("nan")
    return y


def raising(x):
    raise ValueError("rows of this length are not served")


def sums(x):
    return x.sum(dim=-1, keepdim=True)


def raising_reference(x):
    raise RuntimeError("no such chain")


def float64_only_reference(x):
    if x.dtype != torch.float64:
        raise RuntimeError("the eager chain lacks this dtype")
    return sums(x)


def zero_reference(x):
    """Says nothing: every result near zero agrees."""
    return sums(x) * 0


def _case(name, fused, reference=sums, **special):
    return KernelCase(
        name=name,
        fused=fused,
        reference=reference,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype, low=0.0, high=1.0)},
        work=lambda shape, dtype: Work(1, 1, 1),
        shapes=((4, 1000),),
        small_shapes=((4, 1000),),
        dtypes=("float32",),
        variants={"default": {}},
        **special,
    )


cases = {
    fused.__name__: _case(fused.__name__, fused)
    for fused in (
        right,
        wrong_half,
        missing_mask,
        all_zeros,
        wrong_shape,
        wrong_dtype,
        two_outputs,
        no_tensor,
        writes_inputs,
        nan_result,
        raising,
    )
}
globals().update({f"case_{name}": case for name, case in cases.items()})
case_raising_reference = _case("raising_reference", right, raising_reference)
case_float64_only = _case("float64_only", right, float64_only_reference)
case_says_nothing = _case("says_nothing", all_zeros, zero_reference)
case_too_wide = _case("too_wide", right, limits={"float32": 2.0})
case_gap = _case("gap", right, interpreter_gaps={"float32": "a reason of its own"})
