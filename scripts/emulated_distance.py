#!/usr/bin/env python3
"""How far outputs of emulated cells lie from those of the same cells on a GPU, case by case.

    python scripts/emulated_distance.py --run reports/local/distance     # on a host with an H200
    python scripts/emulated_distance.py --run reports/local/distance --untimed 7 -- -k measured   # one side alone
    python scripts/emulated_distance.py reports/local/distance/*.jsonl   # anywhere, of reports that are there
    python scripts/emulated_distance.py --check reports/distance-h200-2026-11-30/*.jsonl   # is it the whole tier?

Emulated are small shapes and measured are large ones, so ``--run`` makes a matrix of its own, of ``suite.yaml``'s
tier ``small`` at the small shapes, and runs both evidences of each cell; options behind ``--`` go to pytest, such as
``-k emulated`` where the GPU is another host's. With ``--untimed`` measured cells are only judged, so many at once, and
``-k measured`` leaves the others out. Inputs are the same to the bit, which their hash says.

Compared are the elements that fingerprints keep: of each output 1,024, or all where there are no more. ulp are steps
between neighbouring numbers of the output's dtype. ``of the limit`` is the furthest distance in the measure of the
cell's verdict, ``|emulated - measured| / (|measured| + rms)``, over the limit of that verdict: 1 is as far from each
other as the verdict lets either be from float64. Codes and indices have no such limit, and are to be equal to the
bit. Exit code 1 where a cell is beyond it, with ``--check`` also where a cell of the tier was not compared from
the kernel's source and the variant's parameters of today.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bounded import split, until
from given import reports
from ruamel.yaml import YAML
from tabulate import tabulate
from told import seconds, told

from portkit.analysis.distance import FINGERPRINT, ordinal, value
from portkit.errors import HostError
from portkit.model import DTYPE_BYTES, Cell, Evidence, PlannedCell, Record, cell_key
from portkit.plan.expand import Emulate, Selection
from portkit.run.benchmark import Choices, Prepared, Run, prepare
from portkit.run.counters.taking import Choice
from portkit.run.interrupt import Interruptions
from portkit.run.probes import OFF
from portkit.store.journal import read_blob, read_report

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "suite.yaml"
QUANTILES = (50, 90, 99, 100)
SIDES = (Evidence.MEASURED, Evidence.EMULATED)


@dataclass(frozen=True)
class Apart:
    """One output of a cell, emulated beside measured."""

    case: str
    ulp: np.ndarray  # float64, an element each; inf where one alone is NaN or Inf
    equal: bool  # every bit of the whole output
    of_limit: float | None  # None: the verdict has no such limit, as of codes and indices


Pair = tuple[tuple[Path, Record], ...]
"""A cell measured and emulated: each record with its report."""


def pairs(paths: Iterable[Path], target: str) -> Iterator[Pair]:
    """Records of cells measured and emulated on that target from one source and equal inputs, the newest of each."""
    found: dict[tuple[Cell, str, str], dict[Evidence, tuple[Path, Record]]] = {}
    for path in sorted(paths, key=lambda each: each.stem):
        for record in read_report(path).records:
            if record.cell.target == target and record.verdict and FINGERPRINT in record.blobs:
                key = record.cell, record.keys.source_hash, record.verdict.input_hash
                found.setdefault(key, {})[record.evidence] = path, record
    both = ([each[side] for side in SIDES if side in each] for each in found.values())
    return (tuple(each) for each in both if len(each) == len(SIDES))


def apart(pair: Pair) -> Iterator[Apart]:
    """Each output of a cell."""
    measured, emulated = (json.loads(read_blob(path, record.blobs[FINGERPRINT])) for path, record in pair)
    _, record = pair[0]
    limits = {each.name: each.limit for each in record.verdict.outputs} if record.verdict else {}
    for one, other in zip(measured["outputs"], emulated["outputs"], strict=True):
        equal = one["hash"] == other["hash"]
        yield Apart(
            record.cell.case, steps(one, other), equal, 0.0 if equal else _of(limits.get(one["name"]), one, other)
        )


def steps(one: Mapping[str, Any], other: Mapping[str, Any]) -> np.ndarray:
    """Steps between the elements of two outputs; NaN of any payload are alike, and so are zeros of either sign."""
    first, second = values(one), values(other)
    places = [np.array([ordinal(bits, one["dtype"]) for bits in _elements(each)], float) for each in (one, other)]
    alike = (first == second) | (np.isnan(first) & np.isnan(second))
    apart = np.where(np.isfinite(first) & np.isfinite(second), np.abs(places[0] - places[1]), math.inf)
    return np.where(alike, 0.0, apart)


def values(output: Mapping[str, Any]) -> np.ndarray:
    """The elements of an output that its fingerprint keeps, in float64."""
    return np.array([value(bits, output["dtype"]) for bits in _elements(output)], float)


def _elements(output: Mapping[str, Any]) -> list[int]:
    size, raw = DTYPE_BYTES[output["dtype"]], base64.b64decode(output["bits"])
    return [int.from_bytes(raw[first : first + size], "little") for first in range(0, len(raw), size)]


def _of(limit: float | None, measured: Mapping[str, Any], emulated: Mapping[str, Any]) -> float | None:
    """The furthest distance, as the verdict measures errors, over its limit; None where there is no limit.

    NaN or Inf on one side alone is infinitely far.
    """
    if not limit:
        return None
    if np.isinf(steps(measured, emulated)).any():
        return math.inf
    wanted, got = values(measured), values(emulated)
    count = math.prod(measured["shape"]) - measured["nonfinite"]
    scale = measured["norm"] / math.sqrt(max(1, count)) or 1.0
    finite = np.isfinite(wanted) & np.isfinite(got)
    errors = np.abs(got - wanted)[finite] / (np.abs(wanted[finite]) + scale)
    return float(errors.max(initial=0.0)) / limit


def table(found: Sequence[Apart]) -> str:
    """Quantiles by case in Markdown, then those of all."""
    cases = dict.fromkeys(each.case for each in found)
    rows = [_row(case, [each for each in found if each.case == case]) for case in cases]
    head = ["case", "outputs", "equal bits", "elements", "differing", *_heads(), "of the limit"]
    return tabulate([*rows, _row("all", found)], head, tablefmt="github", disable_numparse=True)


def _heads() -> list[str]:
    return [f"{each} %" if each < max(QUANTILES) else "furthest, ulp" for each in QUANTILES]


def _row(name: str, found: Sequence[Apart]) -> tuple[str, ...]:
    ulp = np.concatenate([each.ulp for each in found])
    limits = [each.of_limit for each in found if each.of_limit is not None]
    quantiles = (f"{each:g}" for each in np.percentile(ulp, QUANTILES, method="higher"))
    share = f"{np.count_nonzero(ulp) / ulp.size:.2%}"
    last = f"{max(limits):.2f}" if limits else "no limit"
    return name, str(len(found)), str(sum(x.equal for x in found)), f"{ulp.size:,}", share, *quantiles, last


def beyond(found: Iterable[Apart]) -> list[str]:
    """Cases with an output that is further than its limit, or that has none and is not equal."""
    return sorted({each.case for each in found if (math.inf if each.of_limit is None else each.of_limit) > 1})


def absent(prepared: Prepared, found: Iterable[Pair]) -> list[str]:
    """Emulated cells of a plan, by their labels, that were not compared from source and parameters of today."""
    compared = {(record.cell, record.keys.source_hash, record.keys.cell_key) for (_, record), _ in found}
    return [each.label for each in emulated_cells(prepared) if _today(each, prepared) not in compared]


def _today(planned: PlannedCell, prepared: Prepared) -> tuple[Cell, str, str]:
    cell, declaration = planned.cell, prepared.declarations[planned.cell.case]
    return cell, declaration.source_hash, cell_key(cell, declaration.variants[cell.variant])


def emulated_cells(prepared: Prepared) -> list[PlannedCell]:
    """What a plan emulates."""
    return [each for each in prepared.plan.cells if each.evidence is Evidence.EMULATED and each.excluded is None]


def plan(target: str) -> Prepared:
    """The suite's tier of all small shapes on a target, with its emulated cells."""
    return prepare(SUITE, tier="small", selection=Selection((target,)), emulate=Emulate.ALL)


def run(folder: Path, target: str, seconds: float | None, options: Sequence[str], untimed: int | None = None) -> None:
    """Measure and emulate the suite's tier at its small shapes.

    Raises:
        HostError: no GPU of the target is here, so that nothing could be compared, and emulated cells alone were not
            asked for.
    """
    prepared = plan(target)
    check_here(prepared, target, options)
    if untimed:
        judge(prepared, folder, untimed)
        if any(Evidence.MEASURED.value in option for option in options):
            return
        options = [*options, "-k", Evidence.EMULATED.value]
    with tempfile.TemporaryDirectory() as at:
        matrix = Path(at) / "small.yaml"
        matrix.write_text(_dumped(small(prepared, target, Path(at))), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "--benchmark", "-q", "-p", "no:cacheprovider", "--portkit-no-texts"]
        chosen = ["--portkit-matrix", str(matrix), "--portkit-target", target, "--portkit-emulate", "all"]
        plain = ["--portkit-baselines", "none", "--portkit-counters", "off", "--portkit-probe", "off"]
        report = ["--portkit-report", str(folder.resolve())]
        until([*command, *chosen, *plain, *report, *options], seconds)


def judge(prepared: Prepared, folder: Path, processes: int) -> None:
    """Judge on the GPU what the plan emulates, without timing it; a report of its own."""
    from untimed import UntimedSession  # noqa: PLC0415 - loads PyTorch, which reports alone don't need

    cells = [replace(each, evidence=Evidence.MEASURED) for each in emulated_cells(prepared)]
    carried_out(prepared, cells, folder, UntimedSession(processes))


def carried_out(prepared: Prepared, cells: Sequence[PlannedCell], folder: Path, session: Any) -> None:
    """Have a session give results of cells, for their outputs alone; a report of its own."""
    choices = Choices(folder.resolve(), baselines=(), counters=Choice.OFF, probing=OFF, texts=False, shared_device=True)
    going = Run(prepared, cells, session, choices, Interruptions())
    state = "interrupted"
    try:
        for planned in cells:
            going.record_of(planned)
        state = "complete"
    finally:
        going.finish(state)


def check_here(prepared: Prepared, target: str, options: Sequence[str]) -> None:
    """Refuse, before anything is emulated, what would leave nothing to compare.

    Raises:
        HostError: no GPU of the target is here, and no ``-k emulated`` says that it is another host's.
    """
    names = {device.target for device in prepared.devices}
    if target not in names and not any(Evidence.EMULATED.value in option for option in options):
        raise HostError(
            f"no GPU of {target} is here, so no cell would be measured",
            place="--run",
            remedy=f"run it on such a host, name one of --target {', '.join(sorted(names))}"
            if names
            else "run it on such a host, or emulate alone with `-- -k emulated` and add that host's report",
        )


def small(prepared: Prepared, target: str, folder: Path) -> dict[str, Any]:
    """A matrix of the suite's tier whose shapes are the small ones."""
    kernels: dict[str, dict[str, Any]] = {}
    for planned in emulated_cells(prepared):
        cell = planned.cell
        path = prepared.declarations[cell.case].source.path
        axes = {
            "shapes": cell.shape_text,
            "dtypes": cell.dtype,
            "variants": cell.variant,
            "directions": str(cell.direction),
        }
        own = kernels.setdefault(cell.case, {"path": os.path.relpath(str(path), folder)})
        for name, each in axes.items():
            own[name] = [*dict.fromkeys([*own.get(name, []), each])]
    return {"version": 1, "kernels": kernels, "targets": [target]}


def _dumped(content: Mapping[str, Any]) -> str:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        YAML(typ="safe").dump(content, file)
        file.seek(0)
        return file.read()


def main(arguments: Sequence[str]) -> int:
    """Run if asked to, and print the table."""
    own, options = split(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help="reports, folders or archives of them")
    parser.add_argument("--target", default="h200", help="(%(default)s)")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run the cells; where the report goes")
    parser.add_argument("--seconds", type=seconds, help="how long the run takes at most (no limit)")
    parser.add_argument("--untimed", type=int, metavar="N", help="judge measured cells alone, N at once (timed)")
    parser.add_argument("--check", action="store_true", help="exit code 1 also where a cell was not compared")
    chosen = parser.parse_args(own)
    if chosen.run:
        run(chosen.run, chosen.target, chosen.seconds, options, chosen.untimed)
    paths = [*reports(chosen.reports), *(chosen.run.glob("*.jsonl") if chosen.run else ())]
    compared = list(pairs(paths, chosen.target))
    found = [output for pair in compared for output in apart(pair)]
    if not found:
        print("no cell was both measured and emulated")
        return 0 if chosen.run else 1
    missing = absent(plan(chosen.target), compared) if chosen.check else []
    print(table(found))
    print(f"{len(compared)} cells", *(f"{case}: beyond its limit" for case in beyond(found)), sep="\n")
    print("".join(f"{label}: not compared from today's source\n" for label in missing), end="")
    return int(bool(beyond(found) or missing))


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
