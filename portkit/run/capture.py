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
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import triton
import triton.compiler
from triton.runtime import _allocation

from portkit.model import Build, Launch, Occupancy, Outcome, Resources, Target, digest
from portkit.run.absent import AbsentDriver
from portkit.run.binaries import read_resources
from portkit.run.binaries.amdgcn_text import allocated_registers, assembly_figures
from portkit.run.grids import Grid, broken_grid, whole
from portkit.run.hints import ignored_hints
from portkit.run.loaded import ask_driver
from portkit.run.locks import one_builder
from portkit.run.miscompiled import missing_parts
from portkit.run.shim import Answers, ClaimDevice, LaunchRefusedError
from portkit.run.signals import read_signals
from portkit.run.texts import TextsOfBuilds
from portkit.run.tuning import TunedCall, follow_absent, marked_trials, summarize, timer_of_nothing
from portkit.targets.occupancy import broken_limits, occupancy

_BEFORE_ARGUMENTS = 6
"""What a launcher takes between the grid and the kernel's arguments: stream, function, metadata, hooks."""

CompiledKernel = triton.compiler.CompiledKernel


@dataclass(frozen=True)
class _Recorded:
    launch: Launch
    cache_hash: str
    call: TunedCall | None  # that it is a trial of, on an absent target

    def final(self, count: int, *, keep_forward: bool) -> Launch:
        """The launch with the marks that hold once all launches are known."""
        trial = self.launch.trial and not (self.call and self.call.settled)
        forward = self.launch.forward and keep_forward
        return dataclasses.replace(self.launch, trial=trial, forward=forward, count=count)


class Recorder:
    """Collects the launches of one call after another.

    Args:
        target: the GPU that kernels are built for.
        on_compile: told the kernel's name before each build, so that a
            compiler that takes the process down is known by name.
        on_compiled: told when the compiler has come back, whatever it brought.
        loads: whether kernels are loaded onto a device, so that its driver can be asked.
        texts: is given every kernel that is described.
    """

    def __init__(
        self,
        target: Target,
        on_compile: Callable[[str], None] = lambda name: None,
        on_compiled: Callable[[], None] = lambda: None,
        *,
        loads: bool = False,
        texts: TextsOfBuilds | None = None,
    ) -> None:
        self.target = target
        self.texts = texts or TextsOfBuilds()
        self.loads = loads
        self.on_compile = on_compile
        self.on_compiled = on_compiled
        self.answers: Answers | None = None  # what host code asks of an absent target
        self.trial = False  # inside an autotuner's benchmark
        self.configuration = ""  # that is tried
        self.gradients = False  # the cell is about the backward pass
        self.silent = False  # inside a benchmark of host code's own
        self.chosen_only = False  # of an autotuner's configurations, only the first that can run is asked for
        self.call: TunedCall | None = None  # call of an autotuned kernel under way on an absent target
        self.calls: list[TunedCall] = []
        self.compile_seconds: dict[str, float] = {}  # cache hash → seconds, absent for cache hits
        self._hits: set[str] = set()
        self._launches: list[_Recorded] = []
        self._counts: list[int] = []  # how often each of them was made
        self._places: dict[tuple[str, Grid, bool], int] = {}  # of those that are no trials
        self._tried: set[tuple[str, Grid]] = set()
        self._idle: list[str] = []
        self._known: dict[str, Launch] = {}  # cache hash → what every launch of the kernel has alike

    def record(self, kernel: Any, grid: Grid, arguments: Sequence[Any] = ()) -> None:
        """Add one launch of a compiled kernel; of trials one a kernel and grid.

        Args:
            kernel: Triton's compiled kernel.
            grid: blocks in each direction.
            arguments: what it is launched with; of launches that are alike, the first's count.
        """
        if 0 in grid:
            self._idle.append(kernel.name)
            return
        if self.silent or (self.call and not self.trial) or (self.trial and self._seen(kernel.hash, grid)):
            return
        if not self.trial and not self._new(kernel.hash, grid):
            return
        elements, size = extents(arguments)
        launch = dataclasses.replace(self.describe(kernel, grid), largest_elements=elements, largest_bytes=size)
        self._counts.append(1)
        self._launches.append(_Recorded(launch, kernel.hash, self.call))
        if self.call:
            self.call.launches.append(launch)

    def take(self) -> Build:
        """The build of all launches since the last call, and forget them."""
        recorded, counts, calls = self._launches, self._counts, self.calls
        self.clear()
        forward = any(not x.launch.forward for x in recorded) or any(not call.forward for call in calls)
        launches = tuple(x.final(n, keep_forward=forward) for x, n in zip(recorded, counts, strict=True))
        ran = [call for call in calls if call.launches or call.failed]  # not those of an empty grid
        open_calls = [call for call in ran if not call.settled and not (forward and call.forward)]
        certain = [x for x in launches if not x.trial and not x.forward]
        built = [x.cache_hash for x, n in zip(recorded, counts, strict=True) for _ in range(n)]
        return Build(launches, digest(built), tuning=summarize(open_calls, certain))

    @property
    def forward(self) -> bool:
        """Whether this is the forward pass of a backward cell: no task of autograd is under way."""
        return self.gradients and torch._C._current_graph_task_id() == -1

    def clear(self) -> None:
        """Forget what was recorded."""
        self._launches, self._counts, self._places = [], [], {}
        self.calls, self._tried, self._idle = [], set(), []

    @property
    def idle(self) -> tuple[str, ...]:
        """Kernels launched with an empty grid, of which nothing runs."""
        return tuple(dict.fromkeys(self._idle))

    def fatal(self) -> Outcome | None:
        """What a configuration failed with, if that ends the call on a device."""
        return next((call.fatal for call in self.calls if call.fatal), None)

    def _new(self, cache_hash: str, grid: Grid) -> bool:
        """Whether this launch was not yet made alike; counts it if it was."""
        key = (cache_hash, grid, self.forward)
        if key in self._places:
            self._counts[self._places[key]] += 1
            return False
        self._places[key] = len(self._launches)
        return True

    def _seen(self, cache_hash: str, grid: Grid) -> bool:
        """Whether a trial on a device made this launch before; it makes hundreds."""
        known = self.call is None and (cache_hash, grid) in self._tried
        self._tried.add((cache_hash, grid))
        return known

    def describe(self, kernel: Any, grid: Grid) -> Launch:
        """All that is known of a launch from its binary, its specialisation and its grid."""
        if kernel.hash not in self._known:
            self._known[kernel.hash] = self._describe_kernel(kernel)
        known, meta = self._known[kernel.hash], kernel.metadata
        blocks = (grid[0] * getattr(meta, "num_ctas", 1), *grid[1:])
        broken = (
            *broken_grid(self.target.architecture.platform, blocks, known.resources.threads_per_block),
            *self._cooperative_limit(meta, grid, known.occupancy),
        )
        limits_broken = (*known.limits_broken, *broken)
        return dataclasses.replace(
            known, grid=grid, limits_broken=limits_broken, trial=self.trial, forward=self.forward
        )

    def _describe_kernel(self, kernel: Any) -> Launch:
        meta = kernel.metadata
        binary_hash = hashlib.sha256(kernel.kernel).hexdigest()[:16]
        self.texts.keep(binary_hash, kernel)
        resources = kernel_resources(kernel, self.target)
        arch = self.target.architecture
        needs = {
            "registers": allocated_registers(resources),
            "shared_bytes": resources.shared_bytes_per_block,
            "threads": resources.threads_per_block,
            "tensor_memory_columns": resources.raw.get("tensor_memory_columns", 0),
            "scalar_registers": resources.raw.get("sgpr_count", 0),
        }
        return Launch(
            kernel=kernel.name,
            grid=(0, 0, 0),
            num_warps=meta.num_warps,
            num_stages=getattr(meta, "num_stages", 0),
            resources=resources,
            occupancy=occupancy(arch, **needs),
            specialization=_specialization(kernel.src),
            constants=_constants(kernel.src),
            options=_options(kernel),
            compile_seconds=self.compile_seconds.get(kernel.hash),
            binary_hash=binary_hash,
            lacks=missing_parts(kernel.asm, kernel.kernel),
            ignored=ignored_hints(kernel.asm),
            limits_broken=broken_limits(arch, **needs),
            signals=read_signals(arch.platform, kernel.asm),
            loaded=ask_driver(kernel, self.target, resources.threads_per_block) if self.loads else None,
        )

    def _cooperative_limit(self, meta: Any, grid: Grid, theory: Occupancy) -> tuple[str, ...]:
        """All blocks of a cooperative grid must be resident at once; unknown without a unit count."""
        units = self.target.runtime_unit_count
        if not getattr(meta, "launch_cooperative_grid", False) or units is None:
            return ()
        if self.answers:
            self.answers.note("multi_processor_count")  # so that no SKU of another count shares the build
        blocks, resident = math.prod(grid) * getattr(meta, "num_ctas", 1), theory.blocks_per_unit * units
        return (f"cooperative grid {blocks} blocks > {resident} resident",) if blocks > resident else ()

    def timed_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``triton.compile``: say its name first, keep its seconds after."""

        def compile(src: Any, target: Any = None, options: Any = None, **rest: Any) -> Any:
            name = getattr(src, "name", "kernel")
            with one_builder(f"{src.hash() if hasattr(src, 'hash') else src} {target} {options}"):
                # told behind the lock: waiting for another builder is no time of the compiler's
                self.on_compile(f"{name} ({self.configuration})" if self.configuration else name)
                try:
                    start = time.perf_counter()
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


def capture(
    recorder: Recorder,
    answers: Answers,
    mode: ClaimDevice,
    launch: Callable[[Any], Callable[..., None]] | None = None,
) -> None:
    """From here on, every launch in this process is recorded and not made on a device.

    Args:
        recorder: of the launches.
        answers: to what host code asks of the target.
        mode: that claims the target for tensors.
        launch: what a kernel's launch does instead; the host's part of it alone, unless given.
    """
    recorder.answers = answers
    launch = launch or (lambda kernel: DryLaunch(kernel, mode))
    triton.runtime.driver.set_active(AbsentDriver(recorder.target, answers, timer_of_nothing(recorder)))

    def init_handles(kernel: Any) -> None:
        if kernel.module is None:
            kernel.module, kernel.function = object(), 0
            resources = kernel_resources(kernel, recorder.target)
            _set_load_figures(kernel, resources, recorder.target.architecture.max_threads_per_block)
            kernel._run = _launcher(recorder, kernel, launch(kernel))

    CompiledKernel._init_handles = init_handles
    follow_absent(recorder)
    _hook_compiler(recorder)


@contextlib.contextmanager
def observe(
    target: Target,
    on_compile: Callable[[str], None] = lambda name: None,
    on_compiled: Callable[[], None] = lambda: None,
    texts: TextsOfBuilds | None = None,
    built: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[Recorder]:
    """Record the launches that really happen on the device of this host.

    Args:
        target: the device's SKU.
        on_compile: as of :class:`Recorder`.
        on_compiled: likewise.
        texts: likewise.
        built: cache hash → seconds, of kernels that were built before, for this.
    """
    recorder = Recorder(target, on_compile, on_compiled, loads=True, texts=texts)
    recorder.compile_seconds.update(built)
    run, build = CompiledKernel.run, triton.compiler.compile

    def observed_run(kernel: Any) -> Callable[..., Any]:
        return _launcher(recorder, kernel, run.fget(kernel))

    # The class's property and not a kernel's own launcher: loaded kernels are seen
    # too, and nothing stays behind to slow the launches that are timed.
    CompiledKernel.run = property(observed_run)
    _hook_compiler(recorder)
    try:
        with marked_trials(recorder):
            yield recorder
    finally:
        CompiledKernel.run, triton.compiler.compile = run, build
        triton.knobs.compilation.listener = None


class DryLaunch:
    """What a launch does on the host before the GPU: it may refuse, and it may allocate."""

    def __init__(self, kernel: Any, mode: ClaimDevice) -> None:
        self._kernel, self._mode = kernel, mode

    def __call__(self, gx: int, gy: int, gz: int, stream: Any, *rest: Any) -> None:
        """Takes what Triton's launchers take: after five more, the kernel's arguments."""
        self._refuse_host_memory(rest[5:])
        meta = self._kernel.metadata
        if scratch := getattr(meta, "global_scratch_size", 0):
            self._allocate(gx * gy * gz * getattr(meta, "num_ctas", 1) * scratch, meta.global_scratch_align, stream)

    def _refuse_host_memory(self, arguments: Sequence[Any]) -> None:
        if self._mode.backing.type == "cpu":  # where all tensors are, and nothing tells them apart
            return
        with torch._C.DisableTorchFunction():
            for position, value in enumerate(arguments):
                if isinstance(value, torch.Tensor) and not self._mode.readable(value):
                    raise LaunchRefusedError(
                        f"argument {position} of {self._kernel.name} is a tensor on the CPU, which no kernel can read"
                    )

    def _allocate(self, size: int, align: int, stream: Any) -> None:
        try:
            _allocation._allocator.get()(size, align, stream)
        except RuntimeError as error:
            raise LaunchRefusedError(f"{self._kernel.name}: {error}") from error


def kernel_resources(kernel: Any, target: Target) -> Resources:
    """Resources of a compiled kernel, from its binary and its metadata; read once."""
    known = vars(kernel).setdefault("_portkit_resources", {})
    if target.architecture.name not in known:
        known[target.architecture.name] = _read_resources(kernel, target)
    resources: Resources = known[target.architecture.name]
    return resources


def _read_resources(kernel: Any, target: Target) -> Resources:
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
    if assembly := kernel.asm.get("amdgcn"):
        figures |= assembly_figures(assembly)
    return figures


def extents(arguments: Sequence[Any]) -> tuple[int | None, int | None]:
    """Most elements that a tensor spans from its first to its last, and most bytes of the memory behind one.

    None where no argument is a tensor that says so.
    """
    with torch._C.DisableTorchFunction():
        tensors = [each for each in arguments if isinstance(each, torch.Tensor) and each.numel()]
        spans = [1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) for x in tensors]
        sizes = [x.untyped_storage().nbytes() for x in tensors]
    return max(spans, default=None), max(sizes, default=None)


def _hook_compiler(recorder: Recorder) -> None:
    triton.compiler.compile = recorder.timed_compile(triton.compiler.compile)
    triton.knobs.compilation.listener = recorder.listen


def _launcher(recorder: Recorder, kernel: Any, launch: Callable[..., Any]) -> Callable[..., Any]:
    def run(gx: int, gy: int, gz: int, *rest: Any) -> Any:
        recorder.record(kernel, whole(kernel.name, gx, gy, gz), rest[_BEFORE_ARGUMENTS:])
        return launch(gx, gy, gz, *rest)

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
