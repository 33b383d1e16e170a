"""The report that documents, pictures and tests are made from, as scripts/kept.py names it."""

import runpy
from pathlib import Path

_NAMED = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "kept.py"))

KEPT: Path = _NAMED["KEPT"]
FAILING: Path = _NAMED["FAILING"]
KEPT_REPORT: Path = _NAMED["KEPT_REPORT"]
