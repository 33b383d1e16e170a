"""Matrix + kernel cases + targets → :class:`portkit.model.Plan`; pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from portkit.errors import CatalogError, MatrixError, nearest
from portkit.model import (
    INTERPRETER,
    Axes,
    CaseDeclaration,
    Cell,
    Direction,
    Evidence,
    ExclusionRule,
    Expectation,
    Matrix,
    Plan,
    PlannedCell,
    Platform,
    Selector,
    Shape,
    digest,
)
from portkit.plan.matrix import FULL
from portkit.plan.matrix_format import SELECTORS
from portkit.plan.options import foreign

QUICK = "quick"
"""The tier that runs where none is asked for and the matrix has it."""

ALL = "all"
"""What a user writes to select every target."""

T = TypeVar("T")
Rule = TypeVar("Rule", Expectation, ExclusionRule)


class Emulate(enum.StrEnum):
    """For which targets the small shapes run in the instruction interpreter."""

    AUTO = "auto"  # those whose GPU is not in this host
    ALL = "all"  # those of this host, too, so that both kinds of evidence stand side by side
    OFF = "off"

    def of(self, emulatable: Iterable[str], present: Collection[str]) -> frozenset[str]:
        """Targets that get emulated cells.

        Args:
            emulatable: whose architecture can be emulated.
            present: of the GPUs of this host.
        """
        if self is Emulate.OFF:
            return frozenset()
        return frozenset(emulatable) - (frozenset() if self is Emulate.ALL else frozenset(present))


@dataclass(frozen=True)
class Selection:
    """Targets that a user asks for; no name at all asks for the default."""

    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Iterable[str]) -> Selection:
        """The selection of option values such as ``["h200,mi300x", "l4"]``."""
        names = [name.strip() for option in options for name in option.split(",")]
        return cls(tuple(dict.fromkeys(name for name in names if name)))

    def choose(self, listed: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
        """Names selected, in order, each once.

        Nothing asked: the GPUs present, or without one the listed targets and the
        interpreter. ``all``: the listed, the present and the interpreter. Otherwise
        the names themselves.
        """
        default = present or [*listed, INTERPRETER]
        every = [*listed, *present, INTERPRETER]
        asked = [name for option in self.names for name in (every if option == ALL else [option])]
        return tuple(dict.fromkeys(asked or default))


@dataclass(frozen=True)
class _Grid:
    """Values along every axis of one kernel."""

    directions: tuple[Direction, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]
    small_shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class _Kernel:
    """One kernel whose case could be read."""

    name: str
    whole: _Grid
    tiers: Mapping[str, _Grid]


def expand(  # noqa: PLR0913 (what a run has, by name)
    matrix: Matrix,
    declarations: Mapping[str, CaseDeclaration],
    known_targets: Collection[str],
    *,
    tier: str | None = None,
    targets: Selection | None = None,
    present: Sequence[str] = (),
    partitions: Mapping[str, str] | None = None,
    emulatable: Collection[str] = (),
    emulate: Emulate = Emulate.AUTO,
    triton: str | None = None,
    resolve: Callable[[str], str] = str,
    platforms: Mapping[str, Platform] | None = None,
) -> Plan:
    """All cells of a run, in the order kernel, direction, shape, dtype, variant, target.

    Every selected target gets a ``compiled`` cell, one that is present also a
    ``measured`` cell. Each target whose machine code is emulated gets one
    ``emulated`` cell for each small shape and variant. The interpreter, to which
    variants are hardly different, gets one ``interpreted`` cell for each small shape,
    with the first variant. Excluded cells stay, with their reason: a rule's, or that the
    variant sets a launch option of another vendor and the matrix expects nothing of it.

    Args:
        matrix: as :func:`portkit.plan.matrix.read_matrix` returns it.
        declarations: case name → its declaration. A kernel of the matrix without one
            gets no cell: its file could not be read, which the caller reports.
        known_targets: names in the catalogue, bare architectures included.
        tier: name of a tier; None is ``quick`` where the matrix has it, else ``full``.
        targets: what the user selected.
        present: targets of the GPUs of this host.
        partitions: target → modes of its GPUs of this host where they are not whole, as CPX/NPS4; its
            measured cells have them.
        emulatable: targets of an architecture that the instruction interpreter knows.
        emulate: which of them get emulated cells, if they are chosen.
        triton: version of Triton on this host; rules for other versions do not apply,
            and where it is unknown none with a range does.
        resolve: the catalogue's name of a target that is written in another way, as
            ``sm_90`` for ``sm90``; raises CatalogError for one that it does not know.
        platforms: target → its platform, for variants that set a launch option of one vendor.

    Raises:
        MatrixError: a name in the matrix is unknown, a shape has the wrong rank, a
            rule selects nothing or can't tell this Triton, or no cell is left.
        CatalogError: the user selected an unknown target.
    """
    known = {*known_targets, *present}
    matrix = _canonical(matrix, lambda name: _known_as(name, known, resolve))
    _check_targets(matrix, known)
    kernels = [
        _kernel(matrix, kernel.source.name, kernel.axes, declarations[kernel.source.name])
        for kernel in matrix.kernels
        if kernel.source.name in declarations
    ]
    _check_rules(matrix, kernels, emulatable)
    name = _tier(matrix, tier)
    asked = Selection(tuple(_known_as(name, known, resolve) for name in (targets or Selection()).names))
    chosen = _chosen(asked, matrix, present, known)
    gpus = _Gpus(chosen, frozenset(present), emulate.of(emulatable, present), partitions or {})
    _check_size(matrix, sum(_count(kernel, name, gpus) for kernel in kernels))
    variants = {case: declared.variants for case, declared in declarations.items()}
    attach = _Rules(matrix, triton, variants, platforms or {})
    cells = tuple(attach(*point) for kernel in kernels for point in _points(kernel, name, gpus))
    if not cells:
        raise MatrixError("no kernel case could be read, so the plan is empty", place=matrix.path, remedy=_EMPTY)
    return Plan(cells, name, _plan_hash(cells))


_EMPTY = "mend the kernel files that are named above"

MOST_CELLS = 100_000
"""Most cells of one run: more fill memory before the first of them begins."""


def _check_size(matrix: Matrix, cells: int) -> None:
    if cells > MOST_CELLS:
        raise MatrixError(
            f"the plan has {cells:,} cells, {MOST_CELLS:,} are the most of one run",
            place=matrix.path,
            remedy="narrow it with a tier or --portkit-target; reports of several runs merge into one table",
        )


@dataclass(frozen=True)
class _Gpus:
    """Targets chosen, and what can be done on each."""

    chosen: tuple[str, ...]  # the interpreter may be among them
    present: frozenset[str]
    emulated: frozenset[str]
    partitions: Mapping[str, str]  # target → modes of its devices where they are not whole

    def on_small_shapes(self, variants: Sequence[str]) -> tuple[tuple[str, str, Evidence], ...]:
        """Variant, target and evidence of what runs on each small shape."""
        emulated = [name for name in self.chosen if name in self.emulated]
        interpreted = [(variants[0], INTERPRETER, Evidence.INTERPRETED)] * (INTERPRETER in self.chosen)
        return (*[(variant, name, Evidence.EMULATED) for variant, name in product(variants, emulated)], *interpreted)


def _count(kernel: _Kernel, tier: str, gpus: _Gpus) -> int:
    """How many cells :func:`_points` gives."""
    grid = kernel.tiers[tier]
    large = sum(1 + (name in gpus.present) for name in gpus.chosen if name != INTERPRETER)
    built = len(grid.shapes) * len(grid.variants) * large
    small = len(grid.small_shapes) * len(gpus.on_small_shapes(grid.variants))
    return len(grid.directions) * len(grid.dtypes) * (built + small)


def default_tier(matrix: Matrix) -> str:
    """The tier that runs where none is asked for."""
    return QUICK if QUICK in matrix.tiers else FULL


def _tier(matrix: Matrix, asked: str | None) -> str:
    name = default_tier(matrix) if asked is None else asked
    if name not in matrix.tiers:
        raise MatrixError(f"unknown tier {name!r}", place=matrix.path, remedy=nearest(name, matrix.tiers))
    return name


# --------------------------------------------------------------------------
# Axes


def _kernel(matrix: Matrix, name: str, axes: Axes, declared: CaseDeclaration) -> _Kernel:
    key = f"kernels.{name}"
    has = f"kernel case {name!r} declares"
    _check_rank(matrix, f"{key}.shapes", axes.shapes or (), declared.shapes[0])
    whole = _Grid(
        directions=_part(matrix, f"{key}.directions", axes.directions, declared.directions, has),
        shapes=axes.shapes or declared.shapes,
        dtypes=_part(matrix, f"{key}.dtypes", axes.dtypes, declared.dtypes, has),
        variants=_part(matrix, f"{key}.variants", axes.variants, tuple(declared.variants), has),
        small_shapes=_part(matrix, f"{key}.small_shapes", axes.small_shapes, declared.small_shapes, has),
    )
    tiers = {
        tier: _narrowed(matrix, f"tiers.{tier}.{name}", kernels.get(name, Axes()), whole)
        for tier, kernels in matrix.tiers.items()
    }
    return _Kernel(name, whole, tiers)


def _narrowed(matrix: Matrix, key: str, axes: Axes, whole: _Grid) -> _Grid:
    has = "a tier only narrows, and the kernel has"
    return _Grid(
        directions=_part(matrix, f"{key}.directions", axes.directions, whole.directions, has),
        shapes=_part(matrix, f"{key}.shapes", axes.shapes, whole.shapes, has),
        dtypes=_part(matrix, f"{key}.dtypes", axes.dtypes, whole.dtypes, has),
        variants=_part(matrix, f"{key}.variants", axes.variants, whole.variants, has),
        small_shapes=_part(matrix, f"{key}.small_shapes", axes.small_shapes, whole.small_shapes, has),
    )


def _part(matrix: Matrix, key: str, chosen: tuple[T, ...] | None, whole: tuple[T, ...], has: str) -> tuple[T, ...]:
    """``chosen`` if it is a part of ``whole``; None is the whole."""
    for index, value in enumerate(chosen or ()):
        if value not in whole:
            entry = f"{key}[{index}]"
            axis = key.rpartition(".")[2].removesuffix("s").replace("_", " ")
            raise MatrixError(
                f"{has} no {axis} {_text(value)!r}",
                place=_place(matrix, entry),
                remedy=nearest(_text(value), map(_text, whole)),
            )
    return chosen or whole


def _check_rank(matrix: Matrix, key: str, shapes: Sequence[Shape], like: Shape) -> None:
    for index, shape in enumerate(shapes):
        if len(shape) != len(like):
            raise MatrixError(
                f"shape {_text(shape)!r} has {len(shape)} axes where the kernel case has {len(like)}",
                place=_place(matrix, f"{key}[{index}]"),
                remedy=f"write a shape such as {_text(like)}",
            )


def _text(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _place(matrix: Matrix, key: str) -> str:
    return f"{matrix.places.get(key, matrix.path)}: {key}"


# --------------------------------------------------------------------------
# Targets


def _known_as(name: str, known: Collection[str], resolve: Callable[[str], str]) -> str:
    """The catalogue's name of a target; the name itself where there is none."""
    if name in known or name in (INTERPRETER, ALL):
        return name
    try:
        return resolve(name)
    except CatalogError:  # refused where its place is known
        return name


def _canonical(matrix: Matrix, name_of: Callable[[str], str]) -> Matrix:
    """The matrix with each target under the catalogue's name."""

    def renamed(rules: Iterable[Rule]) -> tuple[Rule, ...]:
        return tuple(
            replace(rule, select=replace(rule.select, target=name_of(rule.select.target)))
            if rule.select.target
            else rule
            for rule in rules
        )

    return replace(
        matrix,
        targets=tuple(map(name_of, matrix.targets)),
        expectations=renamed(matrix.expectations),
        exclusions=renamed(matrix.exclusions),
    )


def _check_targets(matrix: Matrix, known: Collection[str]) -> None:
    for index, name in enumerate(matrix.targets):
        place = _place(matrix, f"targets[{index}]")
        if name not in known:
            raise MatrixError(f"unknown target {name!r}", place=place, remedy=nearest(name, known))
        if name in matrix.targets[:index]:
            raise MatrixError(f"{name!r} is listed twice, under two names", place=place, remedy="remove one of the two")


def _chosen(selection: Selection, matrix: Matrix, present: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    chosen = selection.choose(matrix.targets, present)
    for name in chosen:
        if name != INTERPRETER and name not in known:
            raise CatalogError(
                f"unknown target {name!r}", place="--portkit-target", remedy=nearest(name, {*known, INTERPRETER, ALL})
            )
    return chosen


# --------------------------------------------------------------------------
# Cells


def _points(kernel: _Kernel, tier: str, gpus: _Gpus) -> Iterator[tuple[Cell, Evidence]]:
    grid = kernel.tiers[tier]
    targets = [name for name in gpus.chosen if name != INTERPRETER]
    for direction in grid.directions:
        for shape, dtype, variant, target in product(grid.shapes, grid.dtypes, grid.variants, targets):
            cell = Cell(kernel.name, direction, shape, dtype, variant, target)
            yield cell, Evidence.COMPILED
            if target in gpus.present:
                yield replace(cell, partition=gpus.partitions.get(target)), Evidence.MEASURED
        small = gpus.on_small_shapes(grid.variants)
        for shape, dtype, (variant, target, evidence) in product(grid.small_shapes, grid.dtypes, small):
            yield Cell(kernel.name, direction, shape, dtype, variant, target), evidence


class _Rules:
    """Attaches the first exclusion or expectation that matches.

    Only rules for this Triton are there. Answers are kept, by shape only where a rule
    looks at shapes.
    """

    def __init__(
        self,
        matrix: Matrix,
        triton: str | None,
        variants: Mapping[str, Mapping[str, Mapping[str, Any]]],
        platforms: Mapping[str, Platform],
    ) -> None:
        self._variants, self._platforms = variants, platforms
        self._exclusions = _in_force(matrix.exclusions, triton)
        self._expectations = _in_force(matrix.expectations, triton)
        selectors = [rule.select for rule in self._exclusions] + [rule.select for rule in self._expectations]
        self._by_shape = any(select.shape for select in selectors)
        self._found: dict[tuple[Any, ...], tuple[str | None, Expectation | None]] = {}

    def __call__(self, cell: Cell, evidence: Evidence) -> PlannedCell:
        shape = cell.shape if self._by_shape else None
        key = (cell.case, cell.direction.value, cell.target, cell.dtype, cell.variant, evidence.value, shape)
        if key not in self._found:
            self._found[key] = self._find(cell, evidence)
        excluded, expectation = self._found[key]
        return PlannedCell(cell, evidence, excluded, expectation)

    def _find(self, cell: Cell, evidence: Evidence) -> tuple[str | None, Expectation | None]:
        exclusion = _first(self._exclusions, cell, evidence)
        if exclusion is not None:
            return exclusion.reason, None
        expectation = _first(self._expectations, cell, evidence)
        platform = self._platforms.get(cell.target)
        if expectation is None and platform:
            return foreign(self._variants[cell.case][cell.variant], platform), None
        return None, expectation


def _in_force(rules: Iterable[Rule], triton: str | None) -> tuple[Rule, ...]:
    """Rules without a range of Triton versions, and those whose range has this one."""
    return tuple(rule for rule in rules if rule.select.triton is None or _within_range(rule, triton))


def _within_range(rule: Rule, triton: str | None) -> bool:
    if triton is None:
        return False
    try:
        version = Version(triton)
    except InvalidVersion:
        raise MatrixError(
            f"this host's Triton calls itself {triton!r}, which is no version that a range could hold",
            place=rule.place,
            remedy="remove `triton:` from the rule, or use a release of Triton",
        ) from None
    return SpecifierSet(rule.select.triton or "").contains(version, prereleases=True)


def _first(rules: Iterable[Rule], cell: Cell, evidence: Evidence) -> Rule | None:
    return next((rule for rule in rules if rule.select.matches(cell, evidence)), None)


def _plan_hash(cells: Iterable[PlannedCell]) -> str:
    return digest(
        [
            [cell.label, cell.excluded is not None, cell.expectation.status if cell.expectation else None]
            for cell in cells
        ]
    )


# --------------------------------------------------------------------------
# Rules that select nothing


def _check_rules(matrix: Matrix, kernels: Sequence[_Kernel], emulatable: Collection[str]) -> None:
    """Refuse a rule that no cell of any tier, target and evidence could meet."""
    read = {kernel.name for kernel in kernels}
    all_read = all(kernel.source.name in read for kernel in matrix.kernels)
    rules: tuple[Expectation | ExclusionRule, ...] = (*matrix.expectations, *matrix.exclusions)
    for rule in rules:
        # A kernel that could not be read may be the one that the rule means.
        if not (rule.select.kernel in read or (rule.select.kernel is None and all_read)):
            continue
        if not any(_selects(rule.select, kernel, matrix.targets, emulatable) for kernel in kernels):
            raise MatrixError(
                "the rule selects no cell of the whole matrix",
                place=rule.place,
                remedy=_near_rule(rule.select, kernels),
            )


def _selects(select: Selector, kernel: _Kernel, targets: Sequence[str], emulatable: Collection[str]) -> bool:
    gpu = Evidence.COMPILED, Evidence.MEASURED
    first_variants = {grid.variants[0] for grid in kernel.tiers.values()}
    emulated = replace(kernel.whole, shapes=kernel.whole.small_shapes)
    interpreted = replace(emulated, variants=tuple(first_variants))
    return select.kernel in (None, kernel.name) and (
        _within(select, targets, gpu, kernel.whole)
        or _within(select, [name for name in targets if name in emulatable], [Evidence.EMULATED], emulated)
        or _within(select, [INTERPRETER], [Evidence.INTERPRETED], interpreted)
    )


def _within(select: Selector, targets: Collection[str], evidence: Collection[Evidence], grid: _Grid) -> bool:
    axes: list[tuple[Any, Collection[Any]]] = [
        (select.target, targets),
        (select.evidence, evidence),
        (select.direction, grid.directions),
        (select.shape, grid.shapes),
        (select.dtype, grid.dtypes),
        (select.variant, grid.variants),
    ]
    return all(wanted is None or wanted in values for wanted, values in axes)


def _near_rule(select: Selector, kernels: Sequence[_Kernel]) -> str:
    named = [kernel for kernel in kernels if select.kernel in (None, kernel.name)]
    axes = (
        ("direction", select.direction, {way for kernel in named for way in kernel.whole.directions}),
        (
            "shape",
            select.shape,
            {shape for kernel in named for shape in (*kernel.whole.shapes, *kernel.whole.small_shapes)},
        ),
        ("dtype", select.dtype, {dtype for kernel in named for dtype in kernel.whole.dtypes}),
        ("variant", select.variant, {variant for kernel in named for variant in kernel.whole.variants}),
    )
    for axis, wanted, values in axes:
        if wanted is not None and wanted not in values:
            return f"{axis} {_text(wanted)!r}: {nearest(_text(wanted), map(_text, values))}"
    return f"remove it, or mend its {', '.join(SELECTORS)}: no cell has all of them together"
