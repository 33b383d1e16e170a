"""Fits the tables of quadratics by which NVIDIA's special-function unit approximates, to results of a GPU.

    python scripts/fit_interpolation.py RECORDED.npz

The file has ``x`` and ``y`` of each function, float32 as their bits: ``ex2_x``, ``ex2_y``, and so on for ``rcp``,
``rsqrt`` and ``sqrt``, of ``.approx.ftz.f32``. The unit takes the upper bits of its argument as a number of a segment,
and a quadratic of the rest; the sum is cut off. A linear program finds the quadratic that lies furthest within what the
results leave it. Writes ``portkit/emulate/ptx/data/interpolation.json``, and prints how many results the tables miss.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from portkit.emulate.ptx.isa.interpolation import FUNCTIONS, Arguments

TARGET = Path(__file__).parents[1] / "portkit" / "emulate" / "ptx" / "data" / "interpolation.json"
DIGITS = 4
"""Of the coefficients, which are in units of the last place of the result."""


def main(recorded: Path) -> None:
    """Fit all functions."""
    arrays = np.load(recorded)
    tables = {}
    for name, function in FUNCTIONS.items():
        x, y = (arrays[f"{name}_{side}"].view(np.float32) for side in "xy")
        plain = np.isfinite(y) & function.regular(x)
        given = function.arguments(x[plain])
        wanted = np.ldexp(y[plain].astype(np.float64), -given.power)
        table = [_quadratic(given, wanted, segment) for segment in range(function.segments)]
        table[0][0] = max(table[0][0], 2.0 ** round(np.log2(table[0][0])))  # of 1 the result is 1
        tables[name] = table
        missed = np.count_nonzero(function.sums(np.array(table), given) != wanted)
        print(f"{name}: {missed} of {len(wanted)} results are another's")
    TARGET.write_text(json.dumps(tables) + "\n")


def _quadratic(given: Arguments, wanted: np.ndarray, segment: int) -> list[float]:
    """Coefficients of one segment, the constant first."""
    mine = given.segment == segment
    rest, results = given.rest[mine], wanted[mine]
    near = np.polynomial.polynomial.polyfit(rest, results + 0.5, 2)
    powers = np.vander(rest, 3, increasing=True)
    left = results - powers @ near
    ones = np.ones((len(rest), 1))
    bounds = np.vstack([np.hstack([-powers, ones]), np.hstack([powers, ones])])
    found = linprog(
        [0, 0, 0, -1],
        A_ub=bounds,
        b_ub=np.concatenate([-left, left + 1]),
        bounds=[(None, None)] * 3 + [(None, 1)],
        method="highs",
    )
    return [round(float(each), DIGITS) for each in near + found.x[:3]]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
