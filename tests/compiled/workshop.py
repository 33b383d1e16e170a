"""Builds cells of test cases in real worker processes."""

from __future__ import annotations

from pathlib import Path

from portkit.model import CaseSource, Cell, CellResult, Direction, Evidence, PlannedCell, Target
from portkit.run.binaries.amdgcn_text import allocated_registers
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import waves_per_simd

CASES = Path(__file__).parent / "cases"


class Workshop:
    """Hands cells to one session and returns its results."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.catalog = load_catalog()

    def build(self, source: CaseSource, cells: list[Cell]) -> dict[Cell, CellResult]:
        """Results by cell; asserts that every cell got exactly one."""
        planned = [PlannedCell(cell, Evidence.COMPILED) for cell in cells]
        targets = {cell.target: self.catalog.get(cell.target) for cell in cells}
        results = list(self.session.results(chains_for(planned, {source.name: source}, targets)))
        assert sorted(map(str, cells)) == sorted(str(result.cell) for result in results)
        for result in results:
            check_waves(self.catalog.get(result.cell.target), result)
        return {result.cell: result for result in results}

    def build_case(self, file: str, name: str, *targets: str, shape=(4096,), dtype="float32") -> list[CellResult]:
        """Results of one case of tests/compiled/cases, one per target, in order."""
        source = CaseSource(name, path=str(CASES / file))
        cells = [Cell(name, Direction.FORWARD, shape, dtype, "default", target) for target in targets]
        results = self.build(source, cells)
        return [results[cell] for cell in cells]

    def build_cases(self, file: str, *cells: Cell) -> list[CellResult]:
        """Results of cells of any cases of one file, in order, with as many processes at once as there are cores."""
        sources = {cell.case: CaseSource(cell.case, path=str(CASES / file)) for cell in cells}
        planned = [PlannedCell(cell, Evidence.COMPILED) for cell in cells]
        targets = {cell.target: self.catalog.get(cell.target) for cell in cells}
        results = {result.cell: result for result in self.session.results(chains_for(planned, sources, targets))}
        return [results[cell] for cell in cells]


def cell_of(name: str, target: str, shape=(256,), dtype="float32", direction=Direction.FORWARD) -> Cell:
    """A cell of a test case."""
    return Cell(name, direction, shape, dtype, "default", target)


def check_waves(target: Target, result: CellResult) -> None:
    """Our waves per SIMD from registers alone are LLVM's, for every AMD kernel that a test builds."""
    for launch in result.build.launches if result.build else ():
        if (llvm := launch.resources.raw.get("llvm_waves_per_simd")) is not None:
            needs = allocated_registers(launch.resources), launch.resources.raw["sgpr_count"]
            assert waves_per_simd(target.architecture, *needs) == llvm
