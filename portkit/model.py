"""The values that the stages of portkit hand to each other.

Frozen, standard library only: importing this module costs nothing, so merge,
report and pytest collection need neither torch nor Triton. Each field says its
meaning and unit. ``None`` means unknown, and the record's ``nulls`` says why.

The way of the data: Matrix → Plan(PlannedCell) → CellResult → Record → Dataset.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 2
"""Version of the record layout, apart from the package's own version."""

VERDICT_RULE = 2
"""Version of the rule that :mod:`portkit.run.verify` judges by.

It is raised with every change by which a verdict that was given might be another one: kept verdicts of an older rule
are to be given again, those that ``REJUDGED`` names.
"""

INTERPRETER = "interpreter"
"""Name of the pseudo-target that interpreted rows carry."""

DTYPE_BYTES: Mapping[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes per element of each dtype a matrix may name (PyTorch's names)."""


FP8_FORMATS = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")
"""Formats of 8-bit floating-point numbers that Triton's IR has; gfx942 computes with fnuz, all others with the rest."""

SIGNALS: Mapping[str, str] = {
    # asked for by the source
    **{f"dot.{kind}": f"products of tiles of {kind}" for kind in ("f8", "f16", "f32", "f64", "i8")},
    "dot.scaled": "products of tiles with block scales (mx formats)",
    "dot.other": "products of tiles of other types",
    "exp": "natural exponentials",
    "exp2": "exponentials of base 2",
    "max_number": "maxima and minima that give the number where one operand is a NaN",
    "max_nan": "maxima and minima that give a NaN where one operand is one",
    "fp8_from": "conversions from fp8",
    "fp8_to": "conversions to fp8",
    **{f"fp8.{kind}": f"operations on fp8 of the format {kind}" for kind in FP8_FORMATS},
    "atomic_float": "atomic operations on floating-point numbers",
    "atomic_compare": "atomic compare-and-swap",
    "inline_asm": "blocks of inline assembly",
    "library.nvidia": "calls of NVIDIA's device library",
    "library.amd": "calls of AMD's device library",
    "ask.warp_specialize": "loops that ask for warp specialisation",
    "ask.eviction": "loads and stores that ask for an eviction policy",
    **{f"mul_add.{kind}": f"products of {kind} that a sum takes" for kind in ("f32", "f16", "bf16")},
    "offsets32": "pointers moved by an offset that comes of a 32-bit product",
    "tile": "elements of the largest tensor of a block",
    # in Triton's layout of it
    "warp_specialized": "regions in which warps were given different work",
    "buffer_operations": "AMD buffer operations, whose offsets are 32 bits wide",
    "staged_loads": "loads of pipelined loops that go to shared memory by way of registers",
    # in LLVM's IR
    "division64": "64-bit integer divisions by a value known at run time alone",
    "llvm_lines": "lines of the optimised LLVM IR",
    # in the machine's text
    **{f"matrix.{kind}": f"matrix instructions on {kind}" for kind in ("f8", "f16", "tf32", "f32", "f64", "i8")},
    "matrix.scaled": "matrix instructions with block scales",
    "matrix.other": "matrix instructions on other types",
    "async_copies": "copies to shared memory that pass no register",
    "atomic_cas": "atomic compare-and-swap instructions",
    "atomic_native": "other atomic instructions",
    "fp8_convert": "conversions from and to fp8 in one instruction",
    "fp8_narrow": "of them, those to fp8",
    "fp8_saturate": "of those, or of modes set for them, what clamps to the largest number",
    "exp_flushing": "exponential instructions that flush denormals",
    "exp_keeping": "exponential instructions that keep them",
    "exp_scaled": "exponentials that are scaled before and after the instruction, so that denormals are kept",
    **{f"fma.{kind}": f"fused multiply-adds of {kind}" for kind in ("f32", "f16", "bf16")},
    "mul_add_apart": "float32 sums of a product that was rounded before",
    "division_exact": "float32 divisions rounded as IEEE 754 says",
    "division_fast": "float32 divisions to 2 ulp",
    "eviction": "loads and stores with an eviction policy",
    "global_operations": "AMD loads, stores and atomics with 64-bit addresses",
}
"""What a launch's ``signals`` count → its meaning. Those of the machine's text are counted as they stand there."""


class Platform(enum.StrEnum):
    """The software stack a target belongs to; Triton calls ROCm's ``hip``."""

    CUDA = "cuda"
    ROCM = "rocm"


class Direction(enum.StrEnum):
    """Which pass of an operation a cell runs."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Evidence(enum.StrEnum):
    """How a row is known. Classes never share a column without their mark."""

    MEASURED = "measured"  # ran on that GPU
    EMULATED = "emulated"  # its machine code ran in the instruction interpreter
    COMPILED = "compiled"  # built for it, limits checked against its data
    INTERPRETED = "interpreted"  # ran in Triton's interpreter on the CPU


class Status(enum.StrEnum):
    """What became of a cell. Where several apply, the first listed here wins."""

    # by the plan
    EXCLUDED = "excluded"
    # our side or the host's: no verdict on the kernel
    BACKEND_MISSING = "backend_missing"
    CAPTURE_FAILED = "capture_failed"
    REFERENCE_FAILED = "reference_failed"
    BASELINE_FAILED = "baseline_failed"
    WEAK_CHECK = "weak_check"
    # compiler
    COMPILER_CRASH = "compiler_crash"
    TIMEOUT = "timeout"
    COMPILE_ERROR = "compile_error"
    UNSUPPORTED = "unsupported"
    MISCOMPILED = "miscompiled"
    # limits
    OUT_OF_RESOURCES = "out_of_resources"
    # run time
    WORKER_LOST = "worker_lost"
    DEVICE_FAULT = "device_fault"
    LAUNCH_ERROR = "launch_error"
    # result
    OUT_OF_BOUNDS = "out_of_bounds"
    DATA_RACE = "data_race"
    WRONG_RESULT = "wrong_result"
    NONDETERMINISTIC = "nondeterministic"
    # good
    BUILT = "built"
    PASSED = "passed"

    @property
    def good(self) -> bool:
        """True for a compiled row that built or another row that was right."""
        return self in (Status.BUILT, Status.PASSED)

    @property
    def skipped(self) -> bool:
        """True where no attempt was possible and pytest skips."""
        return self in (Status.EXCLUDED, Status.BACKEND_MISSING)


REJUDGED: Mapping[int, frozenset[Status]] = {1: frozenset(Status), 2: frozenset({Status.WEAK_CHECK})}
"""Version of the verdict's rule → the verdicts of rules before it that may be others by it. All others stand."""


def stands(status: str, rule: int) -> bool:
    """Whether a verdict by a version of the rule is one by today's, too."""
    later = (changed for version, changed in REJUDGED.items() if version > rule)
    return rule <= VERDICT_RULE and not any(status in changed for changed in later)


class Stage(enum.StrEnum):
    """The stage of a cell that an outcome comes from."""

    PLAN = "plan"
    IMPORT = "import"
    INPUTS = "inputs"
    REFERENCE = "reference"
    CAPTURE = "capture"
    COMPILE = "compile"
    LIMITS = "limits"
    RUN = "run"
    VERIFY = "verify"
    BASELINE = "baseline"
    TIMING = "timing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Status of a cell, the stage it was decided in, and the cause in words."""

    status: Status
    stage: Stage = Stage.DONE
    message: str = ""  # one paragraph, paths scrubbed; empty when all went well

    @property
    def no_verdict(self) -> bool:
        """True where our side or the host is to blame, so that nothing was learned of the kernel."""
        return self.status in _OUR_SIDE or (self.status is Status.TIMEOUT and self.stage in _OUTSIDE_THE_KERNEL)


_OUR_SIDE = frozenset(
    {
        Status.BACKEND_MISSING,
        Status.CAPTURE_FAILED,
        Status.REFERENCE_FAILED,
        Status.BASELINE_FAILED,
        Status.WEAK_CHECK,
        Status.WORKER_LOST,
    }
)

_OUTSIDE_THE_KERNEL = frozenset({Stage.IMPORT, Stage.INPUTS, Stage.REFERENCE, Stage.VERIFY, Stage.TIMING})
"""Stages whose time limit a busy host breaks, rather than a kernel or its compiler."""


# --------------------------------------------------------------------------
# Kernel cases, as a kernel file declares them


@dataclass(frozen=True, slots=True)
class Work:
    """What one call of an operation must do, derived in the case's docstring."""

    fused_bytes: int  # bytes the fused kernel must move through HBM
    unfused_bytes: int  # bytes the chain of single operations must move
    flops: int  # floating-point operations, of the operation and not of an implementation

    @property
    def fusion_bound(self) -> float:
        """Most that fusion can gain where memory bounds: the ratio of bytes."""
        return self.unfused_bytes / self.fused_bytes


Shape = tuple[int, ...]

FAMILIES: Mapping[str, str] = {
    "large": "values times 2^40; 2^6 in float16, 2^2 in fp8",
    "tiny": "values times 2^-40; 2^-10 in float16, 2^-4 in fp8",
    "denormal": "values below the dtype's smallest normal number",
    "constant": "one value a row",
    "ties": "values rounded to halves, so that many are equal",
    "zeros": "a third of the values +0, a third -0; equal ones alike",
    "nan": "one NaN, in the first row",
    "inf": "one +Inf in the first row, one -Inf in the second",
    "tail": "the last axis one shorter",
    "strided": "rows that lie apart in memory; only for a case's ``strided_inputs``",
}
"""Input families beside the case's own ``inputs``: name → what they change in its floating-point inputs."""

NONFINITE_FAMILIES = ("nan", "inf")
"""Families whose agreement in NaN and Inf is a finding of its own."""


@dataclass(frozen=True, slots=True)
class Discrete:
    """How an output of codes, indices or flags is judged.

    It must equal the reference, except within ``band`` of a tie, where rounding may
    decide either way. ``margin(**inputs)``, called with float64 inputs, says how far
    each element is from a tie: a relative distance, of the output's shape.
    """

    margin: Callable[..., Any] | None = None  # None: the definition is exact, and so must the output be
    band: float | None = None  # relative; None: the rounding of float32 over the case's reduction length
    step: int | None = 1  # most difference within the band, in codes; None: any value


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One fused operation, as its kernel file declares it.

    ``inputs(make, shape, dtype)`` returns the tensors of one call in a dict.
    ``make`` is an input maker: ``make.uniform(shape, dtype, low=-1, high=1)``,
    ``make.integers(shape, dtype, low, high)``, ``make.full(shape, dtype, value)``;
    the same bits on every host for the same seed.

    ``fused(**inputs, **params)`` and ``reference(**inputs)`` return a tensor or a
    tuple of tensors, in the same order. ``params`` are those of the variant.
    ``reference`` is the unfused chain in plain PyTorch: it is run in float64 as the
    reference and in the cell's dtype as the eager baseline.
    """

    name: str  # [a-z][a-z0-9_]*
    fused: Callable[..., Any]
    reference: Callable[..., Any]
    inputs: Callable[..., dict[str, Any]]
    work: Callable[[Shape, str], Work]
    shapes: tuple[Shape, ...]  # shapes of real models
    small_shapes: tuple[Shape, ...]  # for interpreter and emulation
    dtypes: tuple[str, ...]  # PyTorch's names
    variants: Mapping[str, Mapping[str, Any]]  # name → parameters passed to ``fused``
    directions: tuple[Direction, ...] = (Direction.FORWARD,)
    reduction_length: Callable[[Shape], int] = lambda shape: shape[-1]  # terms summed into one output
    # dtype → relative error limit, if special, or what gives it for a shape: None where the rule holds
    limits: Mapping[str, float | Callable[[Shape], float | None]] = field(default_factory=dict)
    allow_tf32: bool = False  # may float32 products use tf32 or xf32?
    interpreter_gaps: Mapping[str, str] = field(default_factory=dict)  # dtype → why it is no reference
    differentiable: tuple[str, ...] | None = None  # inputs whose gradients are judged; None: all floating ones
    deterministic: bool = False  # are runs alike bit by bit?
    in_place: tuple[str, ...] = ()  # inputs that ``fused`` may write to
    discrete: Mapping[int, Discrete] = field(default_factory=dict)  # position of an output → its rule, if not a float's
    row_inputs: tuple[str, ...] = ()  # inputs whose first axis is that of independent rows, as every output's then is
    strided_inputs: tuple[str, ...] = ()  # inputs of two axes or more whose rows may lie apart
    family_gaps: Mapping[str, str] = field(default_factory=dict)  # input family → why it does not apply
    baselines: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # beside eager and compile: see docs
    backward_work: Callable[[Shape, str], Work] | None = None  # of the gradients alone; None: not known

    @property
    def is_declared(self) -> bool:
        """Whether somebody described it, with its unfused chain; a call that ``portkit check`` is given is not."""
        return callable(self.work)

    def work_model(self, direction: Direction) -> Callable[[Shape, str], Work] | None:
        """The work model of one direction; None where the case has none for it."""
        return self.work if direction is Direction.FORWARD else self.backward_work


@dataclass(frozen=True, slots=True)
class Check:
    """A call that is captured as it is, without a kernel case: a function with its arguments, or a whole script.

    Arguments are texts as :mod:`portkit.plan.arguments` reads them, named or, with an empty
    name, by position.
    """

    function: str  # dotted name within its file or module: rms_norm, RMSNorm.apply; empty for a script
    arguments: tuple[tuple[str, str], ...] = ()
    init: tuple[tuple[str, str], ...] = ()  # arguments that a class is made with, before it is called
    grid: tuple[int, ...] = ()  # of a kernel that is launched itself
    backward: bool = False  # whether gradients of its outputs are taken, too
    script: tuple[str, ...] = ()  # path of a script and its own arguments
    generated: str | None = None  # file with what torch.compile's kernels of the script were launched with on a GPU
    root: str | None = None  # folder that modules are imported from, before all others
    small: tuple[tuple[str, str], ...] = ()  # arguments of the emulated call that differ
    reference: CaseSource | None = None  # function with the same arguments that emulated results are held against


@dataclass(frozen=True, slots=True)
class CaseSource:
    """Where a kernel case is declared: a file or an importable module."""

    name: str  # name of the case in the matrix
    path: str | None = None  # absolute path of a kernel file
    module: str | None = None  # dotted import path of an installed module
    check: Check | None = None  # what is called there, if it declares no kernel case

    def __str__(self) -> str:
        return self.path or self.module or self.name


@dataclass(frozen=True, slots=True)
class CaseDeclaration:
    """A kernel case as plain values, read from its file in a child process."""

    source: CaseSource
    shapes: tuple[Shape, ...]
    small_shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    variants: Mapping[str, Mapping[str, Any]]
    directions: tuple[Direction, ...]
    source_hash: str  # of the normalised syntax tree of the case and the kernels it uses
    baselines: tuple[str, ...] = ()  # names of those that the case declares


# --------------------------------------------------------------------------
# Targets


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of one GPU architecture that decide occupancy and legality.

    A unit is what shares registers and shared memory: SM, CU, or WGP on RDNA.
    """

    name: str  # sm_90, gfx942
    platform: Platform
    family: str
    wave_size: int  # threads per warp or wavefront
    unit: str  # SM, CU or WGP
    simds_per_unit: int
    max_waves_per_unit: int
    max_waves_per_simd: int
    max_blocks_per_unit: int  # blocks (workgroups) resident per unit
    max_blocks_per_unit_single_wave: int  # the same where a block is one wave
    registers_per_unit: int  # 32-bit registers
    registers_per_simd_lane: int  # 32-bit registers a lane's waves share in one SIMD
    max_registers_per_thread: int
    register_granule: int  # NVIDIA: registers per warp; AMD: registers per lane
    max_threads_per_block: int
    shared_bytes_per_unit: int
    shared_bytes_per_block_max: int  # with opt-in on NVIDIA
    shared_bytes_reserved: int  # driver's part of each block's shared memory
    shared_granule: int  # bytes
    barriers_per_block_slot: int | None  # NVIDIA cc ≥ 9: named barriers per block slot; None = not limiting
    tensor_memory_columns: int | None  # per SM; None where there is none
    carveout_kib: tuple[int, ...]  # shared-memory carve-out steps, KiB; empty if not sourced
    check: str  # what these numbers were checked against
    source: str
    doubts: tuple[str, ...] = ()  # where sources differ: each with the value used and the other
    scalar_registers_per_simd: int | None = None  # AMD before gfx90a; None = not limiting
    sourced: bool = True  # False: no source gave the limits, the numbers above are 0 and nothing may read them

    @property
    def triton_backend(self) -> str:
        """Triton's name of the platform."""
        return "hip" if self.platform is Platform.ROCM else "cuda"

    @property
    def triton_arch(self) -> int | str:
        """Triton's name of the architecture: 90 or ``gfx942``."""
        return int(self.name.removeprefix("sm_")) if self.platform is Platform.CUDA else self.name


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU SKU, or a bare architecture whose SKU figures are unknown."""

    name: str  # lower case letters and digits: h200, mi300x
    title: str  # as the vendor writes it
    vendor: str  # nvidia or amd
    architecture: Architecture
    units: int | None  # SMs or CUs, as the vendor counts them
    runtime_unit_count: int | None  # what multi_processor_count says: WGPs on RDNA
    memory_bandwidth_gbs: float | None  # GB/s, datasheet
    memory_bytes: int | None
    l2_mib: float | None
    last_level_cache_mib: float | None  # Infinity Cache where there is one
    peak_tflops: Mapping[str, float | None]  # datasheet, dense: float32, tf32, float16, bfloat16, fp8
    source: str
    unsourced: tuple[str, ...] = ()  # fields recalled and not read: not facts
    notes: str = ""


# --------------------------------------------------------------------------
# Matrix and plan


@dataclass(frozen=True, slots=True)
class Axes:
    """A choice of values along a case's axes; None keeps all the case declares."""

    shapes: tuple[Shape, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    directions: tuple[Direction, ...] | None = None
    small_shapes: tuple[Shape, ...] | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """Cells that a rule of the matrix speaks of; None matches everything."""

    kernel: str | None = None
    target: str | None = None
    dtype: str | None = None
    variant: str | None = None
    evidence: Evidence | None = None
    shape: Shape | None = None
    triton: str | None = None  # range of Triton versions, such as "<3.7"; the plan keeps to it
    direction: Direction | None = None

    def matches(self, cell: Cell, evidence: Evidence) -> bool:
        """Whether a cell of that evidence is among those selected, under a Triton of the range."""
        wanted = (self.kernel, self.target, self.dtype, self.variant, self.evidence, self.shape, self.direction)
        actual = (cell.case, cell.target, cell.dtype, cell.variant, evidence, cell.shape, cell.direction)
        return all(w is None or w == a for w, a in zip(wanted, actual, strict=True))


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known gap, strict like xfail: met is xfailed, closed is a failure."""

    select: Selector
    status: Status
    reason: str
    place: str  # matrix.yaml:31


@dataclass(frozen=True, slots=True)
class ExclusionRule:
    """Cells that the plan leaves out, with the reason."""

    select: Selector
    reason: str
    place: str


@dataclass(frozen=True, slots=True)
class MatrixKernel:
    """One kernel of the matrix with its axes."""

    source: CaseSource
    axes: Axes
    place: str  # matrix.yaml:3


@dataclass(frozen=True, slots=True)
class Matrix:
    """A validated matrix file."""

    path: str
    kernels: tuple[MatrixKernel, ...]
    targets: tuple[str, ...]
    tiers: Mapping[str, Mapping[str, Axes]]  # tier → kernel → narrower axes
    expectations: tuple[Expectation, ...]
    exclusions: tuple[ExclusionRule, ...]
    target_files: tuple[str, ...] = ()  # the user's own catalogue files
    places: Mapping[str, str] = field(default_factory=dict, compare=False)  # dotted key → matrix.yaml:12


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the matrix."""

    case: str
    direction: Direction
    shape: Shape
    dtype: str
    variant: str
    target: str
    partition: str | None = None  # modes of the device that measured it, as CPX/NPS4; None: whole, or not known

    @property
    def shape_text(self) -> str:
        """The shape as ids and tables write it: ``4096x4096``."""
        return "x".join(str(n) for n in self.shape)

    def label(self, evidence: Evidence) -> str:
        """Name within the matrix: ``softmax[h200-4096x4096-float32-w8-compiled]``."""
        parts = [self.target, self.shape_text, self.dtype, self.variant]
        if self.direction is Direction.BACKWARD:
            parts.append(self.direction.value)
        if self.partition:
            parts.append(self.partition.lower().replace("/", "-"))
        return f"{self.case}[{'-'.join([*parts, evidence.value])}]"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with the evidence it will get, or the reason why it won't run."""

    cell: Cell
    evidence: Evidence
    excluded: str | None = None  # reason
    expectation: Expectation | None = None

    @property
    def label(self) -> str:
        """Name within the matrix; unique in a plan."""
        return self.cell.label(self.evidence)


@dataclass(frozen=True, slots=True)
class Plan:
    """All cells of a run in order."""

    cells: tuple[PlannedCell, ...]
    tier: str
    plan_hash: str  # of the labels in order


# --------------------------------------------------------------------------
# What stages find out about a cell


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Theoretical occupancy of one kernel on one architecture."""

    percent: float  # resident waves / most waves of a unit, 0 to 100
    blocks_per_unit: int
    waves_per_unit: int
    limiter: str  # registers, shared memory, waves, blocks, barriers, tensor memory; or what makes it illegal
    limits: Mapping[str, int]  # blocks per unit that each resource alone would allow


@dataclass(frozen=True, slots=True)
class Resources:
    """What one binary needs, as its own headers say."""

    registers_per_thread: int  # NVIDIA REG; AMD .vgpr_count (accumulation registers included)
    spill_bytes_per_thread: int  # NVIDIA stack frame; AMD .private_segment_fixed_size
    shared_bytes_per_block: int  # Triton's own figure: dynamic shared memory or LDS
    threads_per_block: int  # num_warps × warp size, not clamped
    warp_size: int
    raw: Mapping[str, int] = field(default_factory=dict)  # vendor's figures by the vendor's names


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the driver says of a kernel once it is loaded onto a device."""

    registers_per_thread: int
    blocks_per_unit: int | None  # resident at once; None where the driver can't say, as of clusters


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of the fused function, built for the target."""

    kernel: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    resources: Resources
    occupancy: Occupancy
    specialization: Mapping[str, str]  # argument → type and attributes, such as "*bf16 divisibility=16"
    constants: Mapping[str, str]
    options: Mapping[str, Any]  # only options that differ from the backend's default
    compile_seconds: float | None  # None when the build came from the cache
    binary_hash: str  # of the bytes of cubin or hsaco
    limits_broken: tuple[str, ...] = ()  # each in words: "shared memory 131072 B > 101376 B"
    lacks: tuple[str, ...] = ()  # what the source asked for and the binary provably has not, each in words
    ignored: tuple[str, ...] = ()  # hints of the source that the compiler did without, each in words
    trial: bool = False  # made by an autotuner to choose among configurations
    forward: bool = False  # made by the forward pass of a backward cell, whose figures leave it out
    count: int = 1  # times that one call makes it, all alike
    loaded: Loaded | None = None  # None where no device of this host loaded it
    signals: Mapping[str, int] | None = None  # of SIGNALS, those that are not 0; None: not read
    largest_elements: int | None = None  # that the widest tensor argument spans; None: not known
    largest_bytes: int | None = None  # of the largest memory behind a tensor argument; None: not known


@dataclass(frozen=True, slots=True)
class Tuning:
    """What autotuned kernels may run as on a target that is absent, where nobody can say what they will.

    A figure of ``ranges`` is the worst over the launches of one call, at its best and at its
    worst choice of configurations.
    """

    calls: int  # calls of autotuned kernels in one call of the fused function
    configurations: int  # tried, over all these calls
    usable: int  # of them, those that built within the target's limits
    ranges: Mapping[str, tuple[float, float]]  # figure → lowest and highest, units as in Build; empty if none is usable
    failed: Mapping[str, str]  # configuration → why it can't run
    limits_broken: tuple[str, ...] = ()  # where they leave a call no usable configuration
    omitted_failed: int = 0  # more that failed than a record had room for


@dataclass(frozen=True, slots=True)
class Build:
    """All launches of one call, and the worst figure of each kind over them.

    Figures count the launches that the cell is about: not an autotuner's trials, and in a
    backward cell not those of the forward pass, unless it alone launches (it then computes the
    gradients too). Where nobody knows which configuration runs, every usable one counts.
    """

    launches: tuple[Launch, ...]
    build_key: str
    omitted_launches: int = 0  # more that count and a record had no room for; no worst figure is among them
    tuning: Tuning | None = None  # where autotuned kernels run in a configuration that nobody knows

    @property
    def counted(self) -> tuple[Launch, ...]:
        """Launches that the cell is about and that are made for certain."""
        return tuple(x for x in self.launches if not x.trial and not x.forward)

    @property
    def candidates(self) -> tuple[Launch, ...]:
        """Those counted, and every usable configuration of an autotuned kernel."""
        trials = [x for x in self.launches if x.trial and not x.forward and not x.limits_broken]
        return (*self.counted, *(trials if self.tuning else ()))

    @property
    def launch_count(self) -> int:
        """Launches of one call that figures count, those a record had no room for included."""
        return sum(x.count for x in self.counted) + self.omitted_launches + (self.tuning.calls if self.tuning else 0)

    @property
    def registers_per_thread(self) -> int | None:
        """Most registers of any launch."""
        return max((x.resources.registers_per_thread for x in self.candidates), default=None)

    @property
    def spill_bytes_per_thread(self) -> int | None:
        """Most spilled bytes of any launch."""
        return max((x.resources.spill_bytes_per_thread for x in self.candidates), default=None)

    @property
    def shared_bytes_per_block(self) -> int | None:
        """Most shared memory of any launch."""
        return max((x.resources.shared_bytes_per_block for x in self.candidates), default=None)

    @property
    def threads_per_block(self) -> int | None:
        """Most threads of any launch."""
        return max((x.resources.threads_per_block for x in self.candidates), default=None)

    @property
    def worst_occupancy(self) -> Occupancy | None:
        """Lowest theoretical occupancy of any launch."""
        return min((x.occupancy for x in self.candidates), key=lambda o: o.percent, default=None)

    @property
    def lacks(self) -> tuple[str, ...]:
        """What binaries of the call provably lack, in order, without repeats."""
        return tuple(dict.fromkeys(text for x in self.candidates for text in x.lacks))

    @property
    def limits_broken(self) -> tuple[str, ...]:
        """Limits of the target that the call breaks, in order, without repeats."""
        tuned = self.tuning.limits_broken if self.tuning else ()
        return tuple(dict.fromkeys((*(text for x in self.counted for text in x.limits_broken), *tuned)))


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far one output is from float64, beside the unfused chain's own error.

    Errors are the largest |result - reference| / (|reference| + scale), where scale
    is the root mean square of the reference output, or, where ``rule`` says so, of each of its places.
    """

    name: str  # position in the returned tuple: "0", "1"
    dtype: str
    fused_error: float | None
    unfused_error: float | None
    limit: float
    rule: str  # how the limit came about, in words
    nonfinite_agree: bool  # same NaN and Inf pattern as the reference
    band_share: float | None = None  # discrete outputs: share of elements so near a tie that either value is right


@dataclass(frozen=True, slots=True)
class FamilyVerdict:
    """What one input family showed, over all outputs.

    ``nonfinite_agree`` of the families ``nan`` and ``inf`` is a finding of its own: it
    does not enter the status, since platforms differ there.
    """

    status: Status
    error: float | None  # of the output nearest to its limit; None where nothing finite was to compare
    limit: float | None
    nonfinite_agree: bool | None  # same NaN and Inf pattern as the reference; None where nothing ran


@dataclass(frozen=True, slots=True)
class Verdict:
    """Correctness of one cell."""

    outputs: tuple[OutputError, ...]
    input_hash: str  # of the bits of all inputs
    output_hash: str  # of the bits of all fused outputs
    controls: Mapping[str, bool]  # negative control → whether the check refused it, as it must
    repeatable: bool | None = None  # whether all runs gave the same bits; None: run once
    runs: int = 1  # of the fused function on the same inputs
    guards_intact: bool | None = None  # whether nothing was written beside a tensor; None: not watched
    reference: str = "whole"  # what of the outputs was judged, and where the reference was made
    families: Mapping[str, FamilyVerdict] = field(default_factory=dict)
    families_shape: Shape | None = None  # that the families ran on
    sanitizer: str | None = None  # tools that watched and what they saw; None: not asked for
    rule_version: int = 1  # ``VERDICT_RULE`` of the portkit that judged; reports of before it was counted have rule 1


@dataclass(frozen=True, slots=True)
class Clock:
    """Samples of one function on one clock in one cache mode."""

    median_ms: float
    low_ms: float  # 95 % interval of the median
    high_ms: float
    samples: int
    outliers: int = 0  # samples far from the median, as run/timing says; they count like the others


@dataclass(frozen=True, slots=True)
class Timed:
    """Times of one function; clocks and modes that were not taken are None.

    ``events`` is what a user waits for, ``trace`` what its kernels take on the device.
    """

    events: Clock  # device events around the call, caches flushed before each
    trace: Clock | None = None  # sum of its kernels' durations in the device trace, caches flushed before each
    kernels: int | None = None  # kernels, copies and fills of one call, by the trace
    copies: int | None = None  # how many of them the driver copies and fills by itself, without a kernel
    copied_ms: float | None = None  # median of their time, which is in ``trace``: no profiler of kernels sees it
    warm: Clock | None = None  # device events, nothing flushed
    graph: Clock | None = None  # device events around a replayed CUDA or HIP graph, caches flushed before each


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster, with its 95 % interval; None in reports of schema 1, which had none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What the vendor's management library says about a device at one moment; it changes nothing."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()  # reasons in force that slow kernels down, by the library's names


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the fused function and its baselines, interleaved in one process."""

    flush_bytes: int  # read before each sample, so that nothing of the inputs is in a cache
    warmup: int  # calls before the first sample
    fused: Timed
    baselines: Mapping[str, Timed]  # eager, torch, compile, …
    speedup: Mapping[str, Ratio]  # baseline → its median ÷ the fused median, on events
    speedup_kernel: Mapping[str, Ratio] = field(default_factory=dict)  # on the trace; none where either is under 5 µs
    settled: bool | None = None  # whether all intervals on events were within 0.5 % before the time limit
    states: Mapping[str, DeviceState] = field(default_factory=dict)  # before, during (the slowest), after
    throttled: tuple[str, ...] = ()  # reasons in force at any time while it was timed
    samples_ref: str | None = None  # content address of all samples in the side folder


@dataclass(frozen=True, slots=True)
class Baseline:
    """What became of one baseline of a cell, whether or not it was timed."""

    status: Status  # passed, wrong_result, baseline_failed, or backend_missing: not installed
    message: str = ""  # cause in words; empty when it was right
    error: float | None = None  # of the output nearest to its limit, against float64
    limit: float | None = None
    first_call_seconds: float | None = None  # compilation included
    version: str | None = None  # of the library it calls


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a worker found out about a planned cell."""

    cell: Cell
    evidence: Evidence
    outcome: Outcome
    build: Build | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=dict)  # name → what became of it
    work: Work | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)  # platform queries the host code made → answers
    nulls: Mapping[str, str] = field(default_factory=dict)  # part → why it is unknown
    seconds: float = 0.0
    stage_seconds: Mapping[Stage, float] = field(default_factory=dict)  # of a measured cell
    device: str | None = None  # device_id, hashed
    blobs: Mapping[str, bytes] = field(default_factory=dict)  # name → text or samples for the side folder


# --------------------------------------------------------------------------
# Reports


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of the host."""

    index: int
    name: str
    target: str  # SKU name, or the bare architecture where the SKU is unknown
    architecture: str
    memory_bytes: int
    units: int
    device_id: str  # salted hash
    features: tuple[str, ...] = ()  # that the runtime adds to the architecture, such as sramecc+ and xnack-
    partition: str | None = None  # modes of an AMD device, such as SPX/NPS1; None: none, or not known


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that ran a report, without its name."""

    host_id: str  # salted hash
    system: str  # Linux 6.1 x86_64
    python: str
    torch: str | None
    triton: str | None
    backends: tuple[str, ...]  # Triton's: amd, nvidia
    driver: str | None
    toolkit: str | None  # CUDA or HIP version of torch
    devices: tuple[Device, ...]
    settings: Mapping[str, str]  # environment that changes numerics or code, such as TRITON_DEFAULT_FP_FUSION


@dataclass(frozen=True, slots=True)
class Keys:
    """The four keys: one hash can't do four jobs."""

    cell_key: str  # joins runs, hosts and nights
    source_hash: str  # times are compared only when equal
    build_key: str | None  # caches builds; None where nothing was built
    env_key: str  # says when a difference is the toolchain's


@dataclass(frozen=True, slots=True)
class Record:
    """One cell, one evidence, one run: one line of a report."""

    run_id: str
    keys: Keys
    cell: Cell
    evidence: Evidence
    outcome: Outcome
    host_id: str
    triton: str | None  # version that built or ran it
    architecture: str | None  # of the target; None for the interpreter
    variant_params: Mapping[str, Any]
    expected: Status | None = None  # status the matrix expects
    expected_reason: str | None = None
    build: Build | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    work: Work | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stage_seconds: Mapping[Stage, float] = field(default_factory=dict)  # of a measured cell, all adding up to seconds
    device_id: str | None = None
    blobs: Mapping[str, str] = field(default_factory=dict)  # name → content address in the side folder
    schema: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Counted:
    """What hardware counters say about one call of a function.

    Sums are over its kernels. Occupancy and what follows are of the kernel that took longest.
    """

    kernels: int
    duration_ms: float | None  # on the profiler's clock: not to be mixed with events or trace
    dram_read_bytes: int | None
    dram_write_bytes: int | None
    local_bytes: int | None  # local-memory traffic: spills and arrays of a thread
    kernel: str  # name of the one that took longest
    occupancy_achieved_pct: float | None  # of the cycles in which a unit had work
    occupancy_achieved_elapsed_pct: float | None  # of all cycles: the like-for-like figure between vendors
    occupancy_theoretical_pct: float | None
    occupancy_limiter: str | None
    registers_per_thread: int | None
    shared_bytes_per_block: int | None
    waves_per_unit: float | None  # blocks of the grid ÷ blocks resident on the whole device
    calls: int = 1  # that were counted; all figures are of the one of median duration
    idle_ms: float | None = None  # of the duration, in which no unit had work: the profiler's own, mostly


@dataclass(frozen=True, slots=True)
class Counters:
    """Hardware counters of one cell, taken after its record was written, in a process of the profiler.

    The pair of ``cell_key`` and ``evidence`` names the record of the same run.
    """

    run_id: str
    cell_key: str
    evidence: Evidence
    tool: str  # name and version of the profiler; what is missing if there is none
    functions: Mapping[str, Counted]  # fused and the baselines; empty where nothing could be counted
    seconds: float | None = None  # the cell's share of the profiler's runs, their start included; None: there was none
    device_id: str | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)  # figure or function → why it is unknown, with the remedy
    blobs: Mapping[str, str] = field(default_factory=dict)  # name → content address in the side folder


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """What one device of the host was measured to do, once per run or earlier on the same host and driver."""

    run_id: str
    device_id: str
    target: str
    measured: str  # ISO 8601, UTC; before the run's start where an earlier run's figures were taken over
    copy_gbs: float | None = None  # GB/s, bytes read and bytes written together
    read_gbs: float | None = None
    write_gbs: float | None = None
    matmul_tflops: Mapping[str, float] = field(default_factory=dict)  # dtype → dense rate reached
    reached_by: Mapping[str, str] = field(default_factory=dict)  # figure → the operation and size that reached it
    event_overhead_us: float | None = None  # what events add to the trace of a kernel
    launch_us: float | None = None  # host's time to launch an empty kernel, of many in a row
    graph_launch_us: float | None = None  # the same, each kernel a node of a replayed graph
    evicted: bool | None = None  # whether the flush was seen to evict a buffer that fits the caches
    other_processes: int | None = None  # that used the device when the run began
    nulls: Mapping[str, str] = field(default_factory=dict)  # figure → why it is unknown


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a report."""

    run_id: str
    portkit: str
    started: str  # ISO 8601, UTC
    matrix: str  # file name, no path
    matrix_hash: str
    tier: str
    plan_hash: str
    cells: int  # planned cells; fewer records make the report partial
    host: Host
    targets: tuple[str, ...] = ()  # in the plan's order, which tables keep
    failures: Mapping[str, str] = field(default_factory=dict)  # kernel without rows → why its file can't be used
    modes: tuple[str, ...] = ()  # of timing that were asked for, beside the two clocks
    baselines: tuple[str, ...] | None = None  # that were asked for; None: those of the tier
    nonce: str | None = None  # word of the job that asked for the run, by which it knows the report for its own
    schema: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Resume:
    """Line where a run goes on after it was cut short, perhaps on another device."""

    run_id: str
    started: str  # ISO 8601, UTC
    host_id: str
    devices: tuple[Device, ...]
    repeated: int  # cells with a record that run again, for our side's or the host's reasons


@dataclass(frozen=True, slots=True)
class End:
    """Last line of a report; without it the report is partial."""

    run_id: str
    records: int
    counts: Mapping[str, int]  # status → records
    finished: str  # ISO 8601, UTC
    exit: str = "complete"  # or interrupted


SAMPLES = 1024
"""Elements of an output that a fingerprint keeps; all of an output that has no more."""


def sampled_positions(count: int) -> list[int]:
    """Positions of the kept elements in a flattened output of ``count``: one in each of 1,024 equal parts.

    The place within a part is a multiplicative hash of its number, so that no row length meets it.
    """
    if count <= SAMPLES:
        return list(range(count))
    edges = [count * i // SAMPLES for i in range(SAMPLES + 1)]
    return [low + (i * 2654435761 % 2**32) % (high - low) for i, (low, high) in enumerate(itertools.pairwise(edges))]


def digest(value: Any, length: int = 16) -> str:
    """Short hash of plain values: sha256 over their canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def cell_key(cell: Cell, params: Mapping[str, Any]) -> str:
    """The key that joins a cell over runs, hosts and nights."""
    return digest(
        [
            cell.case,
            cell.direction.value,
            list(cell.shape),
            cell.dtype,
            cell.variant,
            dict(params),
            cell.target,
            cell.partition,
        ]
    )
