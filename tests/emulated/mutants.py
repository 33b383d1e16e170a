"""What it does to kernels to delete single instructions, or to change what they wait for, arrive at and announce.

A mutant is detected by the checker (a finding, a fault, a launch that does not end), or by the bits of the
buffers, which differ from those of the whole kernel on normal or on extreme inputs. Beside that stands whether the
verdict of a cell would notice it alone: what ends a launch, and results that are off by more than its limit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import mutants_amd
import mutants_ptx
import numpy as np
import survivors_ptx
from compiled import OPTIONS, from_bf16
from mutant_cases import INPUTS, Case
from needed import Meeting, Record, barrier_is_needed, meetings, wait_is_needed
from survivors import Effects, class_of, effects_of

from portkit.emulate import Options, Order
from portkit.emulate.amdgcn.check import judge
from portkit.emulate.amdgcn.execute import Code
from portkit.emulate.amdgcn.launch import Launch, load
from portkit.emulate.core.findings import Halt, outcome_of
from portkit.emulate.ptx import check as ptx_check
from portkit.emulate.ptx import launch as ptx_launch
from portkit.emulate.ptx.execute import Code as PtxCode
from portkit.emulate.ptx.launch import Launch as PtxLaunch


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


# -- mutants


DELETED = "deleted"

ORDERING = ("barrier", "mbarrier", "arrive", "wait", "commit", "fence")
"""Kinds of instructions that compute nothing: all of them are mutated, of the others a sample."""

MISSED = "MISSED"


class Change(NamedTuple):
    """What is done to an instruction."""

    index: int
    name: str  # ``DELETED``, or what it becomes


@dataclass(frozen=True)
class Mutant:
    """One change and what came of it."""

    case: str
    architecture: str
    kind: str  # of ``ORDERING``, or "other"
    change: str
    line: int
    instruction: str
    by: str  # "": not detected
    verdict: bool = False  # would notice it alone
    why: str = ""  # of what is not detected: why there is nothing to find, or ``MISSED``


Pick = Callable[[Code | PtxCode, set[int], int], Sequence[Change]]
"""From a program, the instructions that run, and a number of others to take."""


@dataclass(frozen=True)
class Prepared:
    """A case with what its whole kernel does."""

    case: Case
    code: Code | PtxCode
    whole: tuple[Ran, ...]  # by ``INPUTS``
    changes: tuple[Change, ...]

    @functools.cached_property
    def explain(self) -> Callable[[Mutant, Change], str]:
        """Why a mutant that is not detected is none of the checker's misses, or ``MISSED``."""
        of = PtxExplained if isinstance(self.code, PtxCode) else Explained
        return of(self.case, self.code).why


def kinds_of(code: Code | PtxCode) -> ModuleType:
    """The module that knows the mutants of a program's instruction set."""
    return mutants_ptx if isinstance(code, PtxCode) else mutants_amd


def executed(case: Case, code: Code | PtxCode) -> set[int]:
    """Instructions that some wave runs on the normal inputs."""
    launch = launch_of(case, code, "normal")
    seen: set[int] = set()

    def attach(runner) -> None:
        runner.watch = lambda machine, block: bool(seen.update(range(block.start, block.after)))

    launch.attach.append(attach)
    launch.run()
    return seen


def ordering(code: Code | PtxCode, reached: set[int], count: int = 0) -> list[Change]:
    """All mutants of what orders, none of the other instructions."""
    of = kinds_of(code)
    found = (index for index in sorted(reached) if of.kind_of(code, index) in ORDERING)
    return [Change(index, name) for index in found for name in (DELETED, *of.weaker(code, index))]


def chosen(code: Code | PtxCode, reached: set[int], count: int, seed: int = 0) -> list[Change]:
    """The same, and a sample of deletions of the other instructions."""
    others = [index for index in sorted(reached) if kinds_of(code).kind_of(code, index) == "other"]
    random = np.random.default_rng(seed)
    sample = others if len(others) <= count else random.choice(others, count, replace=False).tolist()
    return sorted([*ordering(code, reached), *(Change(index, DELETED) for index in sample)])


def prepare(case: Case, count: int, pick: Pick = chosen) -> Prepared:
    """Run the whole kernel on all kinds of inputs, and choose the mutants."""
    code = load_of(case)
    whole = tuple(execute(case, code, kind) for kind in INPUTS)
    assert all(ran.status == "passed" for ran in whole), (case.name, [ran.kinds for ran in whole])
    return Prepared(case, code, whole, tuple(pick(code, executed(case, code), count)))


def mutants(case: Case, count: int, pick: Pick = chosen) -> Iterator[Mutant]:
    """Change instructions one by one."""
    prepared = prepare(case, count, pick)
    return (mutant_of(prepared, change) for change in prepared.changes)


def mutant_of(prepared: Prepared, change: Change) -> Mutant:
    """One of them."""
    code, of = prepared.code, kinds_of(prepared.code)
    kind, site = of.kind_of(code, change.index), code.compiled[change.index].instruction.site
    made = Mutant(prepared.case.name, prepared.case.built.architecture, kind, change.name, site.line, site.text, "")
    by, verdict = detected(prepared.case, of.changed(code, change), prepared.whole)
    found = dataclasses.replace(made, by=by, verdict=verdict)
    return found if by else dataclasses.replace(found, why=prepared.explain(found, change))


PATIENCE = 8
"""How many times the whole kernel's instructions a mutant may run before it counts as without end."""


def detected(case: Case, code: Code | PtxCode, whole: Sequence[Ran]) -> tuple[str, bool]:
    """How a mutant is told from the whole kernel, empty where it is not; and whether the verdict alone would."""
    by, verdict = "", False
    for kind, reference in zip(INPUTS, whole, strict=True):
        options = dataclasses.replace(OPTIONS, budget=PATIENCE * reference.charged, check=not by)
        ran = execute(case, code, kind, options)
        verdict = verdict or off(ran, reference) or (kind == "normal" and _off_in_order(case, code, options, reference))
        if not by and ran.kinds:
            by = ran.kinds[0]
        elif not by and not ran.equal(reference):
            by = f"bits, {kind} inputs"
        if by and verdict:
            break
    return by, verdict


def _off_in_order(case: Case, code: Code | PtxCode, options: Options, reference: Ran) -> bool:
    """In the orders of waves of a cell's second and third call."""
    others = (dataclasses.replace(options, order=Order.SEEDED, seed=seed, check=False) for seed in (2, 3))
    return any(off(execute(case, code, "normal", other), reference) for other in others)


# -- survivors


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

    def why(self, found: Mutant, change: Change) -> str:
        """A class of ``survivors.py``, ``not needed`` by ``needed.py``, or ``MISSED``."""
        if found.kind == "other":
            return class_of(self.effects, change.index)
        if found.kind == "barrier":
            needed = any(barrier_is_needed(record, met, change.index) for record, met in self.records)
        else:
            instead = mutants_amd.waits(self.code, change)
            needed = any(wait_is_needed(record, met, change.index, instead) for record, met in self.records)
        return MISSED if needed else "not needed"


class PtxExplained:
    """The same of PTX."""

    def __init__(self, case: Case, code: PtxCode) -> None:
        self.case, self.code = case, code

    def why(self, found: Mutant, change: Change) -> str:
        """A class of ``survivors_ptx.py``, or ``MISSED``."""
        if found.kind == "other":
            return survivors_ptx.class_of(self.code, change.index, lambda: self._launches(self.code))
        if without := survivors_ptx.is_without(self.code, change, lambda: self._launches(self.code)):
            return without
        mutant = mutants_ptx.changed(self.code, change)
        if not self._same_in_all_orders(mutant):
            return MISSED
        if change.name == DELETED and survivors_ptx.is_behind(self.code, change.index, self._launches(self.code)):
            return "behind"
        name = mutants_ptx.name_of(self.code.compiled[change.index])
        return survivors_ptx.reason(found.kind, name, self._launches(self.code), self._launches(mutant)) or MISSED

    def _launches(self, code: PtxCode) -> list[PtxLaunch]:
        return [launch_of(self.case, code, kind) for kind in INPUTS]

    def _same_in_all_orders(self, code: PtxCode) -> bool:
        """Whether the bits are those of the whole kernel when warps run first to last, and last to first."""
        orders = [dataclasses.replace(OPTIONS, order=order, check=False) for order in (Order.FORWARD, Order.REVERSE)]
        return all(
            execute(self.case, code, kind, options).equal(execute(self.case, self.code, kind))
            for kind in INPUTS
            for options in orders
        )


def rates(found: Sequence[Mutant]) -> str:
    """Detected of all that can be, by kind."""
    kinds = {kind: [item for item in found if item.kind == kind] for kind in (*ORDERING, "other")}
    return "  ".join(f"{kind} {_rate(items)}" for kind, items in kinds.items() if items)


def _rate(items: Sequence[Mutant]) -> str:
    needed = [item for item in items if item.by or item.why == MISSED or item.kind == "other"]
    more = f" (+{len(items) - len(needed)} not needed)" if len(items) > len(needed) else ""
    return f"{sum(bool(item.by) for item in needed)}/{len(needed)}{more}"
