"""Host code that leaves something behind, or that asks which SKU it is on before it goes wrong."""

import os
import subprocess
import threading
import time

import torch
import triton
import triton.language as tl

import portkit

if "PORTKIT_SESSION" in os.environ:  # in a worker: a file that is read leaves nothing
    threading.Thread(target=lambda: time.sleep(600)).start()
    subprocess.Popen(["sleep", "611"])


@triton.jit
def copy(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


def lingers(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=256)
    return y


def exits_on_h100(x):
    if "H100" in torch.cuda.get_device_name(0):
        os._exit(3)
    return lingers(x)


def exits_after_a_kernel_on_h100(x):
    y = lingers(x)
    if "H100" in torch.cuda.get_device_name(0):
        os._exit(3)
    return y


def looks_for_the_interpreter(x):
    if os.environ.get("TRITON_INTERPRET"):
        raise RuntimeError("the host seems to have Triton's interpreter on")
    return lingers(x)


def _case(function):
    return portkit.KernelCase(
        name=function.__name__,
        fused=function,
        reference=torch.clone,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((256,),),
        small_shapes=((256,),),
        dtypes=("float32",),
        variants={"default": {}},
    )


CASES = [
    _case(function) for function in (lingers, exits_on_h100, exits_after_a_kernel_on_h100, looks_for_the_interpreter)
]
globals().update({f"{case.name}_case": case for case in CASES})
