"""The reports of the repository that its documents, pictures and tests are made from."""

from __future__ import annotations

from pathlib import Path

REPORTS = Path(__file__).resolve().parent.parent / "reports"

KEPT = max(REPORTS.glob("h200-????-??-??"))
"""The newest of the default matrix on an H200: one folder more, and all follow it (scripts/quote_reports.py)."""

KEPT_REPORT = max(KEPT.glob("*.jsonl"))
"""The report in it."""

FAILING = max(REPORTS.glob("diverging-????-??-??"))
"""The newest of kernels that do not carry over: a part of tests/diverging/matrix.yaml, built without a GPU."""
