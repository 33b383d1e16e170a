"""Ten kernels, two more of PTX alone, and what deleting single instructions of them does.

A deletion is detected by the checker (a finding, a fault, a launch that does not end), or by the bits of the
buffers, which differ from those of the whole kernel on normal or on extreme inputs. Beside that stands whether the
verdict of a cell would notice it alone: what ends a launch, and results that are off by more than its limit.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import mutants_ptx
import numpy as np
import row_kernels
import test_attention
import test_kernel_kinds
import test_matmul
import test_ptx_matrix_kernels
from compiled import OPTIONS, Built, build, from_bf16, to_bf16
from needed import Meeting, Record, barrier_is_needed, meetings, wait_is_needed
from survivors import Effects, class_of, effects_of

from portkit.emulate import Options, Order
from portkit.emulate.amdgcn.check import judge
from portkit.emulate.amdgcn.execute import Code, cut
from portkit.emulate.amdgcn.isa.control import IGNORED
from portkit.emulate.amdgcn.isa.registry import base_name, compile_instruction
from portkit.emulate.amdgcn.launch import Launch, load
from portkit.emulate.amdgcn.waits import waits_of
from portkit.emulate.core.findings import Halt, outcome_of
from portkit.emulate.ptx import check as ptx_check
from portkit.emulate.ptx import launch as ptx_launch
from portkit.emulate.ptx.execute import Code as PtxCode
from portkit.emulate.ptx.launch import Launch as PtxLaunch

ROOT = Path(__file__).parents[2]
INPUTS = ("normal", "extreme", "wide", "short", "shorter", "tiny")
"""Kinds of inputs: normal values, extreme and large ones, and other sizes, at which other masks bite."""

Make = Callable[[np.random.Generator, str], list]
"""Arguments of a launch from a kind of inputs."""


@dataclass(frozen=True)
class Case:
    """A kernel with what it is launched on."""

    name: str
    built: Built
    grid: tuple[int, ...]
    make: Make


def suite(name: str):
    """A kernel file by path, as a run loads it; its neighbours are importable."""
    if str(ROOT / "kernels") not in sys.path:
        sys.path.append(str(ROOT / "kernels"))
    spec = importlib.util.spec_from_file_location(f"mutated_{name}", ROOT / "kernels" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def floats(random: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """Normal ones, large ones, or the largest, smallest and special ones among normal ones."""
    x = random.standard_normal(shape).astype(np.float32)
    if kind == "extreme":
        edges = np.array([0.0, -0.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e20, -70000.0, 88.0, -104.0])
        x = np.where(random.random(shape) < 0.1, random.choice(edges, shape), x).astype(np.float32)
    return x * np.float32(40) if kind == "wide" else x


def halves(random: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """The same in float16, where the largest are infinite."""
    with np.errstate(over="ignore"):
        return floats(random, kind, *shape).astype(np.float16)


def size_of(kind: str, most: int) -> int:
    """A size for a kind of inputs: near the most, all of it, just above half or a quarter of it, or a few."""
    return {"wide": most, "short": most // 2 + 3, "shorter": most // 4 + 1, "tiny": 5}.get(kind, most - 3)


def swiglu(architecture: str) -> Case:
    signature = {"gate_ptr": "*fp32", "up_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    kernel = build(suite("swiglu")._swiglu, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 2048)
        return [*floats(random, kind, 2, size), np.zeros(size, np.float32), size]

    return Case("swiglu", kernel, (2,), make)


def softmax(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_short, architecture, signature, {"BLOCK": 1024}, aligned=False)
    return Case("softmax", kernel, (2,), lambda random, kind: rows(random, kind, 1024))


def rows(random: np.random.Generator, kind: str, most: int) -> list:
    """Two rows, room for the result, their stride and their length."""
    size = size_of(kind, most)
    return [floats(random, kind, 2, size), np.zeros((2, size), np.float32), size, size]


def long_softmax(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "x_stride": "i32", "columns": "i32"}
    kernel = build(row_kernels._softmax_long, architecture, signature, {"CHUNK": 1024}, aligned=False)
    return Case("long_softmax", kernel, (2,), lambda random, kind: rows(random, kind, 3072))


def add_rms_norm(architecture: str) -> Case:
    function = row_kernels._add_rms_norm
    pointers = {name: "*fp32" for name in function.arg_names if name.endswith("_ptr")}
    numbers = {
        name: "fp32" if name == "eps" else "i32"
        for name in function.arg_names
        if name not in pointers and name != "BLOCK"
    }
    kernel = build(function, architecture, {**pointers, **numbers}, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 1024)
        x, residual = floats(random, kind, 2, 2, size)
        return [x, residual, floats(random, kind, size), np.zeros_like(x), np.zeros_like(x), size, size, size, 1e-6]

    return Case("add_rms_norm", kernel, (2,), make)


def sum_abs(architecture: str) -> Case:
    signature = {"x_ptr": "*fp32", "partial_ptr": "*fp32", "n": "i32"}
    kernel = build(suite("sum_abs")._partial_sums, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 12 * 1024)
        return [floats(random, kind, size), np.zeros(3, np.float32), size]

    return Case("sum_abs", kernel, (3,), make)


def matmul(architecture: str) -> Case:
    signature = dict.fromkeys(("a_ptr", "b_ptr"), "*bf16") | {"c_ptr": "*fp32"} | dict.fromkeys("MNK", "i32")
    constants = {"BM": 32, "BN": 32, "BK": 32, "PRECISION": "ieee", "SUM": test_matmul.tl.float32, "ZERO": 0.0}
    kernel = build(test_matmul.matmul, architecture, signature, constants, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        rows, depth, columns = size_of(kind, 64), size_of(kind, 96), size_of(kind, 64)
        a, b = floats(random, kind, rows, depth), floats(random, kind, depth, columns)
        return [to_bf16(a), to_bf16(b), np.zeros((rows, columns), np.float32), rows, columns, depth]

    return Case("matmul", kernel, (2, 2), make)


def attention(architecture: str) -> Case:
    signature = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16") | {"lse_ptr": "*fp32"}
    signature |= {"S": "i32", "scale": "fp32"}
    constants = {"D": 32, "BM": 32, "BN": 32, "CAUSAL": True}
    kernel = build(test_attention.forward, architecture, signature, constants, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 64)
        with np.errstate(over="ignore"):
            q, k, v = floats(random, kind, 3, 1, size, 32).astype(np.float16)
        return [q, k, v, np.zeros_like(q), np.zeros((1, size), np.float32), size, 0.2]

    return Case("attention", kernel, (2, 1), make)


def histogram(architecture: str) -> Case:
    signature = {"x_ptr": "*i32", "counts_ptr": "*i32", "n": "i32"}
    kernel = build(test_kernel_kinds._histogram, architecture, signature, {"BLOCK": 1024}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size = size_of(kind, 2048)
        return [random.integers(1, 10, size).astype(np.int32), np.zeros(10, np.int32), size]

    return Case("histogram", kernel, (2,), make)


def scan_and_sort(architecture: str) -> Case:
    pointers = dict.fromkeys(("x_ptr", "sums_ptr", "sorted_ptr"), "*fp32")
    kernel = build(test_kernel_kinds._scan_and_sort, architecture, pointers, {"BLOCK": 256})
    return Case("scan_and_sort", kernel, (2,), lambda r, k: [floats(r, k, 2, 256), *np.zeros((2, 2, 256), np.float32)])


def quotients(architecture: str) -> Case:
    pointers = ("x_ptr", "y_ptr", "q_ptr")
    signature = dict.fromkeys(pointers, "*fp32") | {"n": "i32"} | dict.fromkeys(("r_ptr", "i_ptr", "j_ptr"), "*i32")
    kernel = build(test_kernel_kinds._quotients, architecture, signature, {"BLOCK": 256}, aligned=False)

    def make(random: np.random.Generator, kind: str) -> list:
        size, extreme = size_of(kind, 256), kind == "extreme"
        x, y = floats(random, kind, 2, size)
        i = random.integers(-(2**31) if extreme else 0, 2**31 if extreme else 2**20, size).astype(np.int32)
        j = random.integers(1, 3000, size).astype(np.int32)
        return [x, y, np.zeros(size, np.float32), np.zeros(size, np.int32), i, j, size]

    return Case("quotients", kernel, (1,), make)


def pipelined(architecture: str) -> Case:
    """Tiles in stages: copied asynchronously, multiplied by the matrix unit that the architecture has."""
    signature = dict.fromkeys(("a_ptr", "b_ptr"), "*fp16") | {"c_ptr": "*fp32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 64, "BK": 32, "ACC": test_matmul.tl.float32}
    kernel = build(test_ptx_matrix_kernels.matmul, architecture, signature, constants, num_stages=3)

    def make(random: np.random.Generator, kind: str) -> list:
        depth = {"tiny": 32, "shorter": 64, "short": 96}.get(kind, 160)
        a, b = (halves(random, kind, 64, depth) for _ in range(2))
        return [a, b, np.zeros((64, 64), np.float32), 64, depth]

    return Case("pipelined", kernel, (1,), make)


def described(architecture: str) -> Case:
    """Tiles that are copied by tensor descriptors."""
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    constants = {"BM": 64, "BN": 32, "BK": 64, "WS": False}
    kernel = build(test_ptx_matrix_kernels.described, architecture, signature, constants, num_stages=3)

    def make(random: np.random.Generator, kind: str) -> list:
        rows, depth = {"tiny": (8, 8), "short": (72, 136)}.get(kind, (64, 200))
        a, b = halves(random, kind, rows, depth), halves(random, kind, 32, depth)
        scratch = np.zeros(1 << 12, np.uint8)
        return [a, b, np.zeros((rows, 32), np.float16), rows, 32, depth, scratch]

    return Case("described", kernel, (2,), make)


CASES: dict[str, Callable[[str], Case]] = {
    case.__name__: case
    for case in (
        swiglu,
        softmax,
        long_softmax,
        add_rms_norm,
        sum_abs,
        matmul,
        attention,
        histogram,
        scan_and_sort,
        quotients,
    )
}
ARCHITECTURES = ("gfx942", "gfx1201", "gfx950", "gfx1100")

PTX_CASES: dict[str, Callable[[str], Case]] = {
    **CASES,
    **{case.__name__: case for case in (pipelined, described)},
}
"""The same kernels, and those whose copies and products are asynchronous."""

PTX_ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")


def first_architecture(name: str, vendor: str) -> str:
    """On which of a vendor's architectures a case runs where none is asked for."""
    if vendor == "amd":
        return ARCHITECTURES[list(CASES).index(name) % len(ARCHITECTURES)]
    if name == "described":
        return "sm_90"
    return PTX_ARCHITECTURES[list(PTX_CASES).index(name) % len(PTX_ARCHITECTURES)]


# -- mutants


@dataclass(frozen=True)
class Ran:
    """What a launch left."""

    status: str
    kinds: tuple[str, ...]  # of findings
    ended: bool  # by a halt
    buffers: tuple[np.ndarray, ...]
    charged: int  # of the budget

    def equal(self, other: Ran) -> bool:
        """Whether all bits are those of another run."""
        return all(a.tobytes() == b.tobytes() for a, b in zip(self.buffers, other.buffers, strict=True))


def load_of(case: Case) -> Code | PtxCode:
    """The code of a case."""
    text = case.built.text
    return ptx_launch.load(text) if case.built.architecture.startswith("sm_") else load(text)


def launch_of(case: Case, code: Code | PtxCode, kind: str, options: Options | None = None) -> Launch | PtxLaunch:
    """A launch of some code on a case's inputs."""
    values = case.make(np.random.default_rng(9), kind)
    of = PtxLaunch if isinstance(code, PtxCode) else Launch
    return of(code, case.grid, values, case.built.waves, case.built.shared_bytes, options or OPTIONS)


def execute(case: Case, code: Code, kind: str, options: Options | None = None) -> Ran:
    """Run it."""
    launch = launch_of(case, code, kind, options)
    halt = None
    try:
        if launch.options.check:
            launch.run_checked(ptx_check.judge(code) if isinstance(code, PtxCode) else judge(code))
        else:
            launch.run()
    except Halt as error:
        halt = error
    outcome = outcome_of(launch.findings, halt)
    kinds = (*(str(item.kind) for item in launch.findings), *([type(halt).__name__] if halt else []))
    left = tuple(item for item in launch.values if isinstance(item, np.ndarray))
    return Ran(str(outcome.status), kinds, halt is not None, left, launch.meter.charged)


ROUNDING = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float16): 2.0**-11, np.dtype(np.uint16): 2.0**-8}
"""Of a type of results, the relative error of one rounding; uint16 holds bfloat16."""


def off(ran: Ran, whole: Ran) -> bool:
    """Whether a verdict would refuse the results: its limit for n = 1024, against those of the whole kernel."""
    return ran.ended or any(_off(a, b) for a, b in zip(ran.buffers, whole.buffers, strict=True))


def _off(left: np.ndarray, right: np.ndarray) -> bool:
    if left.dtype not in ROUNDING:
        return not np.array_equal(left, right)
    limit = ROUNDING[left.dtype] + 2.0**-24 * (16 + 4 * 10)
    with np.errstate(all="ignore"):
        a, b = (from_bf16(x) if x.dtype == np.uint16 else x.astype(np.float64) for x in (left, right))
    known = np.isfinite(b)
    if not known.any():
        return False
    with np.errstate(all="ignore"):
        scale = np.abs(b[known]) + np.sqrt(np.mean(b[known] ** 2))
        return not bool((np.abs(a[known] - b[known]) <= limit * scale).all())


def kind_of(code: Code, index: int) -> str:
    """``barrier``, ``wait``, ``hint`` or ``other``."""
    if isinstance(code, PtxCode):
        return mutants_ptx.kind_of(code, index)
    instruction = code.compiled[index].instruction
    name = base_name(instruction.mnemonic)
    if name.startswith("s_barrier"):
        return "barrier"
    if waits_of(instruction):
        return "wait"
    return "hint" if name in IGNORED or name in {"s_endpgm", "s_sendmsg"} else "other"


def without(code: Code, index: int) -> Code:
    """The program with one instruction replaced by one that does nothing."""
    if isinstance(code, PtxCode):
        return mutants_ptx.without(code, index)
    old = code.compiled[index].instruction
    nothing = dataclasses.replace(old, mnemonic="s_nop", operands=("0",), modifiers={}, second=None)
    compiled = list(code.compiled)
    compiled[index] = compile_instruction(code.program, nothing)
    return cut(code.program, tuple(compiled))


@dataclass(frozen=True)
class Mutant:
    """One deletion and what came of it."""

    case: str
    architecture: str
    kind: str
    instruction: str
    line: int
    by: str  # "": not detected
    verdict: bool = False  # would notice it alone
    needed: bool | None = None  # barriers and waits that are not detected: by ``needed.py``
    explained: str = ""  # others that are not detected: their class, by ``survivors.py``


def executed(case: Case, code: Code) -> set[int]:
    """Instructions that some wave runs on the normal inputs."""
    launch = launch_of(case, code, "normal")
    seen: set[int] = set()

    def attach(runner) -> None:
        runner.watch = lambda machine, block: bool(seen.update(range(block.start, block.after)))

    launch.attach.append(attach)
    launch.run()
    return seen


def chosen(code: Code, reached: set[int], count: int, seed: int = 0) -> list[int]:
    """All barriers and waits that run, and a sample of the other instructions that do."""
    kinds = {index: kind_of(code, index) for index in sorted(reached)}
    always = [index for index, kind in kinds.items() if kind in {"barrier", "wait"}]
    others = [index for index, kind in kinds.items() if kind == "other"]
    random = np.random.default_rng(seed)
    sample = others if len(others) <= count else random.choice(others, count, replace=False).tolist()
    return sorted([*always, *sample])


def mutants(case: Case, count: int, pick: Callable[[Code, set[int], int], Sequence[int]] = chosen) -> Iterator[Mutant]:
    """Delete instructions one by one."""
    code = load_of(case)
    whole = [execute(case, code, kind) for kind in INPUTS]
    assert all(ran.status == "passed" for ran in whole), (case.name, [ran.kinds for ran in whole])
    explain = (PtxExplained if isinstance(code, PtxCode) else Explained)(case, code)
    for index in pick(code, executed(case, code), count):
        site, mutant = code.compiled[index].instruction.site, without(code, index)
        found = Mutant(case.name, case.built.architecture, kind_of(code, index), site.text, site.line, "")
        by, verdict = detected(case, mutant, whole)
        yield dataclasses.replace(found, by=by, verdict=verdict) if by else explain.survivor(found, index)


def detected(case: Case, code: Code, whole: Sequence[Ran]) -> tuple[str, bool]:
    """How a mutant is told from the whole kernel, empty where it is not; and whether the verdict alone would."""
    by, verdict = "", False
    for kind, reference in zip(INPUTS, whole, strict=True):
        options = dataclasses.replace(OPTIONS, budget=20 * reference.charged, check=not by)
        ran = execute(case, code, kind, options)
        verdict = verdict or off(ran, reference) or (kind == "normal" and _off_in_order(case, code, options, reference))
        if not by and ran.kinds:
            by = ran.kinds[0]
        elif not by and not ran.equal(reference):
            by = f"bits, {kind} inputs"
        if by and verdict:
            break
    return by, verdict


def _off_in_order(case: Case, code: Code, options: Options, reference: Ran) -> bool:
    """In the orders of waves of a cell's second and third call."""
    others = (dataclasses.replace(options, order=Order.SEEDED, seed=seed, check=False) for seed in (2, 3))
    return any(off(execute(case, code, "normal", other), reference) for other in others)


class Explained:
    """Says of a case's survivors why they are none of the checker's misses."""

    def __init__(self, case: Case, code: Code) -> None:
        self.case, self.code = case, code

    @functools.cached_property
    def records(self) -> list[tuple[Record, list[Meeting]]]:
        """A run on each kind of inputs, with the accesses that meet."""
        found = []
        for kind in INPUTS:
            record, launch = Record(self.code), launch_of(self.case, self.code, kind)
            launch.attach.append(record.attach)
            launch.run()
            found.append((record, meetings(record)))
        return found

    @functools.cached_property
    def effects(self) -> Effects:
        """What its instructions did on all kinds of inputs."""
        return effects_of(self.code, [launch_of(self.case, self.code, kind) for kind in INPUTS])

    def survivor(self, found: Mutant, index: int) -> Mutant:
        """The mutant with what is known of it."""
        if found.kind == "other":
            return dataclasses.replace(found, explained=class_of(self.effects, index))
        decide = barrier_is_needed if found.kind == "barrier" else wait_is_needed
        return dataclasses.replace(found, needed=any(decide(record, met, index) for record, met in self.records))


class PtxExplained:
    """The same of PTX."""

    def __init__(self, case: Case, code: PtxCode) -> None:
        self.case, self.code = case, code

    def survivor(self, found: Mutant, index: int) -> Mutant:
        """The mutant with what is known of it."""
        if found.kind == "other":
            launches = [launch_of(self.case, self.code, kind) for kind in INPUTS]
            return dataclasses.replace(found, explained=mutants_ptx.class_of(self.code, index, launches))
        return dataclasses.replace(found, needed=mutants_ptx.is_fence(self.code, index) or self._ordered(index))

    def _ordered(self, index: int) -> bool:
        """Whether, without it, some order of warps leaves other bits."""
        code = mutants_ptx.without(self.code, index)
        orders = [Options(order=order, check=False) for order in (Order.FORWARD, Order.REVERSE)]
        return any(
            not execute(self.case, code, kind, options).equal(execute(self.case, self.code, kind))
            for kind in INPUTS
            for options in orders
        )


def rates(found: Sequence[Mutant]) -> str:
    """Detected of all, by kind; of barriers and waits those that are needed."""
    kinds = {kind: [item for item in found if item.kind == kind] for kind in ("barrier", "wait", "other")}
    return "  ".join(f"{kind} {_rate(items)}" for kind, items in kinds.items())


def _rate(items: Sequence[Mutant]) -> str:
    needed = [item for item in items if item.needed is not False]
    return f"{sum(bool(item.by) for item in needed)}/{len(needed)}" + (
        f" (+{len(items) - len(needed)} not needed)" if len(items) > len(needed) else ""
    )
