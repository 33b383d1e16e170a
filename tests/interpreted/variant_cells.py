"""Interprets every variant of cases, in a process of its own; run as a script.

Reads ``[[path, name, everywhere], …]`` as JSON from standard input; writes one line per cell, which
begins with the name and ``everywhere``. The first variant runs on all small shapes, the others on
the smallest, since they differ in blocks and not in what they compute. The smallest is run in every
dtype, each other shape in one of them in turn. Where ``everywhere`` is true, every variant runs on
every shape in every dtype. Autotuned variants are left out: they need a device's clock; so are those
that differ from an earlier one in what the interpreter has no part in.
"""

from __future__ import annotations

import itertools
import json
import math
import sys

NOT_HERE = {"by_architecture", "few_rows", "wide_heads", "num_warps", "num_stages", "back_warps", "back_stages"}
NOT_HERE |= {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "maxnreg"}


def cells(case, everywhere=False):
    from portkit.model import INTERPRETER, Cell

    first = next(iter(case.variants))
    smallest = min(case.small_shapes, key=math.prod)
    dtypes = dict.fromkeys(case.small_shapes, case.dtypes) if everywhere else in_turn(case, smallest)
    seen = []
    for variant, parameters in case.variants.items():
        here = {name: value for name, value in parameters.items() if name not in NOT_HERE}
        if parameters.get("tuned") or here in seen:
            continue
        seen.append(here)
        for direction in case.directions:
            for shape in case.small_shapes if everywhere or variant == first else (smallest,):
                for dtype in dtypes[shape]:
                    yield Cell(case.name, direction, shape, dtype, variant, INTERPRETER)


def in_turn(case, smallest):
    """Shape → dtypes: all of the smallest, one of each other, not bfloat16, which products lack in the interpreter."""
    served = [dtype for dtype in case.dtypes if dtype != "bfloat16"] or case.dtypes
    others = [shape for shape in case.small_shapes if shape != smallest]
    return {smallest: case.dtypes, **{s: (d,) for s, d in zip(others, itertools.cycle(served), strict=False)}}


def main() -> None:
    from portkit.model import CaseSource
    from portkit.run.interpret import interpret_cell
    from portkit.run.load import load_case

    for path, name, everywhere in json.load(sys.stdin):
        case = load_case(CaseSource(name, path=path))
        for cell in cells(case, everywhere):
            outcome = interpret_cell(case, cell).outcome
            print(json.dumps([name, everywhere, str(cell), cell.dtype, outcome.status.value, outcome.message]))


if __name__ == "__main__":
    main()
