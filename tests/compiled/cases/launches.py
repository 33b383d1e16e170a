"""Grids, inputs and results that a GPU or portkit refuses, one function a kind."""

import torch
import triton
import triton.language as tl

import portkit


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def run(x, *grid):
    y = torch.empty_like(x)
    copy[grid](x, y, x.numel(), BLOCK=256)
    return y


def three_axes(x):
    return run(x, 2, 3, 5)


def tall(x):
    return run(x, 1, 65536)


def deep(x):
    return run(x, 1, 1, 65536)


def wide(x):
    return run(x, 2**24)


def widest(x):
    return run(x, 2**31)


def fraction(x):
    return run(x, x.numel() / 128)


def negative(x):
    return run(x, -1)


def empty(x):
    return run(x, 0)


def empty_and_not(x):
    run(x, 1, 0)
    return run(x, 1)


def many(x):
    for _ in range(2000):
        copy[(1,)](x, x, x.numel(), BLOCK=256)
    return x


def returns_nothing(x):
    run(x, 1)


def returns_a_dict(x):
    return {"y": run(x, 1)}


def without_gradient(x):
    return run(x.detach(), 1)


def plain(x):
    return run(x, 1)


def random_state(x):
    state = torch.cuda.get_rng_state()
    assert (state.dtype, state.shape, len(torch.cuda.get_rng_state_all())) == (torch.uint8, (16,), 1)
    with torch.random.fork_rng(devices=[0]):
        torch.cuda.set_rng_state(state)
    return run(x, 1)


def one(make, shape, dtype):
    return {"x": make.uniform(shape, dtype)}


def by_lengths(make, shape, dtype):
    """Reads values before it knows what else to make."""
    lengths = make.integers((4,), "int32", 1, 2).tolist()
    return {"x": make.uniform((sum(lengths) * shape[0],), dtype)}


def no_work(shape, dtype):
    raise KeyError(f"no model for {shape}")


def _case(function, name=None, **changes):
    given = {
        "name": name or function.__name__,
        "fused": function,
        "reference": lambda x: x.clone(),
        "inputs": one,
        "work": lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        "shapes": ((256,),),
        "small_shapes": ((256,),),
        "dtypes": ("float32",),
        "variants": {"default": {}},
    }
    return portkit.KernelCase(**{**given, **changes})


FUNCTIONS = (
    *(three_axes, tall, deep, wide, widest, fraction, negative, empty, empty_and_not, many),
    *(returns_nothing, returns_a_dict, random_state),
)
globals().update({f"CASE_{function.__name__}": _case(function) for function in FUNCTIONS})
BOTH = (portkit.Direction.FORWARD, portkit.Direction.BACKWARD)
CASE_without_gradient = _case(without_gradient, directions=BOTH)
CASE_lengths = _case(plain, "lengths", inputs=by_lengths)
CASE_worked = _case(plain, "worked", work=no_work)
CASE_worked_wrongly = _case(plain, "worked_wrongly", work=lambda shape, dtype: None)
