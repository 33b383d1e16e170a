"""Autotuned kernels, in every way that Triton's decorators allow, and code that times by itself."""

import torch
import triton
import triton.language as tl
import triton.testing

import portkit

PRUNED = []


def body(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    tl.store(y_ptr + offsets, tl.exp(x) * tl.sin(x), mask=offsets < n)


def configs(*settings, **more):
    return [triton.Config({"BLOCK": block}, num_warps=warps, **more) for block, warps in settings]


plain = triton.jit(body)
tuned = triton.autotune(configs((256, 4), (1024, 4), (4096, 4), (8192, 4)), key=["n"])(triton.jit(body))
wide = triton.autotune(configs((4096, 4), (4096, 32)), key=["n"], cache_results=True)(triton.jit(body))
too_wide = triton.autotune(configs((4096, 32), (8192, 32)), key=["n"])(triton.jit(body))


def asserts_body(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 1024)
    body_(x_ptr, y_ptr, n, BLOCK)


def refuses_body(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    body_(x_ptr, y_ptr, n, BLOCK)
    if BLOCK > 1024:
        tl.store(y_ptr + tl.arange(0, BLOCK - 1), 1.0)  # no power of two


body_ = triton.jit(body)
asserts = triton.autotune(configs((4096, 4), (1024, 4), (512, 4)), key=["n"])(triton.jit(asserts_body))
refuses = triton.autotune(configs((1024, 4), (4096, 4), (512, 4)), key=["n"])(triton.jit(refuses_body))
zeroing = triton.autotune(
    configs((256, 4), (1024, 8), pre_hook=lambda named: named["y_ptr"].zero_()),
    key=["n"],
    reset_to_zero=["y_ptr"],
    restore_value=["x_ptr"],
)(triton.jit(body))


def prune(found, named, **rest):
    """What fits the target: 1024 threads."""
    warp = torch.cuda.get_device_properties(0).warp_size
    return [config for config in found if config.num_warps * warp <= 1024]


pruned = triton.autotune(
    configs((1024, 8), (1024, 16), (1024, 32)), key=["n"], prune_configs_by={"early_config_prune": prune}
)(triton.jit(body))
modelled = triton.autotune(
    configs((1024, 8), (2048, 8), (4096, 8)),
    key=["n"],
    prune_configs_by={"perf_model": lambda **named: -named["BLOCK"], "top_k": 2},
)(triton.jit(body))
chosen_by_rule = triton.heuristics({"BLOCK": lambda named: triton.next_power_of_2(named["n"])})(triton.jit(body))
own_timer = triton.autotune(
    configs((256, 4), (1024, 4)), key=["n"], do_bench=lambda call, quantiles: triton.testing.do_bench(call)
)(triton.jit(body))


def run(kernel, x, **more):
    y = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), **more)
    return y


def all_four(x):
    return run(tuned, x)


def tuned_and_plain(x):
    return run(tuned, run(plain, x, BLOCK=2048))


def tuned_twice(x):
    return run(tuned, run(tuned, x))


def some_over_a_limit(x):
    return run(wide, x)


def all_over_a_limit(x):
    return run(plain, run(too_wide, x), BLOCK=256)


def skips_assertions(x):
    return run(asserts, x)


def refused_by_the_front_end(x):
    return run(refuses, x)


def hooks(x):
    return run(zeroing, x)


def pruned_by_the_target(x):
    return run(pruned, x)


def pruned_by_a_model(x):
    return run(modelled, x)


def heuristics(x):
    return run(chosen_by_rule, x)


def times_itself(x):
    return run(own_timer, x)


def prints_a_time(x):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = run(plain, x, BLOCK=512)
    end.record()
    torch.cuda.synchronize()
    print(f"{start.elapsed_time(end) / 3:.3f} ms, {triton.testing.do_bench(lambda: run(plain, x, BLOCK=256))} ms")
    return y


def decides_by_a_time(x):
    times = {each: triton.testing.do_bench(lambda block=each: run(plain, x, BLOCK=block)) for each in (256, 512)}
    return run(plain, x, BLOCK=min(times, key=times.get))


def _case(function):
    return portkit.KernelCase(
        name=function.__name__,
        fused=function,
        reference=lambda x: torch.exp(x) * torch.sin(x),
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((8192,),),
        small_shapes=((8192,),),
        dtypes=("float32",),
        variants={"default": {}},
    )


FUNCTIONS = (
    all_four,
    tuned_and_plain,
    tuned_twice,
    some_over_a_limit,
    all_over_a_limit,
    skips_assertions,
    refused_by_the_front_end,
    hooks,
    pruned_by_the_target,
    pruned_by_a_model,
    heuristics,
    times_itself,
    prints_a_time,
    decides_by_a_time,
)
globals().update({f"CASE_{function.__name__}": _case(function) for function in FUNCTIONS})
