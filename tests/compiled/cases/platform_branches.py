"""Host code that branches on the platform in every way that was seen in public packages."""

import torch
import triton
import triton.language as tl

import portkit

IS_HIP = torch.version.hip is not None  # an import-time branch


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def warps(x):
    y = torch.empty_like(x)
    copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, num_warps=16 if IS_HIP else 32)
    return y


def persistent(x):
    y = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    units = torch.cuda.get_device_properties(x.device).multi_processor_count
    copy[(units,)](x, y, x.numel(), BLOCK=1024)
    return y


def capability(x):
    y = torch.zeros_like(x, device=x.device)
    major, _ = torch.cuda.get_device_capability()
    copy[(1,)](x, y, x.numel(), BLOCK=256, num_warps=8 if major >= 9 else 4)
    return y


def reads_a_value(x):
    limit = int(x.abs().max().item() * 0) + x.numel()
    y = torch.empty_like(x)
    copy[(1,)](x, y, limit, BLOCK=1024)
    return y


def asks_the_unknown(x):
    _ = torch.cuda.get_device_properties(0).clock_rate
    return warps(x)


def misaligned(x):
    y = torch.empty_like(x)
    copy[(1,)](x[1:], y[1:], x.numel() - 1, BLOCK=1024)
    return y


def launches_nothing(x):
    return x.clone()


def raises(x):
    raise ValueError("no such layout")


def asserts_device(x):
    assert x.is_cuda
    assert x.device.type == "cuda"
    assert x.device == torch.device("cuda", 0)
    with torch.cuda.device(x.device):
        return warps(x.to("cuda").cuda())


def _case(function):
    return portkit.KernelCase(
        name=function.__name__,
        fused=function,
        reference=lambda x: x.clone(),
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((4096,),),
        small_shapes=((4096,),),
        dtypes=("float32", "bfloat16"),
        variants={"default": {}},
    )


FUNCTIONS = (
    warps,
    persistent,
    capability,
    reads_a_value,
    asks_the_unknown,
    misaligned,
    launches_nothing,
    raises,
    asserts_device,
)
globals().update({f"CASE_{function.__name__}": _case(function) for function in FUNCTIONS})
