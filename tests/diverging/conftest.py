"""Rows that take a compiler long are left out unless ``-m`` speaks of them: ``-m "slow or not slow"`` is all."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="builds need torch")
pytest.importorskip("triton", reason="builds need Triton")

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    if "slow" in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if HERE in item.path.parents and item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
