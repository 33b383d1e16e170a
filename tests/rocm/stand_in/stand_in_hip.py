"""A device of HIP that is not there: for tests alone, on a host without a GPU.

torch's CUDA-named API answers as a ROCm build does on the SKU that PORTKIT_STAND_IN names.
Tensors lie in the host's memory and claim the device. Triton compiles for the SKU; a launch is
executed by the instruction interpreter, on AMD's machine code. Time is that of a clock which
kernels and operations move on, each by a fixed amount and a jitter of one in a hundred:
it means nothing. A report made so has PORTKIT_STAND_IN among its settings, and no merge takes it.

Each dispatch is written to the file that STAND_IN_DISPATCHES names, if it does.
"""

import atexit
import json
import os
import random
from dataclasses import asdict, dataclass
from pathlib import Path

KERNEL_NS = 5_000
OPERATION_NS = 3_000
EVENT_NS = 200
WAIT_GHZ = 2.1
LARGE = 1 << 24
"""Elements of a tensor that is only ever read to flush caches: it takes no memory."""


@dataclass
class Dispatch:
    """A kernel that ran."""

    name: str
    blocks: tuple
    threads: tuple
    lds: int
    start_ns: int
    nanoseconds: int


class Device:
    """Its clock, and what ran on it."""

    def __init__(self):
        self.now_ns = 0
        self.dispatches = []
        self._random = random.Random(0)

    def run(self, name, nanoseconds, blocks=(64, 1, 1), threads=(256, 1, 1), lds=0):
        nanoseconds += self._random.randrange(nanoseconds // 100)
        self.dispatches.append(Dispatch(name, blocks, threads, lds, self.now_ns, nanoseconds))
        self.now_ns += nanoseconds + 500

    def leave(self, path):
        Path(path).write_text(json.dumps([asdict(each) for each in self.dispatches]))


DEVICE = Device()
_laid = []


def lay():
    """Lay the device under torch and Triton in this process, for good."""
    if _laid:
        return
    _laid.append(True)
    import torch

    from portkit.run.shim import install
    from portkit.targets.catalog import load_catalog

    target = load_catalog().get(os.environ["PORTKIT_STAND_IN"])
    answers, mode = install(target, backing="cpu")
    torch.set_num_threads(1)
    _answer_as_hip(torch, target, answers)
    _keep_time(torch)
    _trace()
    _launch(torch, target, answers, mode)
    _claim(torch, mode)
    if path := os.environ.get("STAND_IN_DISPATCHES"):
        atexit.register(DEVICE.leave, path)


def _answer_as_hip(torch, target, answers):
    """What the shim of an absent device leaves open, since no host code may depend on it."""
    values = answers._values
    values.update(pci_domain_id=0, pci_bus_id=5, pci_device_id=0, L2_cache_size=4 << 20)
    values["uuid"] = "64653832-3837-3330-3064-613337633732"
    torch.version.rocm = None
    torch.cuda.get_device_properties = lambda device=None: _Properties(values)
    torch.cuda._is_in_bad_fork = lambda: False


class _Properties:
    """Properties as torch gives them; nothing is logged."""

    def __init__(self, values):
        self.__dict__.update({name: value for name, value in values.items() if value is not None})


def _keep_time(torch):
    class Event:
        """Takes the device's clock where it is recorded."""

        def __init__(self, *given, **more):
            self._at = None

        def record(self, stream=None):
            DEVICE.now_ns += EVENT_NS
            self._at = DEVICE.now_ns

        def query(self):
            return False  # the device is held back until the host has enqueued all

        def wait(self, stream=None):
            pass

        synchronize = wait

        def elapsed_time(self, end):
            return (end._at - self._at) / 1e6

    def sleep(cycles):
        DEVICE.now_ns += int(cycles / WAIT_GHZ)

    torch.cuda.Event, torch.cuda._sleep = Event, sleep


def _trace():
    """torch.profiler, as far as the device's trace is read."""
    from portkit.run.timing import trace

    class Profile:
        def __init__(self, **given):
            self._from = None

        def __enter__(self):
            self._from = len(DEVICE.dispatches)
            return self

        def __exit__(self, *error):
            self._ran = DEVICE.dispatches[self._from :]

        @property
        def kineto_results(self):
            return self

        def events(self):
            return [_Activity(number, each) for number, each in enumerate(self._ran)]

    trace.profile = Profile


class _Activity:
    """A kernel as Kineto has it, by the name of its descriptor."""

    def __init__(self, number, dispatch):
        self._number, self._dispatch = number, dispatch

    def device_type(self):
        from torch.profiler import DeviceType

        return DeviceType.CUDA

    def is_user_annotation(self):
        return False

    def name(self):
        return f"{self._dispatch.name}.kd"

    def correlation_id(self):
        return self._number

    def start_ns(self):
        return self._dispatch.start_ns

    def duration_ns(self):
        return self._dispatch.nanoseconds


def _launch(torch, target, answers, mode):
    """Triton's driver of the SKU, whose launches are executed."""
    import triton
    from triton.compiler import CompiledKernel

    from portkit.emulate import Options, run
    from portkit.run import launch_values
    from portkit.run.absent import AbsentDriver
    from portkit.run.capture import kernel_resources

    # As on a device, nobody stops an access beside a tensor: it meets the guard bands.
    launch_values.extent = lambda tensor: (0, tensor.untyped_storage().nbytes())
    launch_values.written_bytes = lambda tensor: None
    wave = target.architecture.wave_size

    def launcher(kernel):
        meta = kernel.metadata

        def launch(gx, gy, gz, stream, *rest):
            with torch._C.DisableTorchFunction():
                values = launch_values.launch_values(kernel.src.signature, rest[5:])
                run(
                    kernel.asm["amdgcn"],
                    target.architecture.name,
                    (gx, gy, gz),
                    values,
                    waves=meta.num_warps,
                    shared_bytes=meta.shared,
                    options=Options(budget=1_000_000_000, check=False),
                )
            DEVICE.run(kernel.name, KERNEL_NS, (gx, gy, gz), (meta.num_warps * wave, 1, 1), meta.shared)

        return launch

    def init_handles(kernel):
        if kernel.module is None:
            needs = kernel_resources(kernel, target)
            kernel.module, kernel.function = object(), 0
            kernel.n_regs, kernel.n_spills = needs.registers_per_thread, needs.spill_bytes_per_thread // 4
            kernel.n_max_threads = target.architecture.max_threads_per_block
            kernel._run = launcher(kernel)

    CompiledKernel._init_handles = init_handles
    triton.runtime.driver.set_active(AbsentDriver(target, answers, lambda *given, **more: [1.0] * 3))


def _claim(torch, mode):
    """From here on every tensor claims the device, and an operation on them counts as a kernel."""
    original = type(mode).__torch_function__

    def counted(self, func, types, args=(), kwargs=None):
        if func is torch.ones and args and isinstance(args[0], int) and args[0] > LARGE:
            return original(self, torch.ones, types, (1,), kwargs).expand(args[0])
        if func is torch.amax and args[0].numel() > LARGE:
            DEVICE.run("at::native::reduce_kernel<512, 1>", OPERATION_NS)
            return args[0][0]
        result = original(self, func, types, args, kwargs)
        name = getattr(func, "__name__", "")
        if isinstance(result, torch.Tensor) and not name.startswith("__") and name not in _NO_KERNEL:
            DEVICE.run(f"at::native::elementwise_kernel<{name}>", OPERATION_NS)
        return result

    type(mode).__torch_function__ = counted
    mode.__enter__()


_NO_KERNEL = frozenset(
    {"view", "reshape", "expand", "transpose", "permute", "detach", "flatten", "contiguous", "requires_grad_", "to"}
    | {"empty", "empty_like", "unsqueeze", "squeeze", "t", "cuda", "cpu", "narrow", "split", "as_strided"}
)
"""Functions that return a tensor and mostly launch nothing."""
