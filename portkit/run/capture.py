"""Captures the launches of an unmodified host function for a GPU that is absent.

A driver of our own is made Triton's active one. The launch path then does all
that it does on the target (specialisation, options, compilation), and the launch
itself is recorded instead of made. On a host that has the GPU the same recorder
only listens, and the launch goes on.

Hooks used, all in this file: ``CompiledKernel._init_handles`` (never raises
OutOfResources, so that later launches are seen: limits are recorded) and
``CompiledKernel.run`` (launches on a device), ``triton.compiler.compile`` (time of each
build, and the last one before a crash).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
import triton
import triton.compiler
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from portkit.model import Build, Launch, Resources, Target, digest
from portkit.run.binaries import read_resources
from portkit.run.miscompiled import missing_parts
from portkit.run.shim import Answers
from portkit.targets.occupancy import broken_limits, occupancy

CompiledKernel = triton.compiler.CompiledKernel

_LLVM_OCCUPANCY = re.compile(r"^\s*;\s*Occupancy:\s*(\d+)", re.M)


class Recorder:
    """Collects the launches of one call after another.

    Args:
        target: the GPU that kernels are built for.
        on_compile: told the kernel's name before each build, so that a
            compiler that takes the process down is known by name.
        on_compiled: told when the compiler has come back, whatever it brought.
    """

    def __init__(
        self,
        target: Target,
        on_compile: Callable[[str], None] = lambda name: None,
        on_compiled: Callable[[], None] = lambda: None,
    ) -> None:
        self.target = target
        self.on_compile = on_compile
        self.on_compiled = on_compiled
        self._launches: list[tuple[Launch, str]] = []
        self.trial = False  # inside an autotuner's benchmark
        self.compile_seconds: dict[str, float] = {}  # cache hash → seconds, absent for cache hits
        self._hits: set[str] = set()

    def record(self, kernel: Any, grid: tuple[int, int, int]) -> None:
        """Add one launch of a compiled kernel."""
        self._launches.append((self.describe(kernel, grid), kernel.hash))

    def take(self) -> Build:
        """The build of all launches since the last call, and forget them."""
        taken, self._launches = self._launches, []
        return Build(tuple(launch for launch, _ in taken), digest([cache_hash for _, cache_hash in taken]))

    def describe(self, kernel: Any, grid: tuple[int, int, int]) -> Launch:
        """All that is known of a launch from its binary and its specialisation."""
        meta = kernel.metadata
        resources = kernel_resources(kernel, self.target)
        arch = self.target.architecture
        needs = {
            "registers": resources.registers_per_thread,
            "shared_bytes": resources.shared_bytes_per_block,
            "threads": resources.threads_per_block,
            "tensor_memory_columns": resources.raw.get("tensor_memory_columns", 0),
        }
        return Launch(
            kernel=kernel.name,
            grid=grid,
            num_warps=meta.num_warps,
            num_stages=getattr(meta, "num_stages", 0),
            resources=resources,
            occupancy=occupancy(arch, **needs),
            specialization=_specialization(kernel.src),
            constants=_constants(kernel.src),
            options=_options(kernel),
            compile_seconds=self.compile_seconds.get(kernel.hash),
            binary_hash=hashlib.sha256(kernel.kernel).hexdigest()[:16],
            lacks=missing_parts(kernel.asm, kernel.kernel),
            limits_broken=broken_limits(arch, **needs),
            trial=self.trial,
        )

    def timed_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``triton.compile``: say its name first, keep its seconds after."""

        def compile(src: Any, target: Any = None, options: Any = None, **rest: Any) -> Any:
            self.on_compile(getattr(src, "name", "kernel"))
            start = time.perf_counter()
            try:
                kernel = original(src, target=target, options=options, **rest)
            finally:
                self.on_compiled()
            if kernel.hash not in self._hits:
                self.compile_seconds[kernel.hash] = time.perf_counter() - start
            return kernel

        return compile

    def listen(self, *, metadata: Any, cache_hit: bool, **_: Any) -> None:
        """Triton's compilation listener: tells builds from cache hits."""
        name = metadata["hash"] if isinstance(metadata, dict) else metadata.hash
        if cache_hit:
            self._hits.add(name)


def capture(recorder: Recorder, answers: Answers) -> None:
    """From here on, every launch in this process is recorded and not made."""
    triton.runtime.driver.set_active(AbsentDriver(recorder, answers))

    def init_handles(kernel: Any) -> None:
        if kernel.module is None:
            kernel.module, kernel.function = object(), 0
            resources = kernel_resources(kernel, recorder.target)
            _set_load_figures(kernel, resources, recorder.target.architecture.max_threads_per_block)
            kernel._run = _launcher(recorder, kernel)

    CompiledKernel._init_handles = init_handles
    _hook_compiler(recorder)


@contextlib.contextmanager
def observe(
    target: Target,
    on_compile: Callable[[str], None] = lambda name: None,
    on_compiled: Callable[[], None] = lambda: None,
) -> Iterator[Recorder]:
    """Record the launches that really happen on the device of this host."""
    recorder = Recorder(target, on_compile, on_compiled)
    run, build = CompiledKernel.run, triton.compiler.compile

    def observed_run(kernel: Any) -> Callable[..., Any]:
        return _launcher(recorder, kernel, run.fget(kernel))

    # The class's property and not a kernel's own launcher: loaded kernels are seen
    # too, and nothing stays behind to slow the launches that are timed.
    CompiledKernel.run = property(observed_run)
    _hook_compiler(recorder)
    try:
        yield recorder
    finally:
        CompiledKernel.run, triton.compiler.compile = run, build
        triton.knobs.compilation.listener = None


class AbsentDriver(DriverBase):
    """Triton's driver interface for a GPU that is not there."""

    def __init__(self, recorder: Recorder, answers: Answers) -> None:
        super().__init__()
        self.recorder = recorder
        self.utils = _AbsentUtils(answers)

    @classmethod
    def is_active(cls) -> bool:
        """Never chosen by itself, only by ``set_active``."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """No launcher is built, so a type needs no C++ name."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """The target in Triton's words."""
        arch = self.recorder.target.architecture
        return GPUTarget(arch.triton_backend, arch.triton_arch, arch.wave_size)

    def get_active_torch_device(self) -> torch.device:
        """The device that tensors claim to be on."""
        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """The only device stays current."""

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_device_interface(self) -> Any:
        """HIP and CUDA share torch.cuda."""
        return torch.cuda

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Major and minor of the target."""
        major, minor = torch.cuda.get_device_capability()
        return major, minor

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """An autotuner's benchmark: launches once, marked as a trial; all configurations tie."""

        def benchmark(kernel_call: Callable[[], Any], *, quantiles: Any = None, **_: Any) -> list[float]:
            self.recorder.trial = True
            try:
                kernel_call()
            finally:
                self.recorder.trial = False
            return [1.0] * len(quantiles or (0.5,))

        return benchmark

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Nothing to evict."""
        return torch.empty(0)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Nothing to evict."""


class _AbsentUtils:
    """The driver's C helpers: only the device query is ever asked."""

    _NAMES: ClassVar = {  # Triton's name → torch's
        "max_shared_mem": "shared_memory_per_block_optin",
        "max_num_regs": "regs_per_multiprocessor",
        "multiprocessor_count": "multi_processor_count",
        "warpSize": "warp_size",
        "sm_clock_rate": "clock_rate",
        "mem_clock_rate": "memory_clock_rate",
        "mem_bus_width": "memory_bus_width",
    }

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def get_device_properties(self, device: int) -> Any:
        return _TritonProperties(self._answers, self._NAMES)


class _TritonProperties:
    """A mapping that logs what is read, by torch's names."""

    def __init__(self, answers: Answers, names: dict[str, str]) -> None:
        self._answers, self._names = answers, names

    def __getitem__(self, name: str) -> Any:
        return self._answers[self._names[name]]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._names else default


def kernel_resources(kernel: Any, target: Target) -> Resources:
    """Resources of a compiled kernel, from its binary and its metadata."""
    arch, meta = target.architecture, kernel.metadata
    resources: Resources = read_resources(
        arch.platform,
        kernel.kernel,
        kernel=kernel.name,
        shared_bytes=meta.shared,
        num_warps=meta.num_warps,
        warp_size=arch.wave_size,
    )
    return dataclasses.replace(resources, raw={**resources.raw, **_triton_figures(kernel)})


def _triton_figures(kernel: Any) -> dict[str, int]:
    """Figures that only Triton's metadata and LLVM's comments know."""
    figures: dict[str, int] = {}
    if columns := getattr(kernel.metadata, "tmem_size", None):
        figures["tensor_memory_columns"] = columns
    if match := _LLVM_OCCUPANCY.search(kernel.asm.get("amdgcn", "")):
        figures["llvm_waves_per_simd"] = int(match[1])
    return figures


def _hook_compiler(recorder: Recorder) -> None:
    triton.compiler.compile = recorder.timed_compile(triton.compiler.compile)
    triton.knobs.compilation.listener = recorder.listen


def _launcher(recorder: Recorder, kernel: Any, launch: Callable[..., Any] | None = None) -> Callable[..., Any]:
    def run(gx: int, gy: int, gz: int, *rest: Any) -> Any:
        recorder.record(kernel, (int(gx), int(gy), int(gz)))
        return launch(gx, gy, gz, *rest) if launch else None

    return run


def _set_load_figures(kernel: Any, resources: Resources, max_threads: int) -> None:
    """What loading would tell: host code such as a persistent softmax sizes its grid by it."""
    kernel.n_regs = resources.registers_per_thread
    kernel.n_spills = resources.spill_bytes_per_thread // 4
    kernel.n_max_threads = max_threads


def _specialization(src: Any) -> dict[str, str]:
    marks: dict[int, str] = {}
    for path, attributes in src.attrs.items():
        if len(path) == 1 and attributes:
            marks[path[0]] = " ".join(f"{str(name).removeprefix('tt.')}={value}" for name, value in attributes)
    return {
        name: f"{ty} {marks[i]}" if i in marks else str(ty)
        for i, (name, ty) in enumerate(src.signature.items())
        if ty != "constexpr"
    }


def _constants(src: Any) -> dict[str, str]:
    names = list(src.signature)
    return {".".join([names[p[0]], *map(str, p[1:])]): str(value) for p, value in src.constants.items()}


def _options(kernel: Any) -> dict[str, Any]:
    """Options of the build that differ from the backend's defaults."""
    meta = kernel.metadata
    default = triton.compiler.make_backend(meta.target).parse_options({})
    chosen = {k: getattr(meta, k) for k in vars(default) if hasattr(meta, k)}
    return {k: v for k, v in chosen.items() if _plain(v) and v != getattr(default, k) and k != "warp_size"}


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
