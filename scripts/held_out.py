#!/usr/bin/env python3
"""Holds the emulator against results of a GPU that nothing in it was made from: other seeds, and other shapes.

    python scripts/held_out.py FOLDER --take --seed 5      # on a host with an NVIDIA GPU of Hopper
    python scripts/held_out.py FOLDER                      # anywhere: one line a kernel, exit code 1 beyond a bound

Four parts, ``--only`` chooses of them:

kernels       ``vector_kernels.py``, compiled for sm_80, sm_89 and sm_90 and run by the GPU, whatever their target.
              Their texts and results are kept, inputs follow from the seed.
instructions  as ``portkit selftest --isa-vectors`` records them.
functions     the approximate ones on random arguments: any bits, and within each of ``record_functions.spans()``.
suite         ``held_out.yaml``: the suite's quick tier on shapes of its own. The second command emulates it where no
              report in the folder has.

``results`` are those compared, ``equal`` how many have the GPU's bits; NaN of any payload are alike. ``ulp`` are steps
between neighbouring numbers of the result's type. Beyond their bound are results of the suite whose distance is more
than the verdict's limit, others by what the tables of instructions declare; of the kernels it is equality.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import lzma
import math
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import record_functions
from emulated_distance import SUITE, absent, apart, carried_out, emulated_cells, pairs
from given import reports
from numpy.typing import NDArray
from ruamel.yaml import YAML
from tabulate import tabulate
from told import told

from portkit.emulate import run
from portkit.emulate.core.smallfloats import E4M3, E5M2
from portkit.emulate.core.vectors import EXACT, Approximation, Comparison, Probe, compare, read, write
from portkit.emulate.ptx.replay import approximation
from portkit.emulate.vectors import comparisons
from portkit.errors import HostError, VectorsError
from portkit.model import Evidence
from portkit.plan.expand import Emulate, Selection
from portkit.run.benchmark import Prepared, prepare
from portkit.store.journal import read_report

Bits: TypeAlias = NDArray[Any]
PARTS = ("kernels", "instructions", "functions", "suite")
ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
HERE = "sm_90"
"""What the emulator takes every kernel for: the GPU computes texts of older targets with its own units, too."""

SHAPES = Path(__file__).with_name("held_out.yaml")
RANDOM = 1 << 19
"""Arguments of a span of functions."""

WIDTHS = {"fp32": np.uint32, "i32": np.uint32, "fp16": np.uint16, "bf16": np.uint16}
"""Kind of a tensor → what its bits lie in; others are bytes."""

PROBED = {"fp32": "F32", "fp16": "F16", "bf16": "B16", "i32": "U32"}
"""Kind of a tensor → its name among operands of instructions; others are codes."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    shape: str
    results: int
    equal: int
    furthest: float  # steps
    bound: str
    within: bool

    @property
    def verdict(self) -> str:
        """In a word."""
        return "equal" if self.equal == self.results else "within" if self.within else "BEYOND"

    def told(self, seed: int) -> tuple[str, ...]:
        """As the table has it."""
        numbers = f"{self.results:,}", f"{self.equal:,}", f"{self.furthest:g}"
        return self.name, self.shape, str(seed), *numbers, self.bound, self.verdict


HEAD = ("kernel", "shape", "seed", "results", "equal", "furthest, ulp", "bound", "verdict")
SUMS = ("part", "lines", "equal", "within", "BEYOND", "results", "differing", "furthest, ulp")


def summed(part: str, found: Sequence[Row]) -> tuple[str, ...]:
    """All lines of a part in one."""
    verdicts = [str(sum(each.verdict == word for each in found)) for word in SUMS[2:5]]
    results, alike = sum(each.results for each in found), sum(each.equal for each in found)
    furthest = max((each.furthest for each in found), default=0)
    return part, str(len(found)), *verdicts, f"{results:,}", f"{results - alike:,}", f"{furthest:g}"


# -- kernels


class Device(Protocol):
    """What runs a kernel's text."""

    def __call__(self, saved: Mapping[str, Any], text: str, values: Sequence[Bits | int | float]) -> list[Bits]:
        """The tensors as the kernel leaves them, in bytes."""


def inputs(saved: Mapping[str, Any], seed: int) -> list[Bits | int | float]:
    """Arguments of a launch: bits of tensors, and numbers."""
    name = zlib.crc32(f"{saved['kernel']} {saved['shape']}".encode())
    arguments = enumerate(saved["arguments"])
    return [_bits(each, [seed, name, place]) if isinstance(each, Mapping) else each for place, each in arguments]


def _bits(tensor: Mapping[str, Any], seeds: list[int]) -> Bits:
    generator, kind, shape = np.random.Generator(np.random.PCG64(seeds)), tensor["kind"], tensor["shape"]
    width = WIDTHS.get(kind, np.uint8)
    if tensor["written"]:
        return np.zeros(shape, width)
    if not tensor["size"]:
        return generator.integers(0, 1 << 32, shape, dtype=np.uint64).astype(width)
    values = generator.standard_normal(shape) * tensor["size"]
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind.startswith("fp8"):
        return {"fp8e4nv": E4M3, "fp8e5": E5M2}[kind].encode(values, True).astype(np.uint8)
    return values.astype({"fp32": np.float32, "fp16": np.float16, "i8": np.int8}[kind]).view(width)


def take_kernels(path: Path, seed: int, device: Device) -> None:
    """Compile and run all kernels, and keep their texts and results."""
    from vector_kernels import launches  # noqa: PLC0415 - loads Triton, which comparing does without

    kept: list[dict[str, Any]] = []
    arrays: dict[str, Bits] = {}
    for architecture in ARCHITECTURES:
        for launch in launches(architecture):
            built = launch.built(architecture)
            about = built.metadata
            saved = {"architecture": architecture, **launch.told(), "entry": about.name, "warps": about.num_warps}
            saved |= {"shared": about.shared, "scratch": about.global_scratch_size}
            values = inputs(saved, seed)
            saved["inputs"] = _sum(values)
            for place, after in enumerate(device(saved, built.asm["ptx"], values)):
                arrays[f"{len(kept)}/{place}"] = after
            arrays[f"{len(kept)}/text"] = np.frombuffer(built.asm["ptx"].encode(), np.uint8)
            kept.append(saved)
    stream = io.BytesIO()
    np.savez(stream, header=np.frombuffer(json.dumps(kept).encode(), np.uint8), **arrays)
    path.write_bytes(lzma.compress(stream.getvalue()))


def _sum(values: Iterable[Bits | int | float]) -> int:
    total = 0
    for each in values:
        total = zlib.crc32(each.tobytes() if isinstance(each, np.ndarray) else repr(each).encode(), total)
    return total


class Gpu:
    """This host's, through the driver: it takes texts of other targets, too, which Triton's launcher does not.

    Raises:
        HostError: it is no Hopper.
    """

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - comparing does without

        found = "sm_{}{}".format(*torch.cuda.get_device_capability()) if torch.cuda.is_available() else "none"
        if found != HERE:
            raise HostError(
                f"kernels are taken of a GPU of {HERE}, and here is {found}",
                place="--take",
                remedy="leave them out on another NVIDIA GPU: --only instructions functions",
            )
        self._torch = torch
        torch.zeros(1, device="cuda")  # makes the context
        self._driver = ctypes.CDLL("libcuda.so.1")

    def __call__(self, saved: Mapping[str, Any], text: str, values: Sequence[Bits | int | float]) -> list[Bits]:
        """As :class:`Device` says."""
        tensors = [self._sent(each) if isinstance(each, np.ndarray) else each for each in values]
        blocks = math.prod(saved["grid"])
        scratch = self._torch.zeros(max(1, saved["scratch"] * blocks), dtype=self._torch.uint8, device="cuda")
        arguments = [*map(_argument, tensors), _argument(scratch), ctypes.c_uint64(0)]
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        grid = (*saved["grid"], 1, 1)[:3]
        function = self._function(text, saved["entry"], saved["shared"])
        stream = ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)
        self._asked(
            "cuLaunchKernel", function, *grid, 32 * saved["warps"], 1, 1, saved["shared"], stream, pointers, None
        )
        self._torch.cuda.synchronize()
        written = [
            place for place, each in enumerate(saved["arguments"]) if isinstance(each, Mapping) and each["written"]
        ]
        return [tensors[place].cpu().numpy() for place in written]

    def _sent(self, array: Bits) -> Any:
        return self._torch.from_numpy(array.reshape(-1).view(np.uint8)).to("cuda")

    def _function(self, text: str, name: str, shared: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._asked("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        self._asked("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > DEFAULT_SHARED:
            self._asked("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, shared)
        return function

    def _asked(self, call: str, *arguments: Any) -> None:
        code = getattr(self._driver, call)(*arguments)
        if code:
            raise HostError(f"{call} failed with code {code} of the CUDA driver", remedy="look up CUresult")


DEFAULT_SHARED, MAX_DYNAMIC_SHARED = 48 << 10, 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def _argument(value: Any) -> Any:
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_uint64(value.data_ptr())


def on_hopper(text: str) -> str:
    """The text of an older target as the GPU takes it."""
    return re.sub(r"^\.target sm_8\d", f".target {HERE}", text, flags=re.MULTILINE)


def emulator(saved: Mapping[str, Any], text: str, values: Sequence[Bits | int | float]) -> list[Bits]:
    """The emulator as a device.

    Raises:
        VectorsError: it found something.
    """
    own = [
        np.ascontiguousarray(each).reshape(-1).view(np.uint8).copy() if isinstance(each, np.ndarray) else each
        for each in values
    ]
    size = saved["scratch"] * math.prod(saved["grid"])
    scratch = [np.zeros(size, np.uint8)] if size else []
    done = run(on_hopper(text), HERE, (*saved["grid"], 1, 1)[:3], [*own, *scratch], saved["warps"], saved["shared"])
    if done.outcome.status != "passed":
        raise VectorsError(f"{_name(saved)}: {done.outcome.status}: {done.outcome.message}")
    return [
        each
        for each, told in zip(own, saved["arguments"], strict=True)
        if isinstance(told, Mapping) and told["written"]
    ]


def kernels(path: Path, seed: int) -> Iterator[Row]:
    """Each buffer that a kernel wrote, emulated.

    Raises:
        VectorsError: inputs come out as others than those that were recorded.
    """
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as stored:
        for number, saved in enumerate(json.loads(bytes(stored["header"]))):
            values = inputs(saved, seed)
            if _sum(values) != saved["inputs"]:
                raise VectorsError(
                    f"{_name(saved)}: other inputs than were recorded",
                    place=str(path),
                    remedy="take the NumPy that recorded them",
                )
            found = emulator(saved, bytes(stored[f"{number}/text"]).decode(), values)
            written = [each for each in saved["arguments"] if isinstance(each, Mapping) and each["written"]]
            expected = [stored[f"{number}/{place}"] for place in range(len(written))]
            yield _kernel(saved, [_compared(*each) for each in zip(written, expected, found, strict=True)])


def _name(saved: Mapping[str, Any]) -> str:
    return f"{saved['architecture']} {saved['kernel']} {saved['kinds']}"


def _compared(tensor: Mapping[str, Any], expected: Bits, found: Bits) -> Comparison:
    width, kind = WIDTHS.get(tensor["kind"], np.uint8), PROBED.get(tensor["kind"])
    rows = [each.view(width).astype(np.uint32).reshape(-1, 1) for each in (expected, found)]
    probe = Probe("", "", (), (), (kind or "U32",))
    return compare(probe, rows[0], *rows, EXACT.bound)


def _kernel(saved: Mapping[str, Any], compared: Sequence[Comparison]) -> Row:
    values, alike, largest, outside = _summed(compared)
    return Row(_name(saved), saved["shape"], values, alike, largest, "its bits", not outside)


def _summed(compared: Sequence[Comparison]) -> tuple[int, int, float, int]:
    alike = sum(each.equal + each.nans for each in compared)
    largest = max((each.largest for each in compared), default=0)
    return sum(each.values for each in compared), alike, largest, sum(each.outside for each in compared)


# -- single instructions


def take_instructions(path: Path, seed: int) -> None:
    """As ``portkit selftest`` does."""
    from portkit.run.instruction_vectors import Hardware, record  # noqa: PLC0415 - loads PyTorch

    write(path, record(Hardware(), seed=seed))


def instructions(path: Path, seed: int) -> Iterator[Row]:
    """A line for all that are equal, and one for each other."""
    compared = list(comparisons(read(path), str(path)))
    same = [each for each in compared if each.equal + each.nans == each.values]
    rest = [each for each in compared if each not in same]
    if same:
        values, alike, largest, outside = _summed(same)
        yield Row(f"{len(same)} instructions", "", values, alike, largest, "declared", not outside)
    for each in rest:
        alike = each.equal + each.nans
        yield Row(each.name, "", each.values, alike, each.largest, bound_of(approximation(each.name)), not each.outside)


def bound_of(declared: Approximation) -> str:
    """In short."""
    reaches = [f"{each.absolute:.2g} up to {each.reach / math.pi:g}π" for each in declared.ranges]
    sizes = [f"{declared.ulps} ulp"] * (declared.ulps > 0) + [f"{declared.absolute:.2g}"] * (declared.absolute > 0)
    return " or ".join([*sizes, *[", ".join(reaches)] * bool(reaches)]) or "its bits"


# -- approximate functions


def held_out_spans() -> list[record_functions.Span]:
    """Random arguments of every range that is recorded, of any bits and within it."""
    found = [replace(each, stride=1, random=RANDOM) for each in record_functions.spans() if each.last > 1 << 16]
    return list(dict.fromkeys(found))


def take_functions(path: Path, seed: int) -> None:
    """Run the functions on their arguments."""
    np.savez(path, **record_functions.record(seed, held_out_spans()))


def functions(path: Path, seed: int) -> Iterator[Row]:
    """One line an instruction."""
    gathered: dict[str, list[Comparison]] = {}
    for name, compared in _by_sums(path) if path.suffix == ".json" else _one_by_one(path):
        gathered.setdefault(name, []).append(compared)
    for name, each in gathered.items():
        values, alike, largest, outside = _summed(each)
        bound = bound_of(approximation(name))
        yield Row(name, f"{len(each)} ranges", values, alike, largest, bound, not outside)


def _one_by_one(path: Path) -> Iterator[tuple[str, Comparison]]:
    for span, arguments, results in record_functions.read(path):
        yield span.instruction, _function(span.instruction, arguments, results)


def _by_sums(path: Path) -> Iterator[tuple[str, Comparison]]:
    """Checksums tell of each range whether all are equal, and no more."""
    about = json.loads(path.read_text())
    for saved, total in zip(about["spans"], about["sums"], strict=True):
        span = record_functions.Span(**saved)
        found = record_functions.emulated(span.instruction, span.bits(about["seed"]))
        same = zlib.crc32(found) == total
        other = 0 if same else found.size
        yield span.instruction, Comparison(span.instruction, found.size, found.size - other, 0, 0.0, other, None)


def _function(name: str, arguments: Bits, results: Bits) -> Comparison:
    """Of all arguments; outside are those alone for which a bound is declared."""
    found, declared = record_functions.emulated(name, arguments), approximation(name)
    sizes = np.abs(arguments.view(np.float32))
    near = sizes <= declared.ranges[-1].reach if declared.ranges else np.ones(sizes.shape, np.bool_)
    bound = declared.bound_of(sizes[near]) if declared.ranges else declared.bound
    probe = Probe(name, name, (), ("F32",), ("F32",))
    whole, part = ([each[kept].reshape(-1, 1) for each in (arguments, results, found)] for kept in (np.s_[:], near))
    relative = np.abs(part[1].view(np.float32).astype(np.float64)) if declared.relative else None
    outside = compare(probe, *part, bound, relative).outside
    return replace(compare(probe, *whole, EXACT.bound), outside=outside)


# -- the suite


class Seeded:
    """A session whose jobs have another seed than 0."""

    def __init__(self, session: Any, seed: int) -> None:
        self._session, self._seed = session, seed

    def results(self, chains: Sequence[Any], *rest: Any, **named: Any) -> Iterator[Any]:
        """Of the session."""
        own = [tuple(replace(job, seed=self._seed) for job in chain) for chain in chains]
        return self._session.results(own, *rest, **named)

    def close(self) -> None:
        """End the session."""
        self._session.close()


def plan(target: str) -> Prepared:
    """The suite's quick tier, in every dtype, on the shapes of ``held_out.yaml``."""
    prepared = prepare(SUITE, tier="quick", selection=Selection((target,)), emulate=Emulate.ALL)
    shapes = YAML(typ="safe").load(SHAPES)
    cells = [
        replace(each, cell=replace(each.cell, shape=tuple(map(int, str(shape).split("x"))), dtype=dtype))
        for each in emulated_cells(prepared)
        for dtype in prepared.declarations[each.cell.case].dtypes
        for shape in shapes[each.cell.case]
    ]
    return replace(prepared, plan=replace(prepared.plan, cells=tuple(cells)))


def take_suite(folder: Path, seed: int, target: str, processes: int = 7) -> None:
    """Judge its cells on the GPU."""
    from untimed import UntimedSession  # noqa: PLC0415 - loads PyTorch

    prepared = plan(target)
    cells = [replace(each, evidence=Evidence.MEASURED) for each in emulated_cells(prepared)]
    carried_out(prepared, cells, folder, Seeded(UntimedSession(processes), seed))


def emulate_suite(folder: Path, seed: int, prepared: Prepared) -> None:
    """Emulate its cells."""
    from portkit.run.benchmark import default_limits  # noqa: PLC0415
    from portkit.run.session import Session  # noqa: PLC0415

    session = Seeded(Session(default_limits()), seed)
    try:
        carried_out(prepared, emulated_cells(prepared), folder, session)
    finally:
        session.close()


def suite(path: Path, seed: int, target: str) -> Iterator[Row]:
    """One line a cell; what is kept in an archive is complete, and of the kernels' sources of its day."""
    if path.is_dir():
        complete(path, seed, target)
    for pair in pairs(reports([path]), target):
        found, cell = list(apart(pair)), pair[0][1].cell
        results = sum(each.ulp.size for each in found)
        alike = sum(int(np.count_nonzero(each.ulp == 0)) - (not each.equal and not each.ulp.any()) for each in found)
        furthest = max(float(each.ulp.max(initial=0)) for each in found)
        limits = [math.inf if each.of_limit is None else each.of_limit for each in found]
        share = "its bits" if None in {each.of_limit for each in found} else f"limit, {max(limits):.2f} of it"
        yield Row(f"{cell.case} {cell.dtype}", cell.shape_text, results, alike, furthest, share, max(limits) <= 1)


def complete(folder: Path, seed: int, target: str) -> None:
    """Emulate the cells where no report of the folder has.

    Raises:
        VectorsError: a cell has no two sides of today's source.
    """
    prepared = plan(target)
    records = [record for path in reports([folder]) for record in read_report(path).records]
    if all(record.evidence is Evidence.MEASURED for record in records):
        emulate_suite(folder, seed, prepared)
    if left := absent(prepared, pairs(reports([folder]), target)):
        raise VectorsError(f"{len(left)} cells were not compared: {', '.join(left[:3])}", place=str(folder))


# -- the command

FILES = {
    "kernels": "kernels.npz.xz",
    "instructions": "instructions.vectors",
    "functions": "functions.npz",
    "suite": "suite",
}
"""What each part is taken to."""

KEPT = {"functions": "functions.json", "suite": "suite.tar.xz"}
"""What takes their place in a folder that is kept: checksums, and reports in an archive."""


def take(folder: Path, seed: int, parts: Iterable[str], target: str) -> None:
    """Every part that was asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "taken.json").write_text(json.dumps({"seed": seed, "target": target}) + "\n")
    for part in sorted(parts, key="suite".__ne__):  # which forks, and so comes before CUDA is in use here
        if part == "kernels":
            take_kernels(folder / FILES[part], seed, Gpu())
        elif part == "suite":
            take_suite(folder / FILES[part], seed, target)
        else:
            {"instructions": take_instructions, "functions": take_functions}[part](folder / FILES[part], seed)
        print(f"taken: {part}", flush=True)


def rows(folder: Path, part: str) -> list[Row]:
    """Of one part."""
    about, kept = json.loads((folder / "taken.json").read_text()), KEPT.get(part)
    path = folder / (kept if kept and (folder / kept).exists() else FILES[part])
    if part == "suite":
        return list(suite(path, about["seed"], about["target"]))
    compared = {"kernels": kernels, "instructions": instructions, "functions": functions}
    return list(compared[part](path, about["seed"]))


def main(arguments: Sequence[str]) -> int:
    """Take, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--take", action="store_true")
    parser.add_argument("--seed", type=int, help="of all that is taken")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--target", default="h200", help="of the suite's cells (%(default)s)")
    given = parser.parse_args(arguments)
    if given.take != (given.seed is not None):
        parser.error("--take and --seed go together")
    if given.take:
        take(given.folder, given.seed, given.only, given.target)
        return 0
    seed = json.loads((given.folder / "taken.json").read_text())["seed"]
    found = {part: rows(given.folder, part) for part in given.only}
    lines = [each.told(seed) for part in found.values() for each in part]
    print(tabulate(lines, HEAD, tablefmt="github", disable_numparse=True))
    print("\n" + tabulate([summed(*part) for part in found.items()], SUMS, tablefmt="github", disable_numparse=True))
    return int(not all(each.within for part in found.values() for each in part))


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
