"""Host code that does with torch and Triton what public packages do, one function a trap."""

import threading

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import portkit

DEVICE = triton.runtime.driver.active.get_active_torch_device()  # at import, as the tutorials do
WARPS = 16 if torch.cuda.get_device_properties(0).warp_size == 64 else 32  # an import-time branch


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def many_arguments(x_ptr, y_ptr, none, flag, one, small, large, wide, scale, n: tl.constexpr):
    offsets = tl.arange(0, n)
    x = tl.load(x_ptr + offsets)
    if flag:
        x = x * scale + one + small + large + wide
    if none is not None:
        x += tl.load(none)
    tl.store(y_ptr + offsets, x)


@triton.jit
def sum_rows(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + offsets)))


@triton.jit
def copy_tile(descriptor, y_ptr, BLOCK: tl.constexpr):
    tile = descriptor.load([tl.program_id(0) * BLOCK, 0])
    offsets = tl.arange(0, BLOCK)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y_ptr + offsets, tile)


@triton.jit
def copy_by_own_descriptor(x_ptr, y_ptr, rows, BLOCK: tl.constexpr):
    descriptor = tl.make_tensor_descriptor(x_ptr, [rows, 64], [64, 1], [BLOCK, 64])
    tile = descriptor.load([tl.program_id(0) * BLOCK, 0])
    offsets = tl.arange(0, BLOCK)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y_ptr + offsets, tile)


def run(x, y=None, **options):
    y = torch.empty_like(x) if y is None else y
    copy[(1,)](x, y, x.numel(), BLOCK=256, **options)
    return y


def import_time_branch(x):
    assert DEVICE.type == "cuda"
    return run(x, num_warps=WARPS)


def allocates_everywhere(x):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(1)
    made = [
        torch.empty(4, device="cuda"),
        torch.zeros(4, device="cuda:0"),
        torch.ones(4, device=0),
        torch.full((4,), 2.0, device=torch.device("cuda")),
        torch.arange(4, device=x.device),
        torch.tensor([1.0, 2.0], device="cuda"),
        torch.rand(4, device="cuda", generator=generator),
        torch.randn(4, device="cuda"),
        torch.randint(0, 4, (4,), device="cuda"),
        torch.randperm(4, device="cuda"),
        torch.empty_like(x, device="cuda"),
        x.new_empty(4),
        x.new_zeros(4, device="cuda"),
        torch.empty(4).cuda(),
        torch.empty(4).to("cuda"),
        torch.empty(4).to(0),
        torch.empty(4, pin_memory=True).to("cuda", non_blocking=True),
        torch.empty(4).pin_memory().cuda(),
    ]
    with torch.device("cuda"):
        made.append(torch.empty(4))
    assert all(each.is_cuda and each.device == torch.device("cuda", 0) for each in made)
    assert generator.device == torch.device("cuda", 0)
    assert torch.empty(4).device.type == "cpu"
    return run(x, torch.empty(x.shape, dtype=x.dtype, device=x.get_device()))


def default_device(x):
    torch.set_default_device("cuda")
    y = torch.empty(x.shape, dtype=x.dtype)
    assert y.is_cuda
    assert torch.get_default_device().type == "cuda"
    torch.set_default_device("cpu")
    assert torch.empty(1).device.type == "cpu"
    torch.set_default_device(None)
    return run(x, y)


def asks_torch(x):
    properties = torch.cuda.get_device_properties(x.device)
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor)
    assert torch.cuda.get_device_name(0) == properties.name
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.device_count() == torch.accelerator.device_count() == 1
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.accelerator.memory_allocated() == 0
    with torch.accelerator.device_index(0):
        pass
    assert torch.cuda.current_device() == torch.accelerator.current_device_index() == 0
    assert torch.get_device_module("cuda") is torch.cuda
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        x.record_stream(torch.cuda.current_stream())
    torch.cuda.nvtx.range_push("copy")
    y = run(x)
    torch.cuda.nvtx.range_pop()
    torch.cuda.current_stream().record_event().synchronize()
    torch.cuda.synchronize()
    return y


def asks_triton(x):
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    target = active.get_current_target()
    assert target.warp_size == properties["warpSize"]
    assert active.get_device_interface() is torch.cuda
    resident = properties["max_num_regs"] // (32 * target.warp_size)
    assert properties["max_shared_mem"] >= 65536
    return run(x, num_warps=min(4, resident))


def asks_the_binary(x):
    """The persistent softmax of Triton's tutorials."""
    y = torch.empty_like(x)
    kernel = copy.warmup(x, y, x.numel(), BLOCK=256, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0
    kernel[(64 // kernel.n_regs + 1, 1, 1)](x, y, x.numel(), 256)
    return y


def graph(x):
    y = torch.empty_like(x)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        run(x, y)
    captured.replay()
    return y


def autocast(x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        product = x.reshape(-1, 16) @ x.reshape(-1, 16).t()
    with torch.autocast("cuda", dtype=torch.float16):
        norm = torch.nn.functional.softmax(product, dim=-1)
    assert (product.dtype, norm.dtype) == (torch.bfloat16, torch.float32)
    return run(product.reshape(-1)[: x.numel()])


def wider_product(x):
    low = x.reshape(-1, 16).to(torch.bfloat16)
    product = torch.mm(low, low.t(), out_dtype=torch.float32)  # as of GPUs alone
    torch.addmm(product, low, low.t(), out_dtype=torch.float32, out=product)
    assert product.dtype == torch.float32
    return run(product.reshape(-1)[: x.numel()])


def in_a_thread(x):
    y = []
    thread = threading.Thread(target=lambda: y.append(run(torch.ones(256, device="cuda"))))
    thread.start()
    thread.join()
    return y[0]


def reads_values(x):
    """Every way of looking into a tensor; each is a call of its own in the test."""
    reads = {
        1: lambda: float(x.sum()),
        2: lambda: sum(x[:2].tolist()),
        3: lambda: bool((x > 2).any()),
        4: lambda: x.nonzero().shape,
        5: lambda: len(x[x > 0]),
        6: lambda: torch.equal(x, x),
        7: lambda: x.cpu().numpy().sum(),
        8: lambda: x.unique().numel(),
        9: lambda: f"{x.sum():.3f}",
        10: lambda: int(x.argmax()),
        11: lambda: torch.allclose(x, x),
        12: lambda: x.to("cpu"),
    }
    reads[x.numel() // 256]()
    return run(x)


def host_tensor_to_a_kernel(x):
    return run(x, torch.empty(x.shape, dtype=x.dtype))


def after_a_broken_limit(x):
    """2048 threads on AMD; what comes after it must be seen."""
    return run(run(x, num_warps=32))


@torch.library.custom_op("portkit_test::copied", mutates_args=())
def copied(x: torch.Tensor) -> torch.Tensor:
    return run(x)


@copied.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("portkit_test::copied_cuda", mutates_args=(), device_types="cuda")
def copied_cuda(x: torch.Tensor) -> torch.Tensor:
    return run(x)


@torch.library.triton_op("portkit_test::copied_open", mutates_args=())
def copied_open(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(copy)[(1,)](x, y, x.numel(), BLOCK=256)
    return y


library = torch.library.Library("portkit_test_library", "DEF")
library.define("copied(Tensor x) -> Tensor")
library.impl("copied", run, "CUDA")


@torch.library.register_fake("portkit_test_library::copied", lib=library)
def _(x):
    return torch.empty_like(x)


def custom_op(x):
    return torch.ops.portkit_test.copied(copied(x))


def custom_op_of_cuda(x):
    return copied_cuda(x)


def open_op(x):
    return copied_open(x)


def library_op(x):
    return torch.ops.portkit_test_library.copied(x)


@torch.compile(dynamic=False)
def compiled(x):
    return run(x) + 1


def uses_a_compiled_function(x):
    return compiled(x)


def arguments(x):
    y = torch.empty_like(x)
    many_arguments[(1,)](x[1:], y, None, True, 1, 16, 2**40, 7, 0.5, n=128)
    return y


def descriptor_of_the_host(x):
    y = torch.empty(4 * 64, dtype=x.dtype, device=x.device)
    copy_tile[(1,)](TensorDescriptor.from_tensor(x.view(-1, 64), [4, 64]), y, BLOCK=4)
    return y


def descriptor_of_the_kernel(x):
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    y = torch.empty(4 * 64, dtype=x.dtype, device=x.device)
    copy_by_own_descriptor[(1,)](x, y, x.numel() // 64, BLOCK=4)
    return y


def descriptor_without_an_allocator(x):
    y = torch.empty(4 * 64, dtype=x.dtype, device=x.device)
    copy_by_own_descriptor[(1,)](x, y, x.numel() // 64, BLOCK=4)
    return y


def cooperative(x):
    copy[(x.numel(),)](x, torch.empty_like(x), x.numel(), BLOCK=256, launch_cooperative_grid=True)
    return x


def cluster(x):
    return run(x, num_ctas=2)


def raises_in_a_grid(x):
    copy[lambda meta: (x.numel() // (meta["BLOCK"] - 256),)](x, torch.empty_like(x), x.numel(), BLOCK=256)


def unknown_option(x):
    return run(x, num_wraps=4)


class Scaled(torch.autograd.Function):
    """Forward copies with 4 warps, backward with 8 on as many blocks as there are units."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        assert x.is_cuda
        assert dy.is_cuda
        units = torch.cuda.get_device_properties(x.device).multi_processor_count
        dx = torch.empty_like(dy, device="cuda")
        copy[(units,)](dy, dx, dy.numel(), BLOCK=256, num_warps=8)
        return dx


class Early(torch.autograd.Function):
    """The forward pass computes the gradient; the backward pass launches nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(run(x, num_warps=2))
        return x.sum()

    @staticmethod
    def backward(ctx, dy):
        return ctx.saved_tensors[0] * dy


def scaled(x):
    return Scaled.apply(x)


def early(x):
    return Early.apply(x)


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda each: Scaled.apply(each * 2), x, use_reentrant=False)


def _case(function, directions=(portkit.Direction.FORWARD,)):
    return portkit.KernelCase(
        name=function.__name__,
        fused=function,
        reference=lambda x: x.clone(),
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((256,),),
        small_shapes=((256,),),
        dtypes=("float32", "float16"),
        variants={"default": {}},
        directions=directions,
    )


FUNCTIONS = (
    import_time_branch,
    allocates_everywhere,
    default_device,
    asks_torch,
    asks_triton,
    asks_the_binary,
    graph,
    autocast,
    wider_product,
    in_a_thread,
    reads_values,
    host_tensor_to_a_kernel,
    after_a_broken_limit,
    custom_op,
    custom_op_of_cuda,
    open_op,
    library_op,
    uses_a_compiled_function,
    arguments,
    descriptor_of_the_host,
    descriptor_of_the_kernel,
    descriptor_without_an_allocator,
    cooperative,
    cluster,
    raises_in_a_grid,
    unknown_option,
)
BOTH = (portkit.Direction.FORWARD, portkit.Direction.BACKWARD)
globals().update({f"CASE_{function.__name__}": _case(function) for function in FUNCTIONS})
globals().update({f"CASE_{function.__name__}": _case(function, BOTH) for function in (scaled, early, checkpointed)})
