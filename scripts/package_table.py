"""Checks every public operation of a package and prints the table of docs/check-packages.md.

    python scripts/package_table.py PACKAGE [--only NAMES] [--targets NAMES]

PACKAGE names a file of scripts/package_calls: each line is the words of one call, as `portkit check` and comments in
files take them; a line with a function alone is one that no call is written for. All calls of a package are made in
one process a target, which a crash ends for the call under way alone.
"""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from portkit.cli.check_words import declaration
from portkit.model import CaseSource, Cell, CellResult, Direction, Evidence, KernelCase, PlannedCell, Status, Work
from portkit.plan.check import CALL, NO_DTYPE
from portkit.render.columns import escaped
from portkit.run.benchmark import default_limits
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

CALLS = Path(__file__).parent / "package_calls"
PACKAGE = "PORTKIT_PACKAGE"  # tells the processes of the run which file it is
TARGETS = ("a100", "h200", "b200", "mi300x", "rx7900xtx")
NO_CALL = "no call is written for it"


@functools.cache
def calls(package: str) -> dict[str, CaseSource]:
    """The calls of a package by the name of their function; none for those without arguments."""
    lines = (CALLS / f"{package}.txt").read_text(encoding="utf-8").splitlines()
    parsed = [shlex.split(line) for line in lines if line.strip() and not line.startswith("#")]
    return {words[0].partition(":")[2]: declaration(words, package) for words in parsed}


@functools.cache
def _case(number: int) -> KernelCase:
    from portkit.run.checked import case_of  # noqa: PLC0415  # loads torch, in the processes of the run alone
    from portkit.run.load import import_source  # noqa: PLC0415

    source = list(calls(os.environ[PACKAGE]).values())[number]
    assert source.check is not None
    return case_of(source, source.check, import_source)


def _inputs(make: Any, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    case = _case(shape[0])
    return {"0": shape[0], **{f"_{name}": value for name, value in case.inputs(make, shape, dtype).items()}}


def _fused(**given: Any) -> Any:
    return _case(given.pop("0")).fused(**{name[1:]: value for name, value in given.items()})


if PACKAGE in os.environ:
    CASE = KernelCase(
        name="calls",
        fused=_fused,
        reference=_fused,
        inputs=_inputs,
        work=lambda shape, dtype: Work(1, 1, 0),
        shapes=((0,),),
        small_shapes=((0,),),
        dtypes=(NO_DTYPE,),
        variants={CALL: {}},
    )


def results(package: str, only: Sequence[str], targets: Sequence[str]) -> Iterator[CellResult]:
    """What became of each call on each target."""
    catalog = load_catalog()
    os.environ[PACKAGE] = package
    planned = [
        PlannedCell(Cell("calls", _direction(source), (number,), NO_DTYPE, CALL, target), Evidence.COMPILED)
        for target in targets
        for number, (name, source) in enumerate(calls(package).items())
        if not only or name in only
    ]
    session = Session(default_limits())
    try:
        source = CaseSource("calls", path=str(Path(__file__).resolve()))
        for found in session.results(chains_for(planned, {"calls": source}, {t: catalog.get(t) for t in targets})):
            if isinstance(found, CellResult):
                yield found
    finally:
        session.close()


def _direction(source: CaseSource) -> Direction:
    return Direction.BACKWARD if source.check and source.check.backward else Direction.FORWARD


def main() -> None:
    """Print a row for each operation, then the shares that were captured and built."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=sorted(path.stem for path in CALLS.glob("*.txt")))
    parser.add_argument("--only", default="")
    parser.add_argument("--targets", default=",".join(TARGETS))
    given = parser.parse_args()
    targets = given.targets.split(",")
    only = [name for name in given.only.split(",") if name]
    found: dict[str, dict[str, CellResult]] = {}
    names = list(calls(given.package))
    for result in results(given.package, only, targets):
        name = names[result.cell.shape[0]]
        found.setdefault(name, {})[result.cell.target] = result
        print(f"{result.cell.target} {name}: {_text(result)}", file=sys.stderr, flush=True)
    rows = [_row(name, found[name], targets) for name in names if name in found]
    print(tabulate(rows, ["operation", "captured", "launches", *targets, "why"], tablefmt="github"))
    print(f"\n{_shares(found, targets)}")


def _row(name: str, found: dict[str, CellResult], targets: Sequence[str]) -> list[object]:
    statuses = [found[target].outcome.status for target in targets]
    captured = [status is not Status.CAPTURE_FAILED for status in statuses]
    launches = {found[t].build.launch_count for t in targets if (build := found[t].build) and build.launches}
    why = dict.fromkeys(found[t].outcome.message for t in targets if not found[t].outcome.status.good)
    short = "; ".join(text if len(text) <= 160 else f"{text[:157]} …" for text in why)
    share = "yes" if all(captured) else "no" if not any(captured) else "in part"
    counts = " or ".join(str(n) for n in sorted(launches)) or "–"
    return [f"`{name}`", share, counts, *("–" if s is Status.CAPTURE_FAILED else s for s in statuses), escaped(short)]


def _shares(found: dict[str, dict[str, CellResult]], targets: Sequence[str]) -> str:
    lines = [f"{len(found)} operations."]
    for target in targets:
        outcomes = Counter(each[target].outcome.status for each in found.values())
        captured = len(found) - outcomes[Status.CAPTURE_FAILED]
        launches, failed = _launches([each[target] for each in found.values()])
        lines.append(
            f"{target}: captured {captured} ({_percent(captured, len(found))}), "
            f"of them built {outcomes[Status.BUILT]} ({_percent(outcomes[Status.BUILT], captured)}); "
            f"of {launches} launches {launches - failed} are built ({_percent(launches - failed, launches)})."
        )
    return "\n".join(lines)


def _launches(results: Sequence[CellResult]) -> tuple[int, int]:
    """Launches of all operations that were captured, and those that do not build: one where an operation is refused."""
    captured = [each for each in results if each.outcome.status is not Status.CAPTURE_FAILED]
    failed = [each for each in captured if each.outcome.status is not Status.BUILT]
    known = sum(each.build.launch_count if each.build else 0 for each in captured)
    over = sum(any(launch.limits_broken for launch in each.build.launches) for each in failed if each.build)
    return known + len(failed) - over, len(failed)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _text(result: CellResult) -> str:
    return f"{result.outcome.status} {result.outcome.message}".strip()[:300]


if __name__ == "__main__":
    main()
