"""Shared by all tests.

Slow ones are left out unless ``-m`` speaks of them, as ``-m "slow or not slow"`` does, or a test is named by its id.
"""

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    """Texts are as wide as a test says, whatever the terminal of its caller."""
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_collection_modifyitems(config, items):
    if "slow" in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
