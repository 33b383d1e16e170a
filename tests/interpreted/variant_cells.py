"""Interprets every variant of cases, in a process of its own; run as a script.

Reads ``[[path, name], …]`` as JSON from standard input; writes one line per cell. The first
variant runs on all small shapes, the others on the smallest, since they differ in blocks
and not in what they compute; with ``[path, name, true]`` on all of them. Autotuned variants are
left out: they need a device's clock; so are those that differ from an earlier one in what the
interpreter has no part in.
"""

from __future__ import annotations

import json
import math
import sys

NOT_HERE = {"by_architecture", "few_rows", "wide_heads", "num_warps", "num_stages", "back_warps", "back_stages"}
NOT_HERE |= {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "maxnreg"}


def cells(case, everywhere=False):
    from portkit.model import INTERPRETER, Cell

    first = next(iter(case.variants))
    smallest = min(case.small_shapes, key=math.prod)
    seen = []
    for variant, parameters in case.variants.items():
        here = {name: value for name, value in parameters.items() if name not in NOT_HERE}
        if parameters.get("tuned") or here in seen:
            continue
        seen.append(here)
        for direction in case.directions:
            for shape in case.small_shapes if everywhere or variant == first else (smallest,):
                for dtype in case.dtypes:
                    yield Cell(case.name, direction, shape, dtype, variant, INTERPRETER)


def main() -> None:
    from portkit.model import CaseSource
    from portkit.run.interpret import interpret_cell
    from portkit.run.load import load_case

    for path, name, *everywhere in json.load(sys.stdin):
        case = load_case(CaseSource(name, path=path))
        for cell in cells(case, *everywhere):
            outcome = interpret_cell(case, cell).outcome
            print(json.dumps([str(cell), cell.dtype, outcome.status.value, outcome.message]))


if __name__ == "__main__":
    main()
