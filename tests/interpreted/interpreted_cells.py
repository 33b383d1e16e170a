"""Interprets cells in a process of its own; run as a script.

The interpreter is chosen when Triton is imported, so the tests' own process, which may
have Triton loaded to compile, can't be used. Reads ``[[path, name, smallest], …]`` as JSON from
standard input; writes one JSON object per cell of those cases' small shapes, or of the smallest, and dtypes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from typing import Any


def results(path: str, name: str, smallest: bool) -> list[dict[str, Any]]:
    from portkit.model import INTERPRETER, CaseSource, Cell
    from portkit.run.interpret import interpret_cell
    from portkit.run.load import load_case

    case = load_case(CaseSource(name, path=path))
    variant = next(iter(case.variants))
    shapes = (min(case.small_shapes, key=math.prod),) if smallest else case.small_shapes
    cells = [
        Cell(name, direction, shape, dtype, variant, INTERPRETER)
        for direction in case.directions
        for shape in shapes
        for dtype in case.dtypes
    ]
    return [plain(interpret_cell(case, cell)) for cell in cells]


def plain(result: Any) -> dict[str, Any]:
    """The result as JSON takes it, blobs as text."""
    fields = dataclasses.asdict(result)
    return {**fields, "blobs": {name: content.decode() for name, content in result.blobs.items()}}


if __name__ == "__main__":
    for asked in json.load(sys.stdin):
        for result in results(*asked):
            print(json.dumps(result))
