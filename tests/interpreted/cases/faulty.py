"""Row sums with planted faults, each a case of its own."""

import torch
import triton
import triton.language as tl

from portkit import Direction, Discrete, KernelCase, Work


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


@triton.jit
def _copy(x_ptr, y_ptr, n, first, BLOCK: tl.constexpr):
    at = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=0.5)
    tl.store(y_ptr + at, x, mask=at < n)


def _copied(x, *, beyond=0, before=0):
    y = torch.empty_like(x)
    n = x.numel() + beyond
    _copy[(triton.cdiv(n + before, 1024),)](x, y, n, -before, BLOCK=1024)
    return y


def one_past_the_end(x):
    return _copied(x, beyond=1)


def one_before_the_start(x):
    return _copied(x, before=1)


def one_past_its_input(x):
    """Its scratch is the input's own memory, and one element more."""
    y = _copied(x)
    _copy[(1,)](y, x, x.numel() + 1, x.numel(), BLOCK=16)
    return y


def half_written(x):
    y = torch.empty_like(x)
    _copy[(1,)](x, y, x.numel() // 2, 0, BLOCK=2048)
    return y


def unsteady(x):
    """Right within its limit, and different each time."""
    return _copied(x) * (1 + 2e-7 * torch.rand(x.shape, device=x.device))


def doubled_in_place(x):
    x.mul_(2)
    return x


def exponential_sums(x):
    """log sum exp of each row, its maximum not taken off first."""
    return torch.log(_launch(torch.exp(x), x.shape[1]))


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


@triton.jit
def _codes(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, tl.floor(x * 0.3 * 100.0 + shift).to(tl.int8), mask=at < n)


def codes(x, *, shift=0.5):
    """round(30 x), by a product that rounds otherwise than the reference's."""
    y = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    _codes[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), shift, BLOCK=1024)
    return y


def codes_off(x):
    return codes(x, shift=0.51)


def codes_reference(x):
    return torch.floor(x * 30.0 + 0.5).to(torch.int8)


def codes_margin(x):
    """Distance of 30 x + 1/2 from the next whole number, relative."""
    wide = x * 30.0 + 0.5
    return (wide - wide.round()).abs() / wide.abs().clamp(min=1.0)


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, factor):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        return _copied(x) * x * weight

    @staticmethod
    def backward(ctx, upstream):
        x, weight = ctx.saved_tensors
        return ctx.factor * _copied(x) * weight * upstream, (_copied(x) * x * upstream).sum(dim=0), None


def squares(x, weight):
    return _Square.apply(x, weight, 2.0)


def squares_wrong_gradient(x, weight):
    return _Square.apply(x, weight, 2.125)


def squares_no_gradient(x, weight):
    return _copied(x.detach()) * x * weight.detach()


def squares_reference(x, weight):
    return x * x * weight


def raising_work(shape, dtype):
    raise KeyError("no such dtype")


def _case(name, fused, reference=sums, **special):
    given = {
        "inputs": lambda make, shape, dtype: {"x": make.uniform(shape, dtype, low=0.0, high=1.0)},
        "work": lambda shape, dtype: Work(1, 1, 1),
        "shapes": ((4, 1000),),
        "small_shapes": ((4, 1000),),
        "dtypes": ("float32",),
        "variants": {"default": {}},
    }
    return KernelCase(name=name, fused=fused, reference=reference, **{**given, **special})


def _two_inputs(make, shape, dtype):
    return {"x": make.uniform(shape, dtype), "weight": make.uniform(shape[-1:], dtype)}


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
for name in ("one_past_the_end", "one_before_the_start", "one_past_its_input", "half_written", "unsteady"):
    globals()[f"case_{name}"] = _case(name, globals()[name], torch.clone, deterministic=True)
case_unsteady_allowed = _case("unsteady_allowed", unsteady, torch.clone)
case_in_place = _case("in_place", doubled_in_place, lambda x: x * 2, in_place=("x",))
case_overflowing = _case("overflowing", exponential_sums, lambda x: torch.logsumexp(x, -1, keepdim=True))
case_codes = _case("codes", codes, codes_reference, discrete={0: Discrete(codes_margin)})
case_codes_exact = _case("codes_exact", codes_off, codes_reference)
case_codes_off = _case("codes_off", codes_off, codes_reference, discrete={0: Discrete(codes_margin)})
for name in ("squares", "squares_wrong_gradient", "squares_no_gradient"):
    globals()[f"case_{name}"] = _case(
        name, globals()[name], squares_reference, inputs=_two_inputs, directions=(Direction.BACKWARD,)
    )
case_raising_work = _case("raising_work", right, work=raising_work)
case_raising_reference = _case("raising_reference", right, raising_reference)
case_float64_only = _case("float64_only", right, float64_only_reference)
case_says_nothing = _case("says_nothing", all_zeros, zero_reference)
case_too_wide = _case("too_wide", right, limits={"float32": 2.0})
case_gap = _case("gap", right, interpreter_gaps={"float32": "a reason of its own"})
